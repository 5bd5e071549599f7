"""The bounds that keep the code easy to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "nbckpt"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_FUNCTION = 45
LONGEST_MODULE = 640


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    yield from (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))


def body_lines(function: ast.FunctionDef) -> int:
    start = function.body[1].lineno if ast.get_docstring(function) and len(function.body) > 1 else function.lineno
    return (function.end_lineno or start) - start + 1


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_functions_and_modules_stay_short(path: Path) -> None:
    long = [(it.name, body_lines(it)) for it in functions(path) if body_lines(it) > LONGEST_FUNCTION]
    assert long == []
    assert len(path.read_text().splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_public_functions_and_classes_are_documented(path: Path) -> None:
    kinds = (ast.FunctionDef, ast.ClassDef)
    public = [it for it in ast.walk(ast.parse(path.read_text())) if isinstance(it, kinds) and not it.name.startswith("_")]
    inner = {id(child) for it in public if isinstance(it, ast.FunctionDef) for child in ast.walk(it) if child is not it}
    tests = path.parent.name == "testing"
    missing = [it.name for it in public if id(it) not in inner and not ast.get_docstring(it)]
    assert [name for name in missing if not (tests and name.startswith("test_"))] == []


def test_nothing_is_left_to_do() -> None:
    words = ("TODO", "FIXME", "XXX", "NotImplementedError")
    assert [path.name for path in MODULES if any(word in path.read_text() for word in words)] == []
