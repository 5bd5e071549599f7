"""The public names: every one is there, and nothing else is."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import nbckpt

FACE = {
    *("run", "track", "open_experiment", "find_trials", "Experiment", "Trial"),
    *("report", "get_checkpoint", "should_checkpoint", "get_context"),
    *("grid_search", "choice", "uniform", "loguniform", "quniform", "randint", "lograndint", "sample_from"),
    *("Checkpoint", "Tracker", "State", "load_state", "save_all_states", "SyncConfig", "data"),
    *("NbckptError", "UsageError", "NotFoundError"),
}
HOOKS = {"load_ipython_extension", "unload_ipython_extension"}
NAMESPACES = [
    *("", ".errors", ".media", ".mirror", ".notebook", ".settings", ".states", ".store", ".sync"),
    *(".testing", ".tracker", ".trials", ".trials.executors"),
]
LAZY = ["nbckpt", "nbckpt.mirror", "nbckpt.notebook", "nbckpt.sync", "nbckpt.trials"]
MOVED = {
    "Checkpoint": "FILES",
    "errors": "CodecError CorruptError FormatError RefusedError StoreError TrialError UntrustedError",
    "notebook": "panel",
    "settings": "Settings",
    "states": "RandomState states_checkpoint save_state save_on_signal should_stop save_and_exit replica",
    "sync": "Syncer",
    "trials": "SyncerCallback RetentionPolicy Callback DurableTrainable durable wrap_function checkpoint_dir "
    "Trainable",
}
"""The names that were in `nbckpt` before, by their new homes."""


def names_in_user_programs() -> set[str]:
    """Return the names of nbckpt that the programs of tests/typing use, with their modules."""
    programs = (Path(__file__).parent / "typing").glob("*.py")
    return {name for program in programs for name in names_of(ast.parse(program.read_text()))}


def names_of(program: ast.Module) -> Iterator[str]:
    """Yield each name that a program imports, and each attribute of what it imports."""
    imported = {"nbckpt": "nbckpt"}
    for node in ast.walk(program):
        if isinstance(node, ast.ImportFrom):
            imported |= {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    yield from imported.values()
    for node in ast.walk(program):
        if isinstance(node, ast.Attribute):
            first, *rest = ast.unparse(node).split(".")
            yield ".".join([imported.get(first, first), *rest])


def public(namespace: str) -> list[str]:
    """Return the public names of a module: `__all__`, or the classes that it defines."""
    module = import_module(f"nbckpt{namespace}")
    classes = inspect.getmembers(module, inspect.isclass)
    return getattr(module, "__all__", [name for name, kind in classes if kind.__module__ == module.__name__])


def names_for_type_checkers(module: ModuleType) -> dict[str, str]:
    """Return the names that a package imports for type checkers only, with the modules that hold them."""
    assert module.__file__
    blocks = [
        node
        for node in ast.parse(Path(module.__file__).read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname: str(node.module) for node in imports for alias in node.names if alias.asname}


def test_the_face_has_these_names_and_no_other() -> None:
    assert set(nbckpt.__all__) == FACE | HOOKS


def test_typed_programs_use_every_public_name() -> None:
    names = {f"nbckpt{namespace}.{name}" for namespace in NAMESPACES for name in public(namespace)}
    assert names - names_in_user_programs() == set()


def test_every_public_name_is_there_and_documented() -> None:
    assert [name for name in nbckpt.__all__ if not inspect.getdoc(getattr(nbckpt, name))] == []


@pytest.mark.parametrize("package", LAZY)
def test_one_list_makes_imports_dir_and_types(package: str) -> None:
    module = import_module(package)
    types = names_for_type_checkers(module)
    defined = HOOKS if module is nbckpt else set[str]()
    assert dir(module) == sorted(types.keys() | defined)
    assert set(module.__all__) == {name for name, home in types.items() if home != package} | defined
    for name, home in types.items():
        value = getattr(module, name)
        assert value is (
            sys.modules[f"{package}.{name}"] if home == package else vars(sys.modules[home])[name]
        )


@pytest.mark.parametrize("package", LAZY)
def test_no_module_of_a_package_has_the_name_of_a_function(package: str) -> None:
    """An import of the module would replace the function."""
    names = import_module(package).__all__
    assert {name for name in names if find_spec(f"{package}.{name}")} == set()


@pytest.mark.slow
def test_a_namespace_needs_no_import_of_its_own() -> None:
    names = [name for name in dir(nbckpt) if name not in nbckpt.__all__]
    assert {"errors", "notebook", "settings", "states", "store", "sync", "testing", "trials"} <= set(names)
    code = (
        f"import sys\nfor name in {names}:\n"
        "    for loaded in [each for each in sys.modules if each.startswith('nbckpt')]:\n"
        "        del sys.modules[loaded]\n"
        "    import nbckpt\n"
        "    assert getattr(nbckpt, name).__name__ == f'nbckpt.{name}'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_namespace_without_its_package_names_it() -> None:
    code = (
        "import sys, inspect; sys.modules['pytest'] = None\n"
        "import nbckpt; assert not hasattr(nbckpt, 'testing')\n"
        "inspect.getmembers(nbckpt)\n"
        "try: from nbckpt import testing\nexcept ImportError as error: assert 'pytest' in str(error)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nope'"):
        _ = nbckpt.Nope


def test_a_name_that_moved_says_where_it_is(subtests: pytest.Subtests) -> None:
    places = {name: f"nbckpt.{home}.{name}" for home, names in MOVED.items() for name in names.split()}
    for name, new in (places | {"state": "nbckpt.states"}).items():
        with subtests.test(name):
            with pytest.raises(AttributeError, match=rf"nbckpt\.{name} is now {new}$"):
                getattr(nbckpt, name)
            with pytest.raises(ImportError, match=rf"nbckpt\.{name} is now {new}$"):
                exec(f"from nbckpt import {name}")
            assert not hasattr(nbckpt, name)
            resolve(new)


ROOT = Path(__file__).parents[1]
TEXTS = [
    *(path for path in (ROOT / "nbckpt").rglob("*.py") if path.name != "classes.py"),  # it has the old names
    *(ROOT / name for name in ("README.md", "FORMAT.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "notebooks").glob("*.ipynb"),
]
NOT_NAMES = {"nbckpt.created_at", "nbckpt.experiment", "nbckpt.executors", "nbckpt.trial"}
"""Tags in other libraries' databases, and the group of entry points."""


