"""Diagnosis: finds the part of a value that cannot be saved, or that will not be restored completely."""

from __future__ import annotations

import dis
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from time import thread_time
from typing import Any, Protocol

from nbckpt.core.definitions import contents_of
from nbckpt.core.depth import is_too_deep, why_too_deep
from nbckpt.core.values.preview import type_name

_MOST_S = 0.05
"""The processor time that the search for a path may take, tries to pickle parts included."""

_LAST = 1000
_ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None)})
_BETWEEN = _ATOMS | {types.CodeType, types.CellType, tuple, dict}
"""Types of which objects are between two objects of the type that is nested."""


class PickleIt(Protocol):
    """Pickles a part of a value, and passes the pieces to *write*."""

    def __call__(self, part: Any, /, *, write: Callable[[bytes], object]) -> object:
        """Raise any exception that the part's own pickling raises."""


class _Clock:
    def __init__(self) -> None:
        self._end = thread_time() + _MOST_S

    def is_over(self) -> bool:
        return thread_time() > self._end

    def write(self, _: bytes) -> None:
        """Take a piece of a pickle, and end the pickling if the time is over."""
        if self.is_over():
            raise TimeoutError


def blame(
    name: str, value: Any, error: Exception, visited: Sequence[object], pickle_it: PickleIt
) -> tuple[str, str]:
    """Return the path to the part of *value* whose pickling raised *error*, and the reason.

    The path reads like Python, `loader.file` or `d['k'][2]`, and ends in the part's type. If it is not found
    within 50 ms, it is the name alone.

    Args:
        name: The name of the variable.
        value: Its value.
        error: What pickling raised.
        visited: The objects that pickling visited, in order.
        pickle_it: Tries to pickle a part.
    """
    clock, too_deep = _Clock(), is_too_deep(error)
    suspects = _nested(visited) if too_deep else visited[:-_LAST:-1]
    ways = _ways(name, value, suspects, clock)
    for part in suspects:
        if id(part) not in ways:
            continue
        try:
            pickle_it(part, write=clock.write)
        except TimeoutError:
            break
        except Exception as own:  # noqa: BLE001  any exception of the part's own pickling
            reason = why_too_deep() if too_deep else _reason(own)
            return f"{ways[id(part)]}: {type_name(type(part))}", reason
    return f"{name}: {type_name(type(value))}", why_too_deep() if too_deep else _reason(error)


def _nested(visited: Sequence[object]) -> list[object]:
    """Return the first objects of the type that is nested too deeply."""
    kinds = [type(part) for part in visited[:-20:-1]]
    chosen = next((kind for kind in kinds if kind not in _BETWEEN), dict if dict in kinds else tuple)
    return [part for part in visited[1:_LAST] if type(part) is chosen]


def paths_to(name: str, value: Any, parts: Sequence[object]) -> list[str]:
    """Return the path from the variable *name* to each part of its value, or the name if not found soon."""
    ways = _ways(name, value, parts, _Clock())
    return [ways.get(id(part), name) for part in parts]


def _ways(name: str, value: Any, parts: Iterable[object], clock: _Clock) -> dict[int, str]:
    """Return the shortest path to each part that is found before the time is over."""
    ways: dict[int, str] = {}
    wanted = {id(part) for part in parts if type(part) not in _ATOMS}
    if id(value) in wanted:
        wanted.remove(id(value))
        ways[id(value)] = name
    todo = deque([(name, value)])
    seen = {id(value): value}  # they stay alive, or the next part could get the identity of a temporary one
    while todo and wanted and not clock.is_over():
        way, reached = todo.popleft()
        for step, child in _children(reached):
            if type(child) in _ATOMS or id(child) in seen:
                continue
            seen[id(child)] = child
            todo.append((way + step, child))
            if id(child) in wanted:
                wanted.remove(id(child))
                ways[id(child)] = way + step
                if not wanted:
                    break
    return ways


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value that pickling would visit, each with its path in Python.

    There are fewer if the value's own code fails: it says that it is a dict, for example, and is not one.
    """
    with suppress(Exception):
        yield from _parts(value)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in list(value.items()))
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{at}]", item) for at, item in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        yield from (("{…}", item) for item in value)
    if isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    if isinstance(value, types.FunctionType):
        names = value.__code__.co_freevars
        cells = value.__closure__ or ()
        yield from (
            (f".<{name}>", item)
            for name, cell in zip(names, cells, strict=False)
            for item in contents_of(cell)
        )
        yield from ((f".__defaults__[{at}]", item) for at, item in enumerate(value.__defaults__ or ()))
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, (dict, types.MappingProxyType)):
        yield from ((f".{name}", item) for name, item in list(attributes.items()))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in [slots] if isinstance(slots, str) else slots:
            if hasattr(value, slot):
                yield f".{slot}", getattr(value, slot)
    if isinstance(value, types.FunctionType):
        namespace = value.__globals__
        yield from (
            (f".<{name}>", namespace[name]) for name in global_names(value.__code__) if name in namespace
        )


def global_names(code: types.CodeType) -> Iterator[str]:
    """Yield the global names that a function's code uses, including the functions inside it."""
    yield from (
        str(step.argval) for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    )
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from global_names(constant)


def _reason(error: BaseException | None) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"
