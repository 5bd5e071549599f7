"""Parts: objects that a library pickles without the whole that they belong to.

Records name the functions that find parts again, as in `reducers`, so these functions keep their meaning.
"""

from __future__ import annotations

import importlib
import itertools
import secrets
from sys import modules
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from nbckpt.core.instances import Reduced

# Traces and other parts of a figure of plotly. A change of a part that a figure has shows in the figure.


def reduce_plotly_part(part: Any) -> Reduced:
    """Reduce a part of a figure to the figure and its place there."""
    parent, name = part.parent, part.plotly_name
    if parent is None:
        return NotImplemented
    for place in (name, "data"):
        whole = place in parent and parent[place]
        if whole is part:
            return plotly_part, (parent, place, None)
        for at, other in enumerate(whole if isinstance(whole, tuple) else ()):
            if other is part:
                return plotly_part, (parent, place, at)
    return NotImplemented


def plotly_part(parent: Any, place: str, at: int | None) -> Any:
    """Return a part of a figure. Records call it."""
    return parent[place] if at is None else parent[place][at]


# Quantities of pint. Two of different registries cannot be added, and a registry cannot be saved.

_start, _count = secrets.token_hex(8), itertools.count()
_tokens: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_registries: WeakValueDictionary[str, Any] = WeakValueDictionary()


def reduce_quantity(quantity: Any) -> Reduced:
    """Reduce a quantity or a unit with its registry, if that is not the one of the application."""
    registry = getattr(type(quantity), "_REGISTRY", None)
    _, (kind, *parts) = quantity.__reduce__()
    if registry is None or registry is modules["pint"].get_application_registry().get():
        return NotImplemented
    if registry not in _tokens:
        _tokens[registry] = f"{_start}-{next(_count)}"
        _registries[_tokens[registry]] = registry
    return make_quantity, (_tokens[registry], kind.__name__.removeprefix("Plain"), *parts)


def make_quantity(token: str, kind: str, *parts: Any) -> Any:
    """Make a quantity or a unit: in its registry if that is alive, else in the application's."""
    registry = _registries.get(token) or importlib.import_module("pint").get_application_registry()
    return getattr(registry, kind)(*parts)
