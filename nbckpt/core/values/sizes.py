"""Sizes: how large values are, without pickling them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from types import FunctionType, ModuleType
from typing import Any

_TEXTS = str, bytes, bytearray
_CONTAINERS = list, tuple, dict, set, frozenset
_NUMBERS = int, float, bool, complex, type(None)
_SMALL = frozenset({*_TEXTS, *_CONTAINERS, *_NUMBERS})
_WITHOUT_PARTS = type, ModuleType, FunctionType, *_NUMBERS, *_TEXTS
_MOST_PARTS = 10_000


def rough_size(value: Any) -> int:
    """Return the size that a value itself reports cheaply, or 0."""
    try:
        if type(value) in _SMALL:
            return 0
        return int(value.nbytes if hasattr(value, "nbytes") else value.memory_usage().sum())
    except Exception:  # noqa: BLE001  a value's own code may raise anything, also while its class is hashed
        return 0


def is_below(size: int, value: Any) -> bool:
    """Tell whether a value and all that a short look finds in it are smaller than a size.

    The look goes through containers and the attributes of instances. What has many parts is not small.
    """
    todo, seen = [value], dict[int, Any]()
    for _ in range(_MOST_PARTS):
        if not todo:
            return True
        part = todo.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part  # it stays alive, or the next part could get its identity
        size -= len(part) if isinstance(part, _TEXTS) else rough_size(part)
        if size <= 0:
            return False
        todo += _parts_of(part)
    return False


def _parts_of(value: Any) -> tuple[Any, ...]:
    parts: Iterable[Any] = ()
    try:
        if isinstance(value, dict):
            parts = chain(value, value.values())
        elif isinstance(value, _CONTAINERS):
            parts = value
        elif not isinstance(value, _WITHOUT_PARTS):
            parts = vars(value).values()
        return tuple(islice(parts, _MOST_PARTS))  # a copy of a whole long list takes its memory again
    except Exception:  # noqa: BLE001  a value's own code may raise anything, and most values have no attributes
        return ()
