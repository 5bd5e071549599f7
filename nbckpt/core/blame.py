"""Blame: where in a value the thing is that cannot be saved, and what a round trip would lose."""

from __future__ import annotations

import pickle
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nbckpt.core.codec import dump, load
from nbckpt.core.preview import type_name
from nbckpt.core.reducers import contents_of

_MOST_TRIES = 2000


def blame(name: str, value: Any, pickle_it: Callable[[Any], object]) -> tuple[str, str]:
    """Return the path to the guilty part of *value*, which *pickle_it* fails for, and the reason it gives.

    The path reads like Python, `loader.file` or `d['k'][2]`, and ends in the part's type. It is the
    shortest that was found within a bounded number of tries.
    """
    tries = _MOST_TRIES

    def fails(part: Any) -> BaseException | None:
        nonlocal tries
        tries -= 1
        try:
            pickle_it(part)
        except Exception as error:  # noqa: BLE001  whatever the part's own pickling raises
            return error
        return None

    error = fails(value)
    path, seen = name, {id(value)}
    found = True
    while found:
        found = False
        for step, child in _children(value):
            if id(child) in seen or tries <= 0:
                continue
            seen.add(id(child))
            if (deeper := fails(child)) is not None:
                path, value, error, found = path + step, child, deeper, True
                break
    return f"{path}: {type_name(type(value))}", _reason(error)


def losses(values: Iterable[object], namespace: dict[str, Any]) -> Iterator[tuple[type, list[str]]]:
    """Yield the notebook's own classes among *values* whose way of pickling drops attributes, and which.

    A class may leave out what it can make again; for one written in the notebook that is rarely meant.
    One instance of each class is taken through a round trip.
    """
    checked: set[type] = set()
    for value in values:
        kind = type(value)
        if kind in checked or kind.__module__ != "__main__" or not _pickles_its_own_way(kind):
            continue
        checked.add(kind)
        before = getattr(value, "__dict__", {})
        after = getattr(_round_trip(value, namespace), "__dict__", {})
        lost = [name for name in before if name not in after or _differ(before[name], after[name], namespace)]
        if lost:
            yield kind, lost


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value that pickling would visit, with the way to write them."""
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
        found = value.__globals__
        yield from ((f".<{name}>", found[name]) for name in _global_names(value.__code__) if name in found)


def _global_names(code: types.CodeType) -> Iterator[str]:
    """Yield the names that a function's code may look up, the functions inside it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _reason(error: BaseException | None) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"


def _pickles_its_own_way(kind: type) -> bool:
    inherited = ("__reduce__", "__reduce_ex__")
    if any(getattr(kind, name) is not getattr(object, name) for name in inherited):
        return True
    return getattr(kind, "__getstate__", None) is not getattr(object, "__getstate__", None)


def _round_trip(value: Any, namespace: dict[str, Any]) -> Any:
    pickled = dump(value, namespace)
    try:
        return load(
            pickled.record,
            [memoryview(bytearray(span.view)) for span in pickled.buffers],
            namespace,
        )
    except Exception:  # noqa: BLE001  what cannot be loaded loses everything
        return None


def _differ(one: Any, other: Any, namespace: dict[str, Any]) -> bool:
    try:
        return _flat(one, namespace) != _flat(other, namespace)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False  # dropped because it cannot be saved: that is what `__getstate__` is for


def _flat(value: Any, namespace: dict[str, Any]) -> bytes:
    pickled = dump(value, namespace)
    return b"".join([pickled.record, *(span.view for span in pickled.buffers)])
