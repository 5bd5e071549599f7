"""The public names: every one is there, and nothing else is."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import nbckpt

NAMESPACES = [
    "",
    ".errors",
    ".mirror",
    ".states",
    ".store",
    ".sync",
    ".testing",
    ".tracker",
    ".trials",
    ".trials.executors",
]


@cache
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
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{imported.get(node.value.id)}.{node.attr}"


def public(namespace: str) -> list[str]:
    """Return the public names of a module: `__all__`, or the classes that it defines."""
    module = import_module(f"nbckpt{namespace}")
    classes = inspect.getmembers(module, inspect.isclass)
    return getattr(module, "__all__", [name for name, kind in classes if kind.__module__ == module.__name__])


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_typed_program_uses_every_public_name(namespace: str) -> None:
    missing = {f"nbckpt{namespace}.{name}" for name in public(namespace)} - names_in_user_programs()
    assert missing == set()


@pytest.mark.parametrize("name", nbckpt.__all__)
def test_a_public_name_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(nbckpt, name)) or name == "FILES"


def test_a_missing_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nope'"):
        _ = nbckpt.Nope


def test_a_name_that_moved_says_where_it_is() -> None:
    with pytest.raises(AttributeError, match=r"nbckpt\.state is now nbckpt\.states"):
        _ = nbckpt.state
    with pytest.raises(ImportError, match=r"nbckpt\.state is now nbckpt\.states"):
        from nbckpt import state  # noqa: F401
    assert not hasattr(nbckpt, "state")


def test_dir_lists_the_public_names() -> None:
    assert dir(nbckpt) == sorted(nbckpt.__all__)


def test_every_error_is_an_nbckpt_error_and_keeps_its_message() -> None:
    errors = [
        it
        for it in map(nbckpt.__getattr__, nbckpt._HOMES)
        if inspect.isclass(it) and issubclass(it, Exception)
    ]
    assert len(errors) == 10
    assert all(
        issubclass(it, nbckpt.NbckptError) and str(it("a 'message'")) == "a 'message'" for it in errors
    )