def test_every_name_in_a_text_exists() -> None:
    texts: dict[str, list[str]] = {}
    for path in TEXTS:
        for name in set(re.findall(r"(?<![\w./~-])nbckpt(?:\.[A-Za-z_]\w*)+", path.read_text())) - NOT_NAMES:
            texts.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert len(texts) > 100
    assert {name: paths for name, paths in texts.items() if not exists(name)} == {}


def exists(name: str) -> bool:
    try:
        resolve(name)
    except (AttributeError, ImportError):
        return False
    return True


def resolve(name: str) -> None:
    """Import the module of a name and look the name up. A module may need a package that is not installed."""
    value: Any = nbckpt
    for part in name.split(".")[1:]:
        module = f"{value.__name__}.{part}" if hasattr(value, "__path__") else ""
        if not (module and find_spec(module)):
            value = getattr(value, part)
            continue
        try:
            value = import_module(module)
        except ModuleNotFoundError as error:
            if str(error.name).startswith("nbckpt"):
                raise
            return


def test_the_rule_detects_a_name_that_is_not_there() -> None:
    for name in ("nbckpt.Trainable", "nbckpt.trials.Nope", "nbckpt.states.State.nope", "nbckpt.nope.run"):
        with pytest.raises(AttributeError):
            resolve(name)


def test_every_error_is_an_nbckpt_error_and_keeps_its_message() -> None:
    errors = [getattr(nbckpt.errors, name) for name in public(".errors") if name != "Interrupted"]
    assert len(errors) == 10
    for error in errors:
        assert issubclass(error, nbckpt.NbckptError)
        assert str(error("a 'message'")) == "a 'message'"
