"""Userfault: the calls with which Linux (6.7 and later) tells a process which of its pages were written.

A userfaultfd in user mode protects pages against writing. The first write to such a page is not delivered to
anybody: Linux removes the protection and goes on. PAGEMAP_SCAN finds the pages without protection, and
protects them again, in one call. No privilege is needed. Containers may forbid userfaultfd.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import sys
from bisect import bisect_right
from collections.abc import Callable
from importlib import import_module
from typing import Any

Ranges = list[tuple[int, int]]
"""Ranges of memory, from an address to the one after the last byte, in order."""

PAGE = mmap.PAGESIZE

_SYSCALL = {"x86_64": 323, "aarch64": 282}
_USER_MODE_ONLY = 1
_API, _WP_ASYNC, _WP_UNPOPULATED = 0xAA, 1 << 15, 1 << 13
_REGISTER_WP = 2
_WP = 1
_SCAN_WP_MATCHING, _SCAN_CHECK_WPASYNC = 1, 2
_IS_WRITTEN, _IS_PRESENT, _IS_SWAPPED = 1 << 1, 1 << 3, 1 << 4
_SCAN = struct.Struct("12Q")
_MOST_FOUND = 4096


def _code(direction: int, kind: int, number: int, size: int) -> int:
    return (direction << 30) | (size << 16) | (kind << 8) | number


_UFFDIO_API = _code(3, 0xAA, 0x3F, 24)
_UFFDIO_REGISTER = _code(3, 0xAA, 0x00, 32)
_UFFDIO_UNREGISTER = _code(2, 0xAA, 0x01, 16)
_UFFDIO_WRITEPROTECT = _code(3, 0xAA, 0x06, 24)
_PAGEMAP_SCAN = _code(3, ord("f"), 16, 96)


class Userfault:
    """The record of written pages of this process. A forked child needs one of its own.

    Only one thread at a time may use it.

    Raises:
        OSError: It does not exist here, or is forbidden.
    """

    def __init__(self) -> None:
        number = _SYSCALL.get(platform.machine())
        if sys.platform != "linux" or number is None or sys.maxsize < 1 << 32:
            raise OSError("it needs Linux 6.7 on x86_64 or aarch64")
        self._files: list[int] = []
        self._ranges = (ctypes.c_uint64 * (3 * _MOST_FOUND))()
        self._ioctl: Callable[..., Any] = import_module("fcntl").ioctl  # there is none on Windows
        libc = ctypes.CDLL(None, use_errno=True)
        opened = libc.syscall(number, _USER_MODE_ONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if opened < 0:
            raise OSError(ctypes.get_errno(), f"userfaultfd: {os.strerror(ctypes.get_errno())}")
        self._files.append(opened)
        try:
            # Without WP_ASYNC a write to a protected page would wait for ever: this call then fails.
            self._call(_UFFDIO_API, "3Q", _API, _WP_ASYNC | _WP_UNPOPULATED, 0)
            self._files.append(os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            self.close()
            raise

    def protect(self, start: int, end: int) -> None:
        """Begin the record of whole pages: from now on `written` tells their writes.

        Raises:
            OSError: These pages can have no record.
        """
        self._call(_UFFDIO_REGISTER, "4Q", start, end - start, _REGISTER_WP, 0)
        try:
            # Not by a scan: pages that were moved here by mremap can look protected and not be.
            self._call(_UFFDIO_WRITEPROTECT, "3Q", start, end - start, _WP)
        except OSError:
            self.release(start, end)
            raise

    def unprotect(self, start: int, end: int) -> None:
        """Count pages as written before they are. Writing them then costs no page faults.

        Raises:
            OSError: Some of them are not protected by this record.
        """
        self._call(_UFFDIO_WRITEPROTECT, "3Q", start, end - start, 0)

    def release(self, start: int, end: int) -> None:
        """End the record of these pages."""
        self._call(_UFFDIO_UNREGISTER, "2Q", start, end - start)

    def written(self, start: int, end: int) -> Ranges:
        """Return the pages that may have been written since the last call, and protect them again.

        Raises:
            OSError: Some of them are no longer the pages that were protected.
        """
        pages: Ranges = []
        while start < end:
            count, start = self._scan(start, end)
            fields = (self._ranges[at : 3 * count : 3] for at in range(3))
            # Pages that are nowhere lost their content without a write, for example by MADV_DONTNEED.
            pages += (
                (low, high)
                for low, high, kind in zip(*fields, strict=True)
                if kind & _IS_WRITTEN or not kind & (_IS_PRESENT | _IS_SWAPPED)
            )
        return joined(pages)

    def close(self) -> None:
        """Close the files, which ends the record."""
        while self._files:
            os.close(self._files.pop())

    def _call(self, code: int, form: str, *fields: int) -> None:
        self._ioctl(self._files[0], code, bytearray(struct.pack(form, *fields)))

    def _scan(self, start: int, end: int) -> tuple[int, int]:
        """Find pages that are written or not present, and protect them. Return their number and the end."""
        place, flags = ctypes.addressof(self._ranges), _SCAN_WP_MATCHING | _SCAN_CHECK_WPASYNC
        any_of, asked = _IS_WRITTEN | _IS_PRESENT, _IS_WRITTEN | _IS_PRESENT | _IS_SWAPPED
        query = bytearray(
            _SCAN.pack(96, flags, start, end, 0, place, _MOST_FOUND, 0, _IS_PRESENT, 0, any_of, asked)
        )
        count = self._ioctl(self._files[1], _PAGEMAP_SCAN, query)
        walked = _SCAN.unpack(query)[4]
        if walked <= start:
            raise OSError("PAGEMAP_SCAN stopped")
        return count, walked


def joined(ranges: Ranges, gap: int = 0) -> Ranges:
    """Return the ranges in order; those that touch, or are at most *gap* bytes apart, as one."""
    together: Ranges = []
    for low, high in sorted(ranges):
        if together and low <= together[-1][1] + gap:
            together[-1] = together[-1][0], max(high, together[-1][1])
        else:
            together.append((low, high))
    return together


def covers(ranges: Ranges, start: int, end: int) -> bool:
    """Tell whether one of the ranges, which are in order, contains this one."""
    at = bisect_right(ranges, (start, 1 << 64)) - 1
    return at >= 0 and ranges[at][1] >= end
