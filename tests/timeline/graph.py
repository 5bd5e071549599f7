"""The values of a namespace and what they share, as plain data that can be compared later."""

from __future__ import annotations

import hashlib
import types
from typing import Any

import numpy as np
import pandas as pd

SHORT = 1000
"""Of longer arrays and frames, a digest is compared."""


def graph(namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the variables as plain data. Equal data means equal values that share the same parts."""
    numbers: dict[int, int] = {}
    keep: list[Any] = []
    names = sorted(name for name in namespace if not name.startswith("__"))
    return {name: _node(namespace[name], numbers, keep) for name in names}


def _node(value: Any, numbers: dict[int, int], keep: list[Any]) -> Any:
    if value is None or isinstance(value, (int, float, str, bytes)):
        return value
    if isinstance(value, tuple):
        return ("tuple", *(_node(part, numbers, keep) for part in value))
    if id(value) in numbers:
        return ("again", numbers[id(value)])
    number = numbers[id(value)] = len(numbers)
    keep.append(value)

    def parts(values: Any) -> list[Any]:
        return [_node(part, numbers, keep) for part in values]

    if isinstance(value, (list, dict)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return (type(value).__name__, number, [(key, _node(part, numbers, keep)) for key, part in items])
    if isinstance(value, set):
        return ("set", number, sorted(value))
    if isinstance(value, np.ndarray):
        shared = next((other for other in keep if _overlap(value, other)), value)
        offset = value.__array_interface__["data"][0] - shared.__array_interface__["data"][0]
        place = numbers[id(shared)], offset  # not by `base`: a restored view need not have its array as base
        strides = value.strides if shared is not value else None  # a column comes back without its gaps
        return ("array", number, *place, value.shape, strides, str(value.dtype), _contents(value))
    if isinstance(value, (pd.DataFrame, pd.Series)):
        if len(value) > SHORT:
            return ("frame", number, _contents(pd.util.hash_pandas_object(value).to_numpy()))
        return ("frame", number, repr(value.to_dict()))  # a text, because nan does not equal nan
    if isinstance(value, types.FunctionType):
        cells = parts(cell.cell_contents for cell in value.__closure__ or ())
        return ("function", number, value.__code__.co_code, value.__code__.co_consts[:3], cells)
    if isinstance(value, type):
        return ("class", number, value.__qualname__, sorted(name for name in vars(value) if name[0] != "_"))
    if isinstance(value, types.ModuleType):
        return ("module", value.__name__)
    if not hasattr(value, "__dict__"):
        return ("opaque", number, type(value).__name__)
    return ("instance", number, _node(type(value), numbers, keep), _node(vars(value), numbers, keep))


def _contents(array: np.ndarray) -> Any:
    return array.tolist() if array.size <= SHORT else hashlib.blake2b(array.tobytes()).hexdigest()


def _overlap(array: np.ndarray, other: Any) -> bool:
    return other is not array and isinstance(other, np.ndarray) and np.may_share_memory(array, other)
