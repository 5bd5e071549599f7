"""The log of a trial: the output of its code, in a file beside its journal. The newest part is kept."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

from nbckpt.errors import StoreError, visible
from nbckpt.render import short
from nbckpt.store.files import only_files, write_file
from nbckpt.store.scan import link_outside

FILE = "log.txt"
LARGEST = 1 << 20
"""The most bytes of a log; a longer log loses its older half."""
WIDEST = 200
"""The most characters of a line that are shown."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_ANEW = re.compile(r"\r|\x08{8,}")


class _TheirsError(StoreError):
    """The trial itself writes a file with the log's name; that file is left unchanged."""

    def __init__(self, file: Path) -> None:
        super().__init__(
            f"its output is no longer kept: the trial writes {str(file)!r} itself. Give its own file "
            "another name"
        )


class Log:
    """Appends to one trial's log. Any thread may write. A failure never stops the code that prints.

    What a fork of this process prints is not kept: two processes would write one file.

    Args:
        folder: The trial's folder.
        warns: Called once with the reason if nothing can be written.
        is_new: Whether the trial starts for the first time. A file that exists then is the user's.
    """

    def __init__(self, folder: Path, warns: Callable[[Exception], object], *, is_new: bool = False) -> None:
        self._file = folder / FILE
        self._warns = warns
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._fd: int | None = None
        self._is_new = is_new
        self._size = 0
        self._ended = False

    def write(self, text: str) -> None:
        """Add *text*. The first call makes the file."""
        if self._ended or not text or os.getpid() != self._process:  # before the lock, which a fork may copy
            return
        try:
            with self._lock:
                self._append(text.encode("utf-8", "backslashreplace")[-LARGEST // 2 :])
        except _TheirsError as error:
            self._ended = True
            self._warns(error)
        except OSError as error:
            self._ended = True  # before the warning, because that is printed too
            reason = error.strerror or error
            self._warns(StoreError(f"the output is not logged: cannot write {str(self._file)!r}: {reason}"))

    def _append(self, data: bytes) -> None:
        if self._ended:
            return
        if self._fd is None:
            self._open()
            if self._is_new and self._size:
                raise _TheirsError(self._file)
            self._is_new = False
        assert self._fd is not None
        status = os.fstat(self._fd)
        if status.st_size != self._size or not status.st_nlink:
            raise _TheirsError(self._file)
        if self._size + len(data) > LARGEST:
            self._halve()
        assert self._fd is not None
        self._size += len(data)
        while data:
            data = data[os.write(self._fd, data) :]

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        # A folder from another machine may hold a link to anywhere, or a pipe that nobody reads.
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        self._fd = os.open(self._file, flags, 0o666)
        self._size = os.fstat(self._fd).st_size

    def _halve(self) -> None:
        """Keep the newer half, from the start of a line. A reader sees the old file or the new one."""
        self._close()
        kept = self._file.read_bytes()[-LARGEST // 2 :]
        try:
            write_file(self._file, kept[kept.find(b"\n") + 1 :])
        except PermissionError:  # on Windows, while somebody reads the file: the next write tries again
            if self._size > 2 * LARGEST:
                raise
        self._open()

    def close(self) -> None:
        """Close the file. Later output is not kept."""
        with self._lock:
            self._ended = True
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def last_lines(folder: Path, most: int) -> list[str]:
    """Return the last lines of the log in a trial's folder, as a terminal shows them; [] if there is no log.

    If a line was overwritten several times, as by a progress bar, its last state counts. Colours are left
    out, and other control characters are made visible.
    """
    if link_outside(folder, FILE):
        return []
    try:
        with open(folder / FILE, "rb", opener=only_files) as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
    return [_seen(line) for line in lines[-most:]] if most > 0 else []


def _seen(line: str) -> str:
    states = _ANEW.split(_ESCAPES.sub("", line))
    last = next((state for state in reversed(states) if state.strip()), "")
    return short(visible(last.rstrip()), WIDEST)
