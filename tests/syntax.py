"""What the tests of the code's style ask of a file. Most ask of hundreds, so each is parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
DOCUMENTED = {"_exit", "_getframe", "_replace", "_asdict", "_make", "_fields"}
"""Names with an underscore that the documentation of os, sys, collections and ast has."""
TAKE_NAMES = {"getattr", "setattr", "delattr", "patch", "object"}
"""Functions that take names as texts; `object` is `patch.object`."""


@dataclass(frozen=True)
class Syntax:
    """Facts of one file: names alone, since trees of all files would fill the memory.

    Attributes:
        functions: The name of each function, and the number of its lines without its docstring.
        variables: The names of variables and arguments.
        imports: Each name in an import, also inside functions and under TYPE_CHECKING.
        are_relative: Whether an import is relative.
        prints: Whether it calls `print`, or uses the streams of the terminal.
        private: The private names of other modules and objects, each as often as it is used.
    """

    functions: tuple[tuple[str, int], ...]
    variables: frozenset[str]
    imports: tuple[str, ...]
    are_relative: bool
    prints: bool
    private: tuple[str, ...]


def nodes(path: Path) -> Iterator[Any]:
    """Yield all nodes of a file, in no order. `ast.walk` takes three times as long."""
    left: list[ast.AST] = [ast.parse(path.read_bytes())]
    while left:
        node = left.pop()
        yield node
        # Not all attributes: libraries give a `parent` to nodes, also to `Load()`, which all trees share.
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                left += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST):
                left.append(value)


@cache
def syntax(path: Path) -> Syntax:
    functions: list[tuple[str, int]] = []
    variables: set[str] = set()
    imports: list[str] = []
    private: list[str] = []
    are_relative = prints = False
    for node in nodes(path):
        private += filter(is_private, used_names(node))
        match node:
            case ast.FunctionDef():
                functions.append((node.name, body_lines(node)))
            case ast.Name(ctx=ast.Store()):
                variables.add(node.id)
            case ast.arg():
                variables.add(node.arg)
            case ast.Import():
                imports += [alias.name for alias in node.names]
            case ast.ImportFrom():
                are_relative |= node.level > 0
                imports += [f"{node.module}.{alias.name}" for alias in node.names]
                prints |= node.module == "sys" and any(alias.name in STREAMS for alias in node.names)
            case ast.Name(id="print"):
                prints = True
            case ast.Attribute(value=ast.Name(id="sys")):
                prints |= node.attr in STREAMS
    return Syntax(
        tuple(functions), frozenset(variables), tuple(imports), are_relative, prints, tuple(private)
    )


def used_names(node: ast.AST) -> Iterator[str]:
    """Yield the names of others that a node uses: attributes except the object's own, imports and texts."""
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            return
        case ast.Attribute():
            yield node.attr
        case ast.ImportFrom():
            yield from (alias.name for alias in node.names)
        case ast.Call(func=ast.Name(id=function) | ast.Attribute(attr=function)) if function in TAKE_NAMES:
            for given in node.args[:2]:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield from given.value.split(".")


def is_private(name: str) -> bool:
    """Tell whether a name is private: IPython's protocol has `_repr_html_` and others, which are not."""
    is_protocol = name.startswith(("__", "_repr_"))
    return name.startswith("_") and name != "_" and not is_protocol and name not in DOCUMENTED


def body_lines(function: ast.FunctionDef) -> int:
    whole = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    return whole - ((first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(function) else 0)
