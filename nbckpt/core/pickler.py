"""Pickler: cloudpickle's, with our reducers before its own."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from sys import modules
from threading import Lock, RLock
from typing import Any

from cloudpickle import Pickler as _CloudPickler

from nbckpt.core import reducers
from nbckpt.core.spans import Overlaps, Span

_REDUCERS: dict[type, Callable[[Any], Any]] = {
    memoryview: reducers.reduce_memoryview,
    type(Lock()): reducers.reduce_lock,
    type(RLock()): reducers.reduce_rlock,
    type(dataclasses.MISSING): lambda _: "MISSING",  # the one in its module: code asks whether it is that
}


class Pickler(_CloudPickler):  # type: ignore[misc]  # cloudpickle ships no types
    """Takes one value apart and tells what it met.

    Attributes:
        seen: Every object that it met, in order; an object that is met again is there again.
        reach: The memory of the strided arrays that it copied.
        classes: For each class that it took apart: how many objects it had seen before, and the object that
            comes last in the class.
    """

    def __init__(
        self,
        write: Callable[[bytes], Any],
        namespace: dict[str, Any],
        overlaps: Overlaps,
        take: Callable[..., Any],
    ) -> None:
        super().__init__(types.SimpleNamespace(write=write), 5, take)
        self.seen: list[object] = []
        self.reach: list[Span] = []
        self.classes: list[tuple[int, object]] = []
        # Called for every object with C speed; a list's append answers None: "pickle it as usual".
        self.persistent_id = self.seen.append
        self._namespace = namespace
        self._overlaps = overlaps
        self._filled_later: dict[int, types.CellType] = {}
        self._ndarray = getattr(modules.get("numpy"), "ndarray", None)
        self._structured = getattr(modules.get("numpy.dtypes"), "VoidDType", None)
        self._tensor = getattr(modules.get("torch"), "Tensor", None)

    def reducer_override(self, obj: Any) -> Any:
        """See `pickle.Pickler.reducer_override`."""
        kind = type(obj)
        if kind is self._ndarray:
            return self._array(obj)
        if kind is types.FunctionType:
            return self._function(obj)
        if kind is types.CellType:
            return self._cell(obj)
        if kind is self._tensor:
            return reducers.reduce_tensor(obj)
        if kind is self._structured:
            return reducers.reduce_dtype(obj)
        if (reduce := _REDUCERS.get(kind)) is not None:
            return reduce(obj)
        return self._class(obj) if issubclass(kind, type) else NotImplemented

    def _function(self, function: types.FunctionType) -> Any:
        own = function.__globals__ is self._namespace
        reduced = reducers.reduce_function(function) if own else super().reducer_override(function)
        if function.__closure__ and reduced is not NotImplemented:
            self._filled_later |= {id(cell): cell for cell in function.__closure__}
        return reduced if own else reducers.with_cells(function, reduced)

    def _cell(self, cell: types.CellType) -> Any:
        """Make a cell; where a function has it, empty: the function that has it may be what it holds."""
        return types.CellType, () if id(cell) in self._filled_later else reducers.contents_of(cell)

    def _class(self, kind: type) -> Any:
        reduced = super().reducer_override(kind)
        if isinstance(reduced, tuple) and len(reduced) > 2:
            attributes, last = reduced[2]
            attributes.pop("__slotnames__", None)  # is there once an instance was pickled
            self.classes.append((len(self.seen), last))
        return reduced

    def _array(self, array: Any) -> Any:
        reduced = reducers.reduce_array(array, self._overlaps.covers)
        strided = not (array.flags.c_contiguous or array.flags.f_contiguous)
        if strided and array.size and not array.dtype.hasobject:
            # A copy goes into the record, but what it was copied from may be shared.
            low, high = reducers.byte_range(array)
            self.reach.append(Span(low, high - low, memoryview(b"")))
        return reduced
