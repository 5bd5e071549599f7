"""Data of ctypes: arrays and structures, whose types are found by no name.

Records name `make_ctypes_array`, so it keeps its meaning.
"""

from __future__ import annotations

import ctypes
from operator import mul
from typing import Any

Reduced = Any
"""The return value of `object.__reduce_ex__`."""

_CTYPES_FIELD = type(vars(type("_", (ctypes.Structure,), {"_fields_": [("one", ctypes.c_int)]}))["one"])

_CTYPES = {type(kind): kind for kind in (ctypes.Structure, ctypes.Union, ctypes.Array)}
"""A class of each metaclass of ctypes, which has no name."""


def reduce_ctypes_type(kind: Any) -> Reduced:
    """Reduce the type of an array to a multiplication, and a metaclass to a class that has it; else None."""
    if issubclass(kind, ctypes.Array) and kind is not ctypes.Array and kind._type_ * kind._length_ is kind:
        return mul, (kind._type_, kind._length_)
    return (type, (_CTYPES[kind],)) if kind in _CTYPES else None


def drop_ctypes_fields(attributes: dict[str, Any]) -> None:
    """Drop the descriptors that ctypes makes from `_fields_`."""
    for name in [name for name, value in attributes.items() if type(value) is _CTYPES_FIELD]:
        del attributes[name]


def reduce_ctypes_array(array: Any) -> Reduced:
    """Reduce an array of ctypes to its type and its bytes."""
    return make_ctypes_array, (type(array), bytes(array)), getattr(array, "__dict__", None) or None


def make_ctypes_array(kind: Any, data: bytes) -> Any:
    """Make an array of ctypes from its bytes."""
    return kind.from_buffer_copy(data)
