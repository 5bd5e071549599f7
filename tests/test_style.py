"""The bounds that keep the code easy to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "nbckpt"
TESTS = Path(__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_FUNCTION = 45
LONGEST_MODULE = 399
LONGEST_TEST_NAME = 60
EMPTY_NAMES = {"it", "its", "found", "told", "what", "thing", "things"}
READ_AT_ONCE = {"inner_text", "all_inner_texts", "text_content", "input_value", "is_visible", "count", "all"}


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_bytes()))


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    yield from (node for node in nodes(path) if isinstance(node, ast.FunctionDef))


def body_lines(function: ast.FunctionDef) -> int:
    whole = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    return whole - ((first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(function) else 0)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_functions_and_modules_stay_short(path: Path) -> None:
    long = [(it.name, body_lines(it)) for it in functions(path) if body_lines(it) > LONGEST_FUNCTION]
    assert long == []
    assert len(path.read_text().splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_variables_are_named_after_what_they_hold(path: Path) -> None:
    names = {
        node.id for node in nodes(path) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names |= {node.arg for node in nodes(path) if isinstance(node, ast.arg)}
    assert names & EMPTY_NAMES == set()


def test_no_module_contains_a_todo() -> None:
    words = ("TODO", "FIXME", "XXX")
    assert [path.name for path in MODULES if any(word in path.read_text() for word in words)] == []


def test_every_test_name_is_short() -> None:
    files = [*TESTS.rglob("*.py"), *(PACKAGE / "testing").rglob("*.py")]
    names = [it.name for path in files for it in functions(path) if it.name.startswith("test_")]
    assert [name for name in names if len(name) > LONGEST_TEST_NAME] == []


def test_browser_tests_wait_with_expect_or_text_of() -> None:
    """A call returns before the page has changed: what is read at once may be the former text."""
    files = [path for path in TESTS.rglob("test_*.py") if "\nfrom playwright." in path.read_text()]
    names = {path.name: {it.attr for it in nodes(path) if isinstance(it, ast.Attribute)} for path in files}
    assert len(names) > 5
    assert {name: found & READ_AT_ONCE for name, found in names.items() if found & READ_AT_ONCE} == {}
