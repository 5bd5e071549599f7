"""Process: what Linux tells about this process's memory and open files, for the page record."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from nbckpt.core.memory.userfault import Ranges, joined

_PRIVATE = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) rw.p 00000000 00:00 0 *(?:\[heap\]|\[anon:[^\n]*)?$", re.MULTILINE
)
_WRITABLE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) rw.p ", re.MULTILINE)
_DEVICES = (
    *("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel", "/dev/infiniband/", "/dev/vfio/"),
    "/dev/video",
    "anon_inode:[io_uring]",
)


def private_memory() -> Ranges:
    """Return the memory that no file holds and no other process maps; nothing if that cannot be read."""
    return _mapped(_PRIVATE)


def writable_memory() -> Ranges:
    """Return the memory whose writes reach no file and no other process; nothing if that cannot be read."""
    return _mapped(_WRITABLE)


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
            target = os.readlink(f"{folder}/{number}")  # noqa: PTH115  as above
            if target.startswith(_DEVICES):
                return target
            if target.startswith("/") and fcntl.fcntl(int(number), fcntl.F_GETFL) & os.O_DIRECT:
                return f"{target}, opened with O_DIRECT"
    return ""
