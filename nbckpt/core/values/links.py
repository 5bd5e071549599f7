"""Links: those of a pickler's visited objects whose identity matters (see docs/decisions/0040).

Two variables that share a link are saved together. A record need not share objects that cannot change, that a
library owns, or that are found by name.
"""

from __future__ import annotations

import enum
import logging
import pickle
import types
from collections.abc import Sequence
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from itertools import compress
from pathlib import PurePath
from sys import modules
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from nbckpt.core.values.identities import containers

_IMMUTABLE: tuple[type, ...] = (
    *(str, bytes, int, float, complex, bool, type(None), tuple, frozenset, range, slice),
    *(type, types.BuiltinFunctionType, types.MethodType, types.ModuleType, types.CodeType),
    *(type(Ellipsis), type(NotImplemented), property, classmethod, staticmethod, pickle.PickleBuffer),
    *(enum.Enum, date, time, timedelta, tzinfo, Decimal, Fraction, PurePath, UUID),
    *(types.MappingProxyType, types.GetSetDescriptorType, logging.Logger),
)
_LIBRARIES = {
    "numpy": ("generic", "dtype", "ufunc"),
    "torch": ("dtype", "device", "layout", "memory_format"),
    "pandas._libs.internals": ("BlockValuesRefs",),
}

_seen_kinds: WeakKeyDictionary[type, tuple[bool, dict[int, object]]] = WeakKeyDictionary()


def links_of(
    seen: Sequence[object], classes: Sequence[tuple[int, object]]
) -> tuple[list[object], list[object], bool]:
    """Return the links among the objects *seen* outside of classes, and the links inside *classes*.

    Also tell whether containers of the session were seen, which are not links.
    """
    kinds = {kind: _look_at(kind) for kind in set(map(type, seen))}
    changes = {kind: can_change for kind, (can_change, _) in kinds.items()}
    owned: dict[int, object] = {
        at: constant for _, constants in kinds.values() for at, constant in constants.items()
    }
    chosen = list(map(changes.__getitem__, map(type, seen)))
    links = list(compress(seen, chosen))
    within = bytes(len(links)) if not classes else bytes(compress(_in_classes(seen, classes), chosen))
    session, has_containers = containers(), False
    owned |= session
    if not owned.keys().isdisjoint(map(id, links)):
        has_containers = not session.keys().isdisjoint(map(id, links))
        within = bytes(2 if id(link) in owned else part for link, part in zip(links, within, strict=True))
    if not any(within):
        return links, [], has_containers
    outside, inside = (list(compress(links, map(part.__eq__, within))) for part in (0, 1))
    return outside, inside, has_containers


def _in_classes(seen: Sequence[object], classes: Sequence[tuple[int, object]]) -> bytearray:
    """Return 1 for each object that was seen between the first and the last object of a class, else 0."""
    begins = {id(last): begin for begin, last in classes}
    inside = bytearray(len(seen))
    for end, begin in enumerate(map(begins.get, map(id, seen))):
        if begin is not None:
            inside[begin:end] = b"\1" * (end - begin)
    return inside


def can_change(kind: type) -> bool:
    """Tell whether objects of a type can change."""
    return _look_at(kind)[0]


def _look_at(kind: type) -> tuple[bool, dict[int, object]]:
    """Tell whether objects of a type can change. Also return the objects that the classes keep, by id."""
    facts = _seen_kinds.get(kind)
    if facts is None:
        facts = _seen_kinds[kind] = _can_change(kind), _constants(kind)
    return facts


def _can_change(kind: type) -> bool:
    # Objects with the naming attributes of a function are found by name, also functions of compiled
    # libraries.
    return not issubclass(kind, _immutable()) and "__qualname__" not in vars(kind)


def _immutable() -> tuple[type, ...]:
    """Return the types whose objects cannot change, including types of imported libraries."""
    kinds = [
        getattr(modules.get(library), name, None) for library, names in _LIBRARIES.items() for name in names
    ]
    return (*_IMMUTABLE, *(kind for kind in kinds if isinstance(kind, type)))


def _constants(kind: type) -> dict[int, object]:
    """Return the objects that a library's class and its bases keep for all instances."""
    kept: list[Any] = [
        attribute
        for base in kind.__mro__
        if base.__module__ != "__main__"
        for attribute in vars(base).values()
    ]
    return {id(constant): constant for constant in kept if isinstance(constant, (list, dict, set))}
