"""Fingerprint: what identifies the contents of a file or a folder.

The contents of a file are read once. They are not read again while its size, its time and its place on the
disk are the same, and the fingerprint says that.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbckpt.core.algorithms import PREFERRED
from nbckpt.errors import UsageError
from nbckpt.store.files import only_files

KNOWN = "size and time are as when its contents were read"
MOST_FILES = 100_000
_RACY_NS = 2_000_000_000
"""A change so soon after the reading may leave the time as it was."""

_MOST_KNOWN = 200_000
_PIECE = 4 << 20

Stamp = tuple[int, int, int, int]

_lock = threading.Lock()
_known: dict[str, tuple[Stamp, str]] = {}


def fingerprint(path: Path) -> dict[str, Any]:
    """Return size, time and checksum of a file, or of all files in a folder.

    Raises:
        OSError: It does not exist, or cannot be read.
        UsageError: It is neither a file nor a folder.
    """
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        return _of_folder(path)
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{str(path)!r} is neither a file nor a folder, so it has no fingerprint")
    checksum, is_known = _of_file(path)
    known = {"size": status.st_size, "modified": _moment(status.st_mtime_ns), "checksum": checksum}
    return known | ({"note": KNOWN} if is_known else {})


def _of_file(path: Path) -> tuple[str, bool]:
    """Return the checksum of a file, and whether it was known already."""
    stamp = _stamp(path)
    before = _known.get(str(path))
    if before is not None and before[0] == stamp:
        return before[1], True
    began = time.time_ns()
    checksum = PREFERRED.checksum(_pieces(path))
    with _lock:
        _known.pop(str(path), None)
        if stamp == _stamp(path) and began - stamp[1] > _RACY_NS and len(_known) < _MOST_KNOWN:
            _known[str(path)] = stamp, checksum
    return checksum, False


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file. It is not mapped: a mapped file that becomes shorter ends the process."""
    with open(path, "rb", buffering=0, opener=only_files) as file:
        while piece := file.read(_PIECE):
            yield piece


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns


def _of_folder(folder: Path) -> dict[str, Any]:
    """Return the fingerprint of a folder: of the sorted list of its files and their checksums."""
    hasher, size, newest, files, known = PREFERRED.hasher(), 0, 0, 0, 0
    for path in _files(folder):
        if files == MOST_FILES:
            return {
                "files": files,
                "note": f"only {MOST_FILES} files were counted, and no contents read",
            }
        checksum, is_known = _of_file(path)
        status = path.stat()
        files, known, size = files + 1, known + is_known, size + status.st_size
        newest = max(newest, status.st_mtime_ns)
        name = path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape")
        hasher.update(name + b"\0" + checksum.encode() + b"\n")
    note = {"note": KNOWN} if files and known == files else {}
    modified = {"modified": _moment(newest)} if files else {}
    return {"files": files, "size": size, **modified, "checksum": PREFERRED.text(hasher.digest()), **note}


def _files(folder: Path) -> Iterator[Path]:
    """Yield the regular files of a folder in order. Links to folders are not followed."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file():
                yield path


def _moment(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
