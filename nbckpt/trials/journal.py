"""The journal of a trial: one line of JSON per event, only ever appended to.

A trial's state is a fold over its events. A crash can tear the last line, which is then ignored; every
line before it is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nbckpt.errors import StoreError

FILE = "events.jsonl"

Event = dict[str, Any]


def _encoder() -> Callable[[Any], str]:
    """Return what makes JSON of an event, a fifth faster than `JSONEncoder.encode`, which begins anew."""
    usual = json.JSONEncoder(separators=(",", ":"), default=repr, check_circular=False)
    make, text = (getattr(json.encoder, name, None) for name in ("c_make_encoder", "encode_basestring_ascii"))
    try:
        encode = make(None, repr, text, None, ":", ",", *(False, False, True))  # type: ignore[misc]
    except TypeError:  # another Python's
        return usual.encode
    return lambda event: "".join(encode(event, 0))


_encode = _encoder()


class Journal:
    """Appends to one trial's journal. One writer at a time.

    Args:
        file: The journal, which is made when the first event comes.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._fd: int | None = None

    def append(self, event: Event, *, durable: bool = False) -> None:
        """Write one event.

        After the return it survives the death of the process; with *durable* that of the machine.

        Raises:
            StoreError: The disk failed; the events before it are whole.
        """
        try:
            fd = self._open() if self._fd is None else self._fd
            line = f"{_encode(event)}\n".encode()
            while line:
                line = line[os.write(fd, line) :]
            if durable:
                os.fsync(fd)
        except OSError as error:
            raise StoreError(f"cannot write to {str(self._file)!r}: {error.strerror or error}") from error

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._fd = os.open(self._file, flags, 0o666)
        size = os.fstat(self._fd).st_size
        # What a crash tore is ended here, or the next event would be torn with it.
        if size and _last_byte(self._fd, size) != b"\n":
            os.write(self._fd, b"\n")
        return self._fd

    def close(self) -> None:
        """Let go of the file."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def read(file: Path) -> Iterator[Event]:
    """Yield the events of a journal; torn lines are left out."""
    try:
        lines = file.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot read {str(file)!r}: {error.strerror or error}") from error
    # What follows the last line's end was torn; so is, inside, what a crash left before a restart.
    for line in lines[:-1]:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def stamp(file: Path) -> tuple[int, int, int] | None:
    """Return what differs once a journal was written to; None where there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _last_byte(fd: int, size: int) -> bytes:
    os.lseek(fd, size - 1, os.SEEK_SET)
    return os.read(fd, 1)
