"""Analysis: the variables that a cell's code can have touched, found without running or slowing the code.

The code names variables. Their values lead to functions, methods, lambdas and properties of the notebook,
whose code names more variables, and so on. Where this cannot be bounded, `everything` says why: `exec`,
`eval`, `globals()`, unknown magics and the like.

The functions of the user's own modules are read like those of the notebook, and so is what `print` and the
root logger write to.

Not seen is what no named variable leads to: a callback that only a library's modules hold; a module of the
user's own that changes `__main__`; what other threads, signals, trace functions, import hooks, and events and
AST transformers of IPython do; and writes through memory addresses. Two variables can also share a part of
their values: the caller adds the variables that share objects with the named ones. See docs/decisions/0095.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import CodeType
from typing import Any

from nbckpt.cells.code import uses
from nbckpt.cells.magics import MagicReader, Magics, Transform
from nbckpt.cells.reach import Reach

Compiled = tuple[list[CodeType], Magics]
"""The code of a cell and of the code in its magics, and what else its magics do."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The variables that code can have touched: read, bound, deleted, or changed in place.

    Attributes:
        names: Their names.
        everything: Why it can have touched every variable; None if it touched only those named.
        binds: The variables among them that the code itself can bind or delete.
    """

    names: frozenset[str]
    everything: str | None = None
    binds: frozenset[str] = frozenset()

    def __or__(self, other: Touched) -> Touched:
        return Touched(
            self.names | other.names, self.everything or other.everything, self.binds | other.binds
        )


UNKNOWN = Touched(frozenset(), "nobody noted the cell")
"""What a cell can have touched whose begin or end was interrupted."""


def touched(source: str, namespace: dict[str, Any], *, transform: Transform = str) -> Touched:
    """Return the variables that a cell can touch, or can have touched.

    What it can call depends on the values in *namespace*. A cell can unpickle an object of a class of the
    notebook and call it, or call a function and delete it. So ask before the cell runs and after it, and
    join both with `|`.

    Args:
        source: The cell, after IPython turned its magics into Python.
        namespace: The variables. Functions of the notebook have this dict as their globals.
        transform: Turns the code below a magic such as `%%time` into Python, as
            `InteractiveShell.transform_cell` does.
    """
    return reached(compiled(source, transform), namespace)


def reached(cell: Compiled, namespace: dict[str, Any]) -> Touched:
    """Return the variables that a compiled cell can touch, or can have touched; see `touched`."""
    codes, magics = cell
    reach = Reach(namespace)
    reach.names |= magics.binds
    reach.everything = magics.unknown or None
    try:
        for code in codes:
            reach.follow(uses(code))
    except Exception as error:  # noqa: BLE001  a value's own code may raise anything
        reach.everything = f"a value that it reaches raises {type(error).__name__}"
    binds = frozenset(magics.binds).union(*(uses(code).binds for code in codes))
    return Touched(frozenset(reach.names), reach.everything, binds)


def compiled(source: str, transform: Transform) -> Compiled:
    """Return the code of a cell and of the code in its magics, and what else its magics do.

    Code that is not valid Python counts as unknown: it may be a magic that was not turned into Python.
    """
    reader = MagicReader(transform)
    codes: list[CodeType] = []
    reader.magics.sources.append(source)
    for part in reader.magics.sources:  # its magics add to them
        try:
            tree = ast.parse(part)
            if "get_ipython" in ast.dump(tree):
                tree = ast.fix_missing_locations(reader.visit(tree))
            codes.append(compile(tree, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reader.magics.unknown = f"it is not valid Python: {error}"
    return codes, reader.magics
