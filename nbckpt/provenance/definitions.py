"""Definitions: the functions and classes that the cells of a notebook define."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable
from difflib import SequenceMatcher

_MAGIC = re.compile(r"^([ \t]*)(?:\w[\w, ]*=[ \t]*)?[%!?].*$", re.MULTILINE)
_MOST_LINES = 500
_KINDS = {ast.FunctionDef: "function", ast.AsyncFunctionDef: "function", ast.ClassDef: "class"}


def definitions(cells: Iterable[str]) -> dict[str, str]:
    """Return the code of each definition, as the last cell with it has it, by names such as `function train`.

    Comments do not count. A cell that is not Python is left out, and so are magics.
    """
    known: dict[str, str] = {}
    for cell in cells:
        try:
            with warnings.catch_warnings(action="ignore"):  # a cell's odd escapes were said when it ran
                body = ast.parse(_MAGIC.sub(r"\1pass", cell)).body
            known |= {
                f"{_KINDS[type(node)]} {node.name}": ast.unparse(node)
                for node in body
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            }
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return known


def lines_that_differ(old: str, new: str) -> tuple[str, str]:
    """Return the lines that only one of two definitions has, each side in one line.

    Of a very long one nothing but its length is told: the time grows with the square of that.
    """
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > _MOST_LINES:
        return f"{len(before):,} lines", f"{len(after):,} other lines"
    parts = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    changed = [part for part in parts if part[0] != "equal"]
    one = (line.strip() for _, start, end, _, _ in changed for line in before[start:end])
    other = (line.strip() for _, _, _, start, end in changed for line in after[start:end])
    return "; ".join(one), "; ".join(other)
