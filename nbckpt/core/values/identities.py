"""Identities: objects that a load must find again, because another one with their contents is not the same.

- A NaN that is a key or a member is found only by its identity. Pickle writes the value of a float each time.
- `sys.path` and other containers of a module are the session's. Their contents are never saved.

Pickle asks no reducer about floats and lists. A record with one of these objects is therefore pickled once
more, with an identity in their place: 0 for `math.nan`, 1 for `numpy.nan`, another number for another NaN
(below 0 if it has a sign), and a text for a container.
"""

from __future__ import annotations

import math
import sys
import warnings
from pickle import UnpicklingError
from struct import pack
from typing import Any

_MATH, _NUMPY = 0, 1
_SIGNS = {pack(">d", math.copysign(math.nan, sign)): sign for sign in (1, -1)}
_PLUS, _MINUS = (b"G" + data for data in _SIGNS)  # as pickle writes them
_CONTAINERS = {
    f"{module}.{name}": (module, name)
    for module, name in (("sys", "path"), ("sys", "argv"), ("sys", "modules"), ("warnings", "filters"))
}

MOST_NUMBERED = 4 << 20
"""The size of the longest record whose NaNs keep their identity, in bytes."""


def holds_nan(record: bytes | bytearray) -> bool:
    """Tell whether a record may hold a NaN as a float of Python."""
    return _PLUS in record or _MINUS in record


def is_container(value: object) -> bool:
    """Tell whether an object is one of the session's containers."""
    return value is sys.path or value is sys.argv or value is sys.modules or value is warnings.filters


def containers() -> dict[int, str]:
    """Return the identities of the session's containers, by their `id`."""
    return {id(vars(sys.modules[module])[name]): text for text, (module, name) in _CONTAINERS.items()}


class Identities:
    """The identities in one record that is written. NaNs that no library names go to *nans*."""

    def __init__(self, nans: list[float]) -> None:
        self._nans, self._texts = nans, containers()
        named = {_MATH: math.nan, _NUMPY: getattr(sys.modules.get("numpy"), "nan", None)}
        self._numbers = {id(nan): number for number, nan in named.items()}

    def of(self, value: Any) -> int | str | None:
        """Return the identity of an object, or None if its contents are enough."""
        if type(value) is not float:
            return self._texts.get(id(value))
        if not math.isnan(value) or (sign := _SIGNS.get(pack(">d", value))) is None:
            return None
        if id(value) not in self._numbers:
            self._nans.append(value)
            self._numbers[id(value)] = sign * (_NUMPY + len(self._nans))
        return self._numbers[id(value)]


class Found:
    """The objects that the identities in one record lead to."""

    def __init__(self) -> None:
        self._nans: dict[int, float] = {_MATH: math.nan}

    def find(self, identity: Any) -> Any:
        """Return the object with an identity.

        Raises:
            UnpicklingError: No object has this identity.
        """
        if type(identity) is str and identity in _CONTAINERS:
            module, name = _CONTAINERS[identity]
            return vars(sys.modules[module])[name]
        if type(identity) is not int:
            raise UnpicklingError("a record names an object outside of it")
        if identity not in self._nans:
            self._nans[identity] = (
                _of_numpy() if identity == _NUMPY else math.copysign(float("nan"), identity)
            )
        return self._nans[identity]


def _of_numpy() -> float:
    try:
        from numpy import nan
    except ImportError:
        return math.nan
    return nan
