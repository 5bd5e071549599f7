"""Codec: values to records with the memory of their arrays beside them, and back.

A record is a pickle of protocol 5. Large memory is not in it but handed over as *spans*, views of the
objects' own memory, so that nothing is copied. What the pickler walks over is also how the identity of
objects is known: `links` are the mutable objects that a record reaches.
"""

from __future__ import annotations

import ctypes
import enum
import gc
import pickle
import sys
import types
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from itertools import compress
from pathlib import PurePath
from threading import Lock, RLock
from typing import Any
from uuid import UUID

from cloudpickle import Pickler as _CloudPickler

from nbckpt.core import reducers
from nbckpt.core.classes import Classes
from nbckpt.store import Buffer

_MANY = 200_000
SMALL = 4 << 10
"""Memory smaller than this stays in the record, unless another array shares it."""

# Objects of these types cannot change, so whether two variables share one is not worth keeping.
_IMMUTABLE: tuple[type, ...] = (
    *(str, bytes, int, float, complex, bool, type(None), tuple, frozenset, range, slice),
    *(
        type,
        types.FunctionType,
        types.BuiltinFunctionType,
        types.MethodType,
        types.ModuleType,
        types.CodeType,
    ),
    *(
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        types.GetSetDescriptorType,
        types.CellType,
    ),
    *(
        type(Ellipsis),
        type(NotImplemented),
        property,
        classmethod,
        staticmethod,
        pickle.PickleBuffer,
    ),
    *(
        enum.Enum,
        date,
        time,
        timedelta,
        tzinfo,
        Decimal,
        Fraction,
        PurePath,
        UUID,
        types.MappingProxyType,
    ),
)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of memory that a record refers to: *view* keeps it alive."""

    address: int
    size: int
    view: memoryview

    @property
    def end(self) -> int:
        """The address past the last byte."""
        return self.address + self.size


@dataclass(frozen=True, slots=True)
class Pickled:
    """A value as a record.

    Attributes:
        record: The pickle.
        buffers: The memory beside it, in the order in which the record asks for it.
        reached: All the memory that the value's arrays reach, also what is copied in the record.
        links: The mutable objects that the value reaches.
    """

    record: bytes
    buffers: list[Span]
    reached: list[Span]
    links: list[object]


class Overlaps:
    """Which ranges of memory are reached by more than one span."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._ranges: list[tuple[int, int]] = []
        low = high = shared = 0
        for span in sorted(spans, key=lambda span: (span.address, -span.size)):
            if span.address >= high:
                if shared:
                    self._ranges.append((low, high))
                low, high, shared = span.address, span.end, 0
            else:
                high, shared = max(high, span.end), shared + 1
        if shared:
            self._ranges.append((low, high))

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def covers(self, low: int, high: int) -> bool:
        """Tell whether more than one span reaches into this range."""
        at = bisect_right(self._ranges, (low, high))
        return any(a < high and low < b for a, b in self._ranges[max(0, at - 1) : at + 1])


def _can_change(kind: type) -> bool:
    """Tell whether objects of a type can change, so that sharing one matters."""
    immutable = _IMMUTABLE
    if numpy := sys.modules.get("numpy"):
        immutable += (numpy.generic, numpy.dtype, numpy.ufunc)
    return not issubclass(kind, immutable)


_REDUCERS: dict[type, Callable[[Any], Any]] = {
    types.CellType: reducers.reduce_cell,
    memoryview: reducers.reduce_memoryview,
    type(Lock()): reducers.reduce_lock,
    type(RLock()): reducers.reduce_rlock,
}


