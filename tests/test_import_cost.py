"""Importing nbckpt costs next to nothing: libraries are loaded when they are first needed."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ["IPython", "ipywidgets", "jinja2", "tabulate", "fsspec", "numpy", "pandas", "cloudpickle", "blake3"]


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_nbckpt_loads_no_library() -> None:
    assert loaded_by("import nbckpt").isdisjoint(HEAVY)


def test_loading_the_extension_loads_neither_widgets_nor_templates_nor_numpy() -> None:
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "InteractiveShell.instance().run_line_magic('load_ext', 'nbckpt')"
    )
    assert loaded_by(code).isdisjoint({"ipywidgets", "jinja2", "tabulate", "fsspec", "numpy", "pandas"})


def test_a_public_name_is_imported_when_it_is_used() -> None:
    assert "nbckpt.tracker" in loaded_by("from nbckpt import Tracker")


def test_using_what_shows_itself_loads_no_templates() -> None:
    code = "import nbckpt; nbckpt.Tracker(); repr(nbckpt.Checkpoint.from_dict({'x': 1})); nbckpt.State('x')"
    assert loaded_by(code).isdisjoint({"jinja2", "tabulate", "numpy", "pandas", "IPython"})
