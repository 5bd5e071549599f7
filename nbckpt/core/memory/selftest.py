"""Self-test: writes to memory in every way that this process may, and compares the page record with it.

One case is left to the tests of nbckpt: a fork would copy the page tables of the whole process.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Self

from nbckpt.core.memory.userfault import PAGE, Ranges, Userfault

_PAGES = 16
_HUGE = 2 << 20
_READ_WRITE, _PRIVATE_ANONYMOUS, _FIXED = 3, 0x22, 0x10
_MOVE_THERE = 3
_DONT_NEED, _HUGE_PAGES = 4, 14


class _Memory:
    """Pages of the system's own, filled with ones and protected. Given back at the end of the block."""

    def __init__(self, record: Userfault, size: int = _PAGES * PAGE, *, huge: bool = False) -> None:
        self.record, self.size = record, size
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.mmap.restype = self.libc.mremap.restype = ctypes.c_void_p
        self.start = self.map()
        if huge:
            self.advise(_HUGE_PAGES, 0, size)
        ctypes.memset(self.start, 1, size)
        record.protect(self.start, self.end)

    @property
    def end(self) -> int:
        return self.start + self.size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.libc.munmap(ctypes.c_void_p(self.start), ctypes.c_size_t(self.size))

    def map(self, address: int = 0) -> int:
        where, fixed = ctypes.c_void_p(address), _FIXED if address else 0
        flags = _PRIVATE_ANONYMOUS | fixed
        size = ctypes.c_size_t(self.size)
        return self._checked(self.libc.mmap(where, size, _READ_WRITE, flags, -1, ctypes.c_long(0)))

    def move(self) -> None:
        """Move the pages to another address, as a reallocation does."""
        old, size = ctypes.c_void_p(self.start), ctypes.c_size_t(self.size)
        new = ctypes.c_void_p(self.map())
        self.start = self._checked(self.libc.mremap(old, size, size, _MOVE_THERE, new))

    def advise(self, advice: int, offset: int, size: int) -> None:
        self.libc.madvise(ctypes.c_void_p(self.start + offset), ctypes.c_size_t(size), advice)

    def poke(self, page: int) -> None:
        ctypes.memset(self.start + page * PAGE + 7, 2, 1)

    def written(self) -> Ranges:
        return self.record.written(self.start, self.end)

    def saw(self, page: int) -> bool:
        """Tell whether the record names this page, and names none when it is asked again."""
        at = self.start + page * PAGE
        seen = any(low <= at < high for low, high in self.written())
        return seen and self.written() == []

    @staticmethod
    def _checked(address: int | None) -> int:
        if address in {None, ctypes.c_void_p(-1).value}:
            raise OSError(ctypes.get_errno(), "mmap")
        return int(address or 0)


def _nothing(memory: _Memory) -> bool:
    return memory.written() == []


def _pointer(memory: _Memory) -> bool:
    memory.poke(3)
    return memory.saw(3)


def _thread(memory: _Memory) -> bool:
    thread = threading.Thread(target=memory.poke, args=(4,), name="nbckpt-check")
    try:
        thread.start()
    except RuntimeError:
        return True  # no thread can start, so none can write
    thread.join()
    return memory.saw(4)


def _read(memory: _Memory) -> bool:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"2")
        os.readv(reading, [(ctypes.c_char * 1).from_address(memory.start + 5 * PAGE)])
    finally:
        os.close(reading)
        os.close(writing)
    return memory.saw(5)


def _file_of_memory(memory: _Memory) -> bool:
    try:
        file = os.open("/proc/self/mem", os.O_RDWR)
    except OSError:
        return True  # nobody can write in this way
    try:
        os.pwrite(file, b"2", memory.start + 6 * PAGE)
    except OSError:
        return True
    finally:
        os.close(file)
    return memory.saw(6)


def _other_process(memory: _Memory) -> bool:
    class Part(ctypes.Structure):
        _fields_ = (("at", ctypes.c_void_p), ("size", ctypes.c_size_t))

    source = ctypes.create_string_buffer(b"2")
    mine = Part(ctypes.addressof(source), 1)
    there = Part(memory.start + 7 * PAGE, 1)
    write = memory.libc.process_vm_writev
    write.restype = ctypes.c_ssize_t
    number = ctypes.c_ulong(1)
    done = write(os.getpid(), ctypes.byref(mine), number, ctypes.byref(there), number, ctypes.c_ulong(0))
    return done != 1 or memory.saw(7)


def _dropped(memory: _Memory) -> bool:
    memory.advise(_DONT_NEED, 8 * PAGE, PAGE)
    return memory.saw(8)


def _mapped_again(memory: _Memory) -> bool:
    memory.map(memory.start)
    return _is_refused(memory)


def _moved(memory: _Memory) -> bool:
    memory.move()
    if not _is_refused(memory):
        return False
    memory.record.protect(memory.start, memory.end)
    return _nothing(memory) and _pointer(memory)


def _is_refused(memory: _Memory) -> bool:
    try:
        return memory.written() == [(memory.start, memory.end)]
    except OSError:
        return True


def _huge(memory: _Memory) -> bool:
    last = memory.size // PAGE - 1
    memory.poke(last)
    is_seen = memory.saw(last) and _pointer(memory)
    memory.advise(_DONT_NEED, 0, memory.size)
    return is_seen and memory.saw(0)


_CASES: dict[str, Callable[[_Memory], bool]] = {
    "memory that nobody wrote to": _nothing,
    "a write through a pointer": _pointer,
    "a write by another thread": _thread,
    "a read into the memory": _read,
    "a write through /proc/self/mem": _file_of_memory,
    "a write by process_vm_writev": _other_process,
    "memory dropped by MADV_DONTNEED": _dropped,
    "an address that was mapped again": _mapped_again,
    "memory that was moved": _moved,
}


def first_fault(record: Userfault) -> str:
    """Return the first case that the record gets wrong, or "" if it is exact."""
    for name, case in _CASES.items():
        with _Memory(record) as memory:
            if not case(memory):
                return name
    with _Memory(record, 2 * _HUGE, huge=True) as memory:
        return "" if _huge(memory) else "huge pages"