class _Pickler(_CloudPickler):  # type: ignore[misc]  # cloudpickle ships no types
    """cloudpickle's pickler with our reducers before its own."""

    def __init__(
        self,
        write: Callable[[bytes], Any],
        namespace: dict[str, Any],
        overlaps: Overlaps,
        take: Callable[..., Any],
    ) -> None:
        super().__init__(types.SimpleNamespace(write=write), 5, take)
        self._namespace = namespace
        self._overlaps = overlaps
        self._reach: list[Span] = []
        self._ndarray = getattr(sys.modules.get("numpy"), "ndarray", None)
        self._tensor = getattr(sys.modules.get("torch"), "Tensor", None)

    def reducer_override(self, obj: Any) -> Any:
        """See `pickle.Pickler.reducer_override`."""
        kind = type(obj)
        if kind is self._ndarray:
            return self._array(obj)
        if kind is types.FunctionType:
            return self._function(obj)
        if kind is self._tensor:
            return reducers.reduce_tensor(obj)
        if (reduce := _REDUCERS.get(kind)) is not None:
            return reduce(obj)
        return super().reducer_override(obj) if issubclass(kind, type) else NotImplemented

    def _function(self, function: types.FunctionType) -> Any:
        if function.__globals__ is self._namespace:
            return reducers.reduce_function(function)
        return super().reducer_override(function)

    def _array(self, array: Any) -> Any:
        reduced = reducers.reduce_array(array, self._overlaps.covers)
        strided = not (array.flags.c_contiguous or array.flags.f_contiguous)
        if strided and array.size and not array.dtype.hasobject:
            # A copy goes into the record, but what it was copied from may be shared.
            low, high = reducers.byte_range(array)
            self._reach.append(Span(low, high - low, memoryview(b"")))
        return reduced

    @property
    def reach(self) -> list[Span]:
        """The memory of the strided arrays met so far."""
        return self._reach


NO_OVERLAPS = Overlaps(())


def merged(spans: list[Span]) -> tuple[list[Span], list[tuple[int, int, int]]]:
    """Merge spans that overlap; return what they became, and each span as (which of these, offset, size)."""
    roots: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.address, -span.size)):
        last = roots[-1] if roots else None
        if last is None or span.address >= last.end:
            roots.append(span)
        elif span.end > last.end:
            size = span.end - last.address
            roots[-1] = Span(last.address, size, memory_at(last.address, size, (last.view, span.view)))
    starts = [root.address for root in roots]
    at = [bisect_right(starts, span.address) - 1 for span in spans]
    return roots, [
        (root, span.address - starts[root], span.size) for root, span in zip(at, spans, strict=True)
    ]


def dump(value: Any, namespace: dict[str, Any], overlaps: Overlaps = NO_OVERLAPS) -> Pickled:
    """Turn *value* into a record.

    Functions whose globals are *namespace* leave them behind. Small memory goes into the record unless
    *overlaps* says that it is shared.

    Raises:
        Exception: Whatever the value's own way of pickling raises.
    """
    chunks: list[bytes] = []
    buffers: list[Span] = []
    reached: list[Span] = []
    seen: list[object] = []

    def take(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        span = Span(address_of(view), len(view), view)
        if span.size and not isinstance(view.obj, reducers.Made):
            reached.append(span)
        if span.size < SMALL and not overlaps.covers(span.address, span.end):
            return True  # in the record
        buffers.append(span)
        return False

    pickler = _Pickler(chunks.append, namespace, overlaps, take)
    # Called for every object with C speed; a list's append answers None, which means "pickle it as usual".
    pickler.persistent_id = seen.append
    with paused_gc():
        pickler.dump(value)
        mutable = {kind: _can_change(kind) for kind in set(map(type, seen))}
        links = list(compress(seen, map(mutable.__getitem__, map(type, seen))))
    if len(seen) > _MANY:
        seen.clear()
        pickler.clear_memo()
        _give_back()
    return Pickled(b"".join(chunks), buffers, reached + pickler.reach, links)


def load(
    record: Buffer,
    buffers: Sequence[memoryview],
    namespace: dict[str, Any] | None = None,
    classes: Classes | None = None,
) -> Any:
    """Turn a record back into its value. This runs code that the record names.

    Functions of a notebook read and write *namespace*, by default that of the running program. Its
    classes come from *classes*, by default the live ones; those are not changed in any case.
    """
    with reducers.live_namespace(namespace), paused_gc():
        return (classes or Classes()).load(record, buffers)


def _give_back() -> None:
    """Give free memory back to the system, where the C library can: a long walk leaves 20 MiB of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


@contextmanager
def paused_gc() -> Iterator[None]:
    """Keep the cyclic garbage collector from walking over objects while many are made (4 times faster)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _PyBuffer(ctypes.Structure):
    """CPython's Py_buffer."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("rest", ctypes.c_void_p * 6),
    )


def address_of(view: memoryview) -> int:
    """Return the address of a view's first byte, also of a read-only one."""
    if not len(view):
        return 0
    raw = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(raw), 0)
    try:
        return int(raw.buf or 0)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(raw))


def memory_at(address: int, size: int, keep: object) -> memoryview:
    """Return a view of memory that *keep* keeps alive."""
    array = (ctypes.c_char * size).from_address(address)
    array._keep = keep  # type: ignore[attr-defined]  # the array refers to its owner
    return memoryview(array).cast("B")
