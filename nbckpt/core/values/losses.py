"""Losses: attributes that an instance's own pickling omits, found without a copy (docs/decisions/0041)."""

from __future__ import annotations

import enum
import types
from typing import Any


class Omission(str):  # noqa: SLOT000  it holds what a text holds
    """A loss, as text: what an instance's own pickling omits. Its changes do not show in the pickle."""

    @classmethod
    def of(cls, kind: type, lost: list[str]) -> Omission:
        """Return the loss of these attributes."""
        name = kind.__qualname__
        return cls(
            f"a restored {name} will not have {', '.join(lost)} as it is now, because of the way {name} "
            "defines its pickling"
        )


_FILLERS = ("__setstate__", "__array_finalize__")


def pickles_its_own_way(kind: type) -> bool:
    """Tell whether a class defines its own pickling."""
    names = ("__reduce__", "__reduce_ex__", "__getstate__")
    return not issubclass(kind, enum.Enum) and any(
        getattr(kind, name, None) is not getattr(object, name, None) for name in names
    )


def left_out(instance: Any, reduced: Any) -> list[str]:
    """Return the attributes of an instance that are missing from its *reduced* form.

    An attribute is present if its name or its value is. A name in the class's `__setstate__` counts as
    rebuilt.
    """
    if type(reduced) is not tuple:
        return []
    arguments, state = reduced[1], reduced[2] if len(reduced) > 2 else None
    states = state if type(state) is tuple else (state,)
    dicts = [part for part in states if isinstance(part, dict)]
    dicts += [inner for outer in dicts for inner in outer.values() if isinstance(inner, dict)]
    names = {name for inner in dicts for name in inner} | _mentioned(type(instance))
    values = {
        id(item)
        for part in (arguments, *states, *(inner.values() for inner in dicts))
        for item in _items(part)
    }
    attributes = getattr(instance, "__dict__", {})
    return [name for name, value in attributes.items() if name not in names and id(value) not in values]


def _items(part: Any) -> list[Any]:
    return list(part) if isinstance(part, (tuple, list, type({}.values()))) else [part]


def _mentioned(kind: type) -> set[str]:
    """Return the names that a class's own code for rebuilding instances uses."""
    codes = [getattr(getattr(kind, name, None), "__code__", None) for name in _FILLERS]
    return {name for code in codes if isinstance(code, types.CodeType) for name in code.co_names}
