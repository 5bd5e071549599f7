"""Refill: put loaded values into the existing objects (see docs/decisions/0042)."""

from __future__ import annotations

import random
from array import array
from collections.abc import MutableMapping, MutableSequence, MutableSet, Sequence
from sys import modules
from typing import Any

SCALARS = (int, float, complex, str, bytes, type(None))
"""Types of plain values, which are replaced without a warning."""


def has_state_dict(value: Any) -> bool:
    """Tell whether a value has `state_dict()` and `load_state_dict()`."""
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


def state_of(value: Any, within: tuple[int, ...] = ()) -> Any:
    """Return the data to save for a value: its `state_dict()`, also inside dicts, lists and tuples."""
    if has_state_dict(value):
        return value.state_dict()
    if type(value) not in (dict, list, tuple) or id(value) in within:
        return value
    within = (*within, id(value))
    if type(value) is dict:
        parts: Any = {key: state_of(item, within) for key, item in value.items()}
        return parts if any(parts[key] is not item for key, item in value.items()) else value
    parts = type(value)(state_of(item, within) for item in value)
    return value if _are_same(parts, value) else parts


def filled(value: Any, loaded: Any, met: dict[int, Any] | None = None) -> Any:
    """Fill *value* with *loaded* and return it. If it cannot be filled, return *loaded*.

    *met* maps the id of each loaded object to the object that replaced it, so shared objects stay shared.
    """
    met = {} if met is None else met
    if isinstance(loaded, SCALARS) and not has_state_dict(value):
        return loaded
    if id(loaded) not in met:
        met[id(loaded)] = (
            value if has_state_dict(value) or type(value) is type(loaded) in (dict, list) else loaded
        )
        met[id(loaded)] = _filled(value, loaded, met)
    return met[id(loaded)]


def _filled(value: Any, loaded: Any, met: dict[int, Any]) -> Any:
    if has_state_dict(value):
        value.load_state_dict(loaded.state_dict() if has_state_dict(loaded) else loaded)
        return value
    fits = type(value) is type(loaded)
    if type(loaded) is dict:
        known = {key: filled(value[key], loaded[key], met) for key in loaded if fits and key in value}
        target, parts = value if fits else loaded, {key: known.get(key, loaded[key]) for key in loaded}
        parts = {key: part if key in known else filled(None, part, met) for key, part in parts.items()}
    elif type(loaded) in (list, tuple):
        old = [*(value if fits else ()), *[None] * len(loaded)]
        target = value if fits else loaded
        parts = type(loaded)(filled(item, part, met) for item, part in zip(old, loaded, strict=False))
        if type(loaded) is tuple:
            return next((items for items in (target, loaded) if _are_same(items, parts)), parts)
    else:
        return value if fits and _refill(value, loaded) else loaded
    _refill(target, parts)
    return target


def _are_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _refill(value: Any, loaded: Any) -> bool:
    """Fill a value with the contents of another value of its type; tell whether it can be filled."""
    if isinstance(value, MutableMapping):
        value.clear()
        value.update(loaded)
    elif isinstance(value, MutableSet):
        value.clear()
        value |= loaded
    elif isinstance(value, MutableSequence) and not isinstance(value, array):  # the type codes may differ
        value.clear()
        value.extend(loaded)
    elif not (_refill_generator(value, loaded) or _refill_array(value, loaded)):
        return False
    getattr(value, "__dict__", {}).update(getattr(loaded, "__dict__", {}))
    return True


def _refill_generator(value: Any, loaded: Any) -> bool:
    """Set a random generator of the standard library, NumPy or torch; tell whether the value is one."""
    numpy, torch = modules.get("numpy.random"), modules.get("torch")
    if isinstance(value, random.Random):
        value.setstate(loaded.getstate())
    elif torch and isinstance(value, torch.Generator) and value.device == loaded.device:
        value.set_state(loaded.get_state())
    elif numpy and isinstance(value, numpy.RandomState):
        value.set_state(loaded.get_state(legacy=False))
    elif numpy and isinstance(value, numpy.Generator) and _source(value) is _source(loaded):
        value.bit_generator.state = loaded.bit_generator.state
    else:
        return False
    return True


def _source(generator: Any) -> type:
    return type(generator.bit_generator)


def _refill_array(value: Any, loaded: Any) -> bool:
    """Fill an array or a tensor if *loaded* has the same shape and type; tell whether it was filled."""
    target = _array(value)
    if target is None or (value.shape, value.dtype) != (loaded.shape, loaded.dtype):
        return False
    target[...] = _array(loaded)
    return True


def _array(value: Any) -> Any:
    """Return a writable array, or a tensor detached from its gradient; None for any other value."""
    if type(value) is getattr(modules.get("numpy"), "ndarray", None):
        return value if value.flags.writeable else None
    torch = modules.get("torch")
    return value.detach() if torch and isinstance(value, torch.Tensor) else None
