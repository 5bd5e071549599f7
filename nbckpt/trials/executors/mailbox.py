"""Mailbox: messages between the kernel and a job on another machine, through two files in a shared folder.

Each side appends to its own file and reads the other's. A network file system shows what was appended when
the file is opened anew; a new file may stay unseen for a minute. So nothing is renamed or listed.
See docs/decisions/0110.
"""

from __future__ import annotations

import os
import struct
import threading
from contextlib import suppress
from pathlib import Path

from nbckpt.trials.executors.base import WorkerLostError

REQUEST, ANSWER, OUTPUT = b"Q", b"A", b"O"
ARRIVED, TIME_IS_UP, AGAIN, ALIVE = b"H", b"T", b"R", b"."
"""The kinds of messages: the job runs, it ends soon, it was started a second time, the kernel lives."""

_KINDS = {REQUEST, ANSWER, OUTPUT, ARRIVED, TIME_IS_UP, AGAIN, ALIVE}
_HEAD = struct.Struct(">cQ")
_LARGEST = 1 << 40


class Mailbox:
    """One side of a pair of files. Any thread may send; one thread receives.

    Args:
        folder: The folder of both files.
        mine: The name of the file that this side writes.
        other: The name of the file that the other side writes.
    """

    def __init__(self, folder: Path, mine: str, other: str) -> None:
        self.folder = folder
        self._mine, self._other = folder / mine, folder / other
        self._read = 0
        self._sending = threading.Lock()

    @classmethod
    def of_kernel(cls, folder: Path) -> Mailbox:
        """Return the kernel's side, and make both files.

        Raises:
            OSError: The disk failed.
        """
        folder.mkdir(mode=0o700, parents=True)
        for name in ("to_job", "to_kernel"):
            (folder / name).touch(mode=0o600)
        return cls(folder, "to_job", "to_kernel")

    @classmethod
    def of_job(cls, folder: Path) -> Mailbox:
        """Return the job's side."""
        return cls(folder, "to_kernel", "to_job")

    @property
    def was_used(self) -> bool:
        """Whether this side has sent anything, perhaps in another process."""
        return self._mine.stat().st_size > 0

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """Send a message, whole or not at all.

        Raises:
            OSError: The disk failed, or the other side has removed the mailbox.
        """
        frame = memoryview(_HEAD.pack(kind, len(data)) + data)
        with self._sending:
            file = os.open(self._mine, os.O_WRONLY | os.O_APPEND)
            size = os.fstat(file).st_size
            try:
                while frame:
                    frame = frame[os.write(file, frame) :]
            except OSError:
                with suppress(OSError):  # a full disk: the next message must not follow half of this one
                    os.ftruncate(file, size)
                raise
            finally:
                os.close(file)

    def receive(self) -> list[tuple[bytes, bytes]]:
        """Return the messages that have come whole, each once.

        Raises:
            OSError: The disk failed, or the other side has removed the mailbox.
            WorkerLostError: There is something that is not a message, so none after it can be read.
        """
        with self._other.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        messages, at = [], 0
        while at + _HEAD.size <= len(data):
            kind, size = _HEAD.unpack_from(data, at)
            if kind not in _KINDS or size > _LARGEST:
                raise WorkerLostError(f"the mailbox {str(self._other)!r} is damaged")
            end = at + _HEAD.size + size
            if end > len(data):
                break
            messages.append((kind, data[at + _HEAD.size : end]))
            at = end
        self._read += at
        return messages

    def sent_to_me(self) -> int:
        """Return how many bytes the other side has sent; -1 if the mailbox is gone."""
        try:
            file = os.open(self._other, os.O_RDONLY)
        except OSError:
            return -1
        try:
            return os.fstat(file).st_size
        finally:
            os.close(file)
