"""Process: what Linux tells about this process's memory and open files, for the page record."""

from __future__ import annotations

import os
import re
import stat
import struct
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from nbckpt.core.memory.userfault import Ranges, covers, joined

_PRIVATE = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) rw.p 00000000 00:00 0 *(?:\[heap\]|\[anon:[^\n]*)?$", re.MULTILINE
)
_WRITABLE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) rw.p ", re.MULTILINE)
_QUERY = struct.Struct("9Q4I2Q")
_PROCMAP_QUERY = (3 << 30) | (_QUERY.size << 16) | (ord("f") << 8) | 17
_READABLE, _MAY_WRITE, _SHARED = 1, 2, 8
_DEVICES = (
    *("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel", "/dev/infiniband/", "/dev/vfio/"),
    "/dev/video",
    "anon_inode:[io_uring]",
)


def private_memory() -> Ranges:
    """Return the memory that no file holds and no other process maps; nothing if that cannot be read."""
    return _mapped(_PRIVATE)


def is_writable(start: int, end: int) -> bool:
    """Tell whether memory can be written to, and no such write reaches a file or another process."""
    try:
        with Path("/proc/self/maps").open("rb", 0) as maps:
            while start < end:
                start = _end_of_writable(maps.fileno(), start)
    except FileNotFoundError:  # also if memory of another kind comes next
        return False
    except (OSError, ImportError):  # before Linux 6.11 only the text tells
        return covers(_mapped(_WRITABLE), start, end)
    return True


def _end_of_writable(maps: int, address: int) -> int:
    """Return where the mapping with this address ends.

    Raises:
        FileNotFoundError: There is none that can be written to, or it is shared.
        OSError: This system cannot tell.
    """
    query = bytearray(_QUERY.pack(_QUERY.size, _READABLE | _MAY_WRITE, address, *bytes(12)))
    import_module("fcntl").ioctl(maps, _PROCMAP_QUERY, query)
    _, _, _, _, end, flags, *_ = _QUERY.unpack(query)
    if flags & _SHARED:
        raise FileNotFoundError
    return int(end)


def _mapped(form: re.Pattern[bytes]) -> Ranges:
    try:
        lines = Path("/proc/self/maps").read_bytes()
    except OSError:
        return []
    return joined([(int(low, 16), int(high, 16)) for low, high in form.findall(lines)])


def unseen_writer() -> str:
    """Return an open device or file through which memory can change without a page fault; "" for none.

    A graphics card, a network card or the kernel itself may hold pages that it writes to later: no page
    record tells of such a write.
    """
    fcntl = import_module("fcntl")
    folder = "/proc/self/fd"
    try:
        numbers = os.listdir(folder)  # noqa: PTH208  a third of the time of paths, several times a cell
    except OSError as error:
        return str(error)
    for number in numbers:
        with suppress(OSError):  # closed meanwhile
            mode = os.fstat(int(number)).st_mode
            if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):  # most of a kernel's files
                continue
            is_file = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
            if is_file and not fcntl.fcntl(int(number), fcntl.F_GETFL) & os.O_DIRECT:
                continue
            target = os.readlink(f"{folder}/{number}")  # noqa: PTH115  as above
            if target.startswith(_DEVICES):
                return target
            if target.startswith("/") and fcntl.fcntl(int(number), fcntl.F_GETFL) & os.O_DIRECT:
                return f"{target}, opened with O_DIRECT"
    return ""
