"""The values of a namespace and what they share, as plain data that can be compared later."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

SHORT = 1000
"""Of longer arrays and frames, a digest is compared."""


def graph(namespace: dict[str, Any], looked_up: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the variables as plain data. Equal data means equal values that share the same parts.

    Args:
        namespace: The variables.
        looked_up: Where their functions look names up, if that is another namespace.
    """
    nodes = _Nodes(namespace if looked_up is None else looked_up)
    return {name: nodes.of(namespace[name]) for name in sorted(namespace) if not name.startswith("__")}


class _Nodes:
    """Makes a node of each value. An object that is met again is the number of its first node."""

    def __init__(self, looked_up: dict[str, Any]) -> None:
        self._looked_up = looked_up
        self._numbers: dict[int, int] = {}
        self._met: list[Any] = []

    def of(self, value: Any) -> Any:
        if isinstance(value, (int, float, np.generic)):
            return (type(value).__name__, repr(value))  # a text, because nan does not equal nan
        if value is None or isinstance(value, (str, bytes)):
            return value
        if isinstance(value, tuple):
            return ("tuple", *self._all(value))
        if id(value) in self._numbers:
            return ("again", self._numbers[id(value)])
        number = self._note(value)
        if isinstance(value, (pd.DataFrame, pd.Series)):
            return ("frame", number, *self._frame(value))
        if isinstance(value, np.ndarray):
            place = self._place(value)
            strides = value.strides if place else None  # a column comes back without its gaps
            return ("array", number, place, value.shape, strides, value.dtype.str, _contents(value))
        return self._plain(value, number)

    def _note(self, value: Any) -> int:
        self._met.append(value)  # it keeps its id
        return self._numbers.setdefault(id(value), len(self._numbers))

    def _all(self, values: Iterable[Any]) -> list[Any]:
        return [self.of(value) for value in values]

    def _named(self, values: Iterable[tuple[Any, Any]]) -> list[Any]:
        return [(name, self.of(value)) for name, value in values]

    def _plain(self, value: Any, number: int) -> tuple[Any, ...]:
        if isinstance(value, (list, dict)):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            return type(value).__name__, number, self._named(items)
        if isinstance(value, set):
            return "set", number, sorted(value)
        if isinstance(value, types.FunctionType):
            code, defaults = value.__code__, (value.__defaults__, value.__kwdefaults__)
            cells = self._all(cell.cell_contents for cell in value.__closure__ or ())
            called = code.co_code, code.co_names, code.co_consts[:3], value.__globals__ is self._looked_up
            return "function", number, *called, cells, self._all(defaults)
        if isinstance(value, type):
            parts = vars(value).items() if value.__module__ == "__main__" else ()
            names = {name for name, _ in parts if name[0] != "_"} | {"__defaults__"}  # what cells set
            own = sorted((name, part) for name, part in parts if name in names)
            return "class", number, value.__qualname__, self._all(value.__bases__), self._named(own)
        if isinstance(value, types.ModuleType):
            return "module", value.__name__
        if not hasattr(value, "__dict__"):
            return "opaque", number, type(value).__name__
        return "instance", number, self.of(type(value)), self.of(vars(value))

    def _place(self, array: np.ndarray) -> tuple[int, int] | None:
        """Return the number of a former array with the same memory, and how far this one is from it."""
        start = array.__array_interface__["data"][0]
        for other in self._met:  # not by `base`: a restored view need not have its array as base
            if other is not array and isinstance(other, np.ndarray) and np.shares_memory(array, other):
                return self._numbers[id(other)], start - other.__array_interface__["data"][0]
        return None

    def _frame(self, frame: pd.DataFrame | pd.Series) -> tuple[Any, ...]:
        index = frame.index.names, str(frame.index.dtype), _contents(frame.index.to_numpy())
        if isinstance(frame, pd.Series):
            return "series", index, frame.name, self._column(frame)
        names = repr(frame.columns.tolist())
        if frame.shape[1] > SHORT:
            return names, index, repr([frame.dtypes.tolist(), frame.to_numpy().tolist()])
        return names, index, [self._column(frame.iloc[:, at]) for at in range(frame.shape[1])]

    def _column(self, column: pd.Series) -> tuple[Any, ...]:
        values, place = column.to_numpy(), None
        if isinstance(column.dtype, np.dtype) and values.size:  # otherwise `values` is a copy
            place = self._place(values)
            self._note(values)
        contents = self._all(values) if values.dtype == object else _contents(values)
        return str(column.dtype), place, contents


def _contents(array: np.ndarray) -> Any:
    """Return the values of an array as a text; of a long one, a digest."""
    return repr(array.tolist()) if array.size <= SHORT else hashlib.blake2b(array.tobytes()).hexdigest()
