"""Definitions: functions and classes of the notebook, as against those of libraries, and their namespace."""

from __future__ import annotations

import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

_INSTALLED = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),)
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_MADE_AT_RUNTIME = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_ABSENT = object()
_Lend = Callable[[Mapping[str, Any]], None]
_lend: ContextVar[_Lend | None] = ContextVar("nbckpt_lend", default=None)
_namespace: ContextVar[dict[str, Any] | None] = ContextVar("nbckpt_namespace", default=None)


@contextmanager
def live_namespace(namespace: dict[str, Any] | None) -> Iterator[None]:
    """Run the block so that notebook functions loaded in it read and write *namespace*."""
    token = _namespace.set(namespace)
    try:
        yield
    finally:
        _namespace.reset(token)


@contextmanager
def lending() -> Iterator[_Lend]:
    """Yield a function that binds names in the live namespace until the block ends.

    Code of the user that runs while values are loaded finds its globals there.
    """
    namespace, before = current_namespace(), dict[str, Any]()

    def lend(values: Mapping[str, Any]) -> None:
        before.update({name: namespace.get(name, _ABSENT) for name in values if name not in before})
        namespace.update(values)

    token = _lend.set(lend)
    try:
        yield lend
    finally:
        _lend.reset(token)
        for name, value in before.items():
            if value is _ABSENT:
                namespace.pop(name, None)
            else:
                namespace[name] = value


def lend_missing(values: Mapping[str, Any]) -> None:
    """Bind the names that the live namespace lacks, until everything is loaded. Records call it."""
    lend, namespace = _lend.get(), current_namespace()
    if lend is not None:
        lend({name: value for name, value in values.items() if name not in namespace})


def current_namespace() -> dict[str, Any]:
    """Return the namespace that notebook functions loaded now read and write."""
    namespace = _namespace.get()
    return main_namespace() if namespace is None else namespace


def main_namespace() -> dict[str, Any]:
    """Return the namespace of the running program or notebook."""
    return vars(sys.modules["__main__"])


def found_by_name(definition: Any) -> bool:
    """Tell whether a function or class can be found in a library under its own name."""
    named: Any = sys.modules.get(getattr(definition, "__module__", None) or "")
    for part in getattr(definition, "__qualname__", definition.__name__).split("."):
        named = getattr(named, part, None)
    return named is definition and definition.__module__ != "__main__"


@cache
def is_installed(file: str) -> bool:
    """Tell whether a file of code belongs to Python or to an installed package, and not to the user."""
    return file.startswith(("<frozen ", *_INSTALLED)) or not _PACKAGES.isdisjoint(Path(file).parts)


def is_of_python(kind: type) -> bool:
    """Tell whether a class is a static type of C code: it was not made at run time."""
    return not kind.__flags__ & _MADE_AT_RUNTIME


def contents_of(cell: types.CellType) -> tuple[Any, ...]:
    """Return the content of a function's cell as a tuple of one, or an empty tuple for an empty cell."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()
