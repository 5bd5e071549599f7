"""Spans: ranges of memory by address, and their overlaps."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A range of memory that a record refers to. *view* keeps it alive."""

    address: int
    size: int
    view: memoryview

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.address + self.size


class Overlaps:
    """The ranges of memory that several spans use. *owners* are objects that have memory of their own."""

    def __init__(self, spans: Sequence[Span], owners: Iterable[object] = ()) -> None:
        self._owners = {id(owner) for owner in owners}
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

    def owned(self, owner: object) -> bool:
        """Tell whether an object's memory is also used through the object itself."""
        return id(owner) in self._owners

    def covers(self, low: int, high: int) -> bool:
        """Tell whether several spans use parts of this range."""
        return self.around(low, high) is not None

    def around(self, low: int, high: int) -> tuple[int, int] | None:
        """Return the whole range that several spans use and that has parts of this one; None without one."""
        at = bisect_right(self._ranges, (low, high))
        return next(((a, b) for a, b in self._ranges[max(0, at - 1) : at + 1] if a < high and low < b), None)


NO_OVERLAPS = Overlaps(())


def merged(spans: list[Span]) -> tuple[list[Span], list[tuple[int, int, int]]]:
    """Merge spans that overlap. Return the merged spans, and each span as (its merged span, offset, size)."""
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
    """Return the address of a view's first byte. The view may be read-only."""
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
