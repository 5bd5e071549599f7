"""Sameness: whether a live class is as it was at a save, so that it keeps its own attributes and methods.

An equal attribute that a load made is another object. With it, an unchanged class would be pickled to other
bytes.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Mapping
from types import CellType, CodeType, FunctionType, MappingProxyType
from typing import Any

from nbckpt.core.definitions import contents_of

_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})
_MADE_BY_PYTHON = frozenset({"__annotations__", "__dataclass_fields__", "__dataclass_params__"})
_MAKERS = frozenset({dataclasses.__file__, reprlib.__file__})
_PARTS: dict[type, tuple[str, ...]] = {
    FunctionType: (
        *("__code__", "__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__"),
        *("__dict__", "__closure__", "__annotations__"),
    ),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel", "__doc__"),
}

_SLOTS: dict[type, tuple[str, ...]] = {
    dataclasses.Field: tuple(name for name in dataclasses.Field.__slots__ if name != "_field_type"),
    dataclasses.InitVar: ("type",),
    FunctionType: _PARTS[FunctionType],
}


def unchanged(kind: type, saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the saved attributes of a class that are certain to be equal to its own.

    What can change counts as different, because a variable may share it with the class.
    """
    own, same = vars(kind), {}
    for name, value in saved.items():
        is_same = _is_equal if name in _MADE_BY_PYTHON or _is_of_dataclasses(value) else _is_same
        if name in own and is_same(own[name], value):
            same[name] = value
    return same


def _is_of_dataclasses(member: Any) -> bool:
    """Tell whether `dataclass` made a method. Then no variable shares the objects in its cells."""
    if type(member) is not FunctionType:
        return False
    code = member.__code__
    return code.co_filename in _MAKERS or code.co_qualname.startswith("__create_fn__.")


def _is_equal(one: Any, other: Any) -> bool:
    """Tell whether what Python made for a class has the same contents."""
    kind = type(one)
    if one is other or kind is not type(other):
        return one is other
    if kind is dict:
        return [*one] == [*other] and all(map(_is_equal, one.values(), other.values()))
    if kind is tuple:
        return len(one) == len(other) and all(map(_is_equal, one, other))
    if kind is CellType:
        return _is_equal(contents_of(one), contents_of(other))
    if kind in (set, MappingProxyType):  # the guard of a recursive repr, and the metadata of a field
        return not one and not other
    if names := _SLOTS.get(kind):
        return all(_is_equal(getattr(one, name), getattr(other, name)) for name in names)
    return _is_same(one, other) or (kind.__module__ == "dataclasses" and repr(one) == repr(other))


def doubles(kind: type, same: Mapping[str, Any]) -> list[tuple[FunctionType, FunctionType]]:
    """Return the functions among the unchanged attributes of a class, each with the class's own."""
    own = vars(kind)
    pairs = [
        pair
        for name, value in same.items()
        for pair in zip(_functions(value), _functions(own[name]), strict=True)
    ]
    return [pair for pair in pairs if pair[0] is not pair[1]]


def _functions(member: Any) -> list[FunctionType]:
    parts = [member, *(getattr(member, name) for name in _PARTS.get(type(member), ()) if name[0] == "f")]
    parts += [member.__func__] if isinstance(member, (staticmethod, classmethod)) else []
    return [part for part in parts if type(part) is FunctionType]


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind in _PARTS:
        return all(_is_same_part(one, other, name) for name in _PARTS[kind])
    if kind is CellType:  # a function in it may lead to itself
        return _is_same_cell(one, other)
    if kind is tuple:
        return len(one) == len(other) and all(map(_is_same, one, other))
    if kind is frozenset:
        return {str}.issuperset(map(type, one | other)) and bool(one == other)
    if kind in _PLAIN:
        return repr(one) == repr(other)  # 0.0 equals -0.0
    return kind is CodeType and bool(one == other)


def _is_same_cell(one: CellType, other: CellType) -> bool:
    try:
        ours, saved = one.cell_contents, other.cell_contents
    except ValueError:  # one of them is empty
        return False
    return ours is saved or (type(ours) in _PLAIN and _is_same(ours, saved))


def _is_same_part(one: Any, other: Any, name: str) -> bool:
    ours, saved = getattr(one, name), getattr(other, name)
    if type(ours) is dict and type(saved) is dict:  # a function's own
        return [*ours] == [*saved] and all(map(_is_same, ours.values(), saved.values()))
    return _is_same(ours, saved)
