"""Importing nbckpt costs next to nothing: libraries are loaded when they are first needed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

HEAVY = ["IPython", "ipywidgets", "jinja2", "tabulate", "fsspec", "numpy", "pandas", "cloudpickle", "blake3"]


@cache
def loaded_by(code: str) -> frozenset[str]:
    """Return the modules that a program loads in a process of its own."""
    script = f"import sys\n{code}\nprint(*sys.modules)"
    root = str(Path(__file__).parents[1])
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": root, "IPYTHONDIR": folder},
        )
    return frozenset(done.stdout.split("\n")[-2].split())


def test_importing_nbckpt_imports_only_what_finds_its_names() -> None:
    loaded = loaded_by("import nbckpt; dir(nbckpt); hasattr(nbckpt, 'Nope'); hasattr(nbckpt, 'Trainable')")
    assert {name for name in loaded if name.startswith("nbckpt")} == {"nbckpt", "nbckpt.lazy"}
    assert loaded.isdisjoint(HEAVY)


def test_a_public_name_is_imported_on_first_use() -> None:
    assert "nbckpt.tracker" in loaded_by("from nbckpt import Tracker")


def test_objects_with_a_repr_import_no_templates() -> None:
    code = "import nbckpt; nbckpt.Tracker(); repr(nbckpt.Checkpoint.from_dict({'x': 1})); nbckpt.State('x')"
    assert loaded_by(code).isdisjoint({"jinja2", "tabulate", "numpy", "pandas", "IPython"})


USED_LATER = {
    *("tenacity", "jinja2", "tabulate", "ipywidgets", "cloudpickle", "fsspec", "filelock", "tqdm"),
    *("numpy", "pandas", "matplotlib", "torch", "ray", "optuna", "tornado"),
}
SHELL = "from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n"
LOAD = "shell.run_line_magic('load_ext', 'nbckpt')\n"


def test_loading_the_extension_imports_no_command_and_no_library() -> None:
    loaded = loaded_by(SHELL + LOAD) - loaded_by(SHELL)
    assert loaded.isdisjoint(USED_LATER | {"asyncio", "ssl", "subprocess"})
    ours = {name.removeprefix("nbckpt.").split(".")[0] for name in loaded if name.startswith("nbckpt.")}
    assert ours == {"commands", "errors", "lazy", "notebook", "render", "settings", "suggestion"}
    assert not {name for name in loaded if name.startswith("nbckpt.commands.")} - {
        "nbckpt.commands.options",
        "nbckpt.commands.table",
    }


@pytest.mark.slow
def test_the_first_command_imports_no_tenacity_and_no_trials() -> None:
    loaded = loaded_by(SHELL + LOAD + "x = shell.run_line_magic('ckpt', 'ls')\n") - loaded_by(SHELL)
    assert loaded.isdisjoint(
        {"tenacity", "asyncio", "ipywidgets", "fsspec", "nbckpt.trials.engine.experiment"}
    )


def test_ls_in_a_shell_imports_only_its_own_modules() -> None:
    loaded = loaded_by("from nbckpt.cli import main\nmain(['ls'])")
    used = {"tenacity", "asyncio", "jinja2", "ipywidgets", "fsspec", "IPython", "numpy", "pandas", "filelock"}
    assert loaded.isdisjoint(used)
    ours = {name for name in loaded if name.startswith(("nbckpt.trials.", "nbckpt.sync", "nbckpt.notebook"))}
    assert ours == {"nbckpt.trials.home"}


def test_running_trials_does_not_import_tenacity() -> None:
    code = "import nbckpt\nnbckpt.run(lambda config: None, executor='inline', folder='.').wait()"
    assert "tenacity" not in loaded_by(code)


def test_the_table_has_every_command_and_its_function() -> None:
    from nbckpt.commands import TABLE

    assert list(TABLE) == [command.name for command in TABLE.values()]
    assert list(TABLE) == [command.run.__name__.rstrip("_") for command in TABLE.values()]
    assert {command.run.__module__.rpartition(".")[0] for command in TABLE.values()} == {"nbckpt.commands"}


def test_compat_is_imported_on_request_and_never_imports_ray() -> None:
    assert not [
        name for name in loaded_by("import nbckpt, nbckpt.trials") if name.startswith("nbckpt.compat")
    ]
    everything = loaded_by("from nbckpt.compat import adaptdl, ray_air, ray_tune")
    assert everything.isdisjoint({"ray", "optuna", "torch", "pandas", "numpy", "IPython"})
