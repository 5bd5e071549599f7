"""Diagnosis: finds the part of a value that cannot be saved, or that will not be restored completely."""

from __future__ import annotations

import dis
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from nbckpt.core.definitions import contents_of
from nbckpt.core.values.preview import type_name

_MOST_TRIES = 2000


def blame(name: str, value: Any, pickle_it: Callable[[Any], object]) -> tuple[str, str]:
    """Return the path to the part of *value* that makes *pickle_it* fail, and the reason.

    The path reads like Python, `loader.file` or `d['k'][2]`, and ends in the part's type. It is the shortest
    path found within a limited number of tries.
    """
    tries = _MOST_TRIES

    def fails(part: Any) -> BaseException | None:
        nonlocal tries
        tries -= 1
        try:
            pickle_it(part)
        except Exception as error:  # noqa: BLE001  any exception of the part's own pickling
            return error
        return None

    error = fails(value)
    path, seen = name, {id(value)}
    is_deeper = True
    while is_deeper:
        is_deeper = False
        for step, child in _children(value):
            if id(child) in seen or tries <= 0:
                continue
            seen.add(id(child))
            if (deeper := fails(child)) is not None:
                path, value, error, is_deeper = path + step, child, deeper, True
                break
    return f"{path}: {type_name(type(value))}", _reason(error)


def path_to(name: str, value: Any, part: object) -> str:
    """Return the path from the variable *name* to a part of its value, or just the name if not found soon."""
    ways = deque([(name, value)])
    seen = {id(value)}
    while ways and len(seen) < _MOST_TRIES:
        way, reached = ways.popleft()
        if reached is part:
            return way
        children = [(step, child) for step, child in _children(reached) if id(child) not in seen]
        seen.update(id(child) for _, child in children)
        ways.extend((way + step, child) for step, child in children)
    return name


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
