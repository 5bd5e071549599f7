"""Mapping: file contents as writable memory, without reading or copying them.

One range of memory is reserved, and parts of files are mapped into it copy-on-write. Reading a page takes it
from the page cache. Writing to a page makes a private copy, so the files never change. A mapping keeps its
file alive even if the file's name is deleted later.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterable

from nbckpt.core.elsewhere import Reserved

_MAP_FIXED = 0x10
_MADV_POPULATE_READ = 22

MAPS = sys.platform in {"linux", "darwin"}
"""Whether this system can map parts of files into one range."""

MOST_PIECES = 16384
"""The most parts that one restore may map. Linux allows a process 65,530. Above this, files are read."""


def reserve(size: int) -> mmap.mmap:
    """Return *size* bytes of fresh, writable memory. Pages are allocated when first touched.

    The memory lives as long as anything refers to it, including mapped parts.
    """
    return Reserved(-1, size)


def overlay(region: mmap.mmap, pieces: Iterable[tuple[int, int, int, int]]) -> None:
    """Map parts of files over *region*: tuples of (offset in the region, file descriptor, offset, size).

    Offsets must be multiples of the page size. The descriptors can be closed afterwards.

    Raises:
        OSError: The system refused. *region* may be partly covered.
    """
    libc = _libc()
    base = ctypes.addressof(ctypes.c_char.from_buffer(region))
    for at, fd, offset, size in pieces:
        got = libc.mmap(
            base + at,
            size,
            mmap.PROT_READ | mmap.PROT_WRITE,
            mmap.MAP_PRIVATE | _MAP_FIXED,
            fd,
            offset,
        )
        if got != base + at:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def prefault(region: mmap.mmap, start: int, size: int) -> None:
    """Load the pages for reading in one step, if the system can. Does nothing elsewhere."""
    if sys.platform == "linux":
        base = ctypes.addressof(ctypes.c_char.from_buffer(region))
        _libc().madvise(base + start, size, _MADV_POPULATE_READ)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc
