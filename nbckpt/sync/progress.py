"""Progress: the progress of a transfer, as data."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nbckpt.render import count, duration, short, size

_TELLING = 0.01
"""The remaining time is shown once this share of the bytes is moved."""


@dataclass(frozen=True)
class Progress:
    """The progress of a transfer.

    Attributes:
        files: The number of files to move.
        files_done: The number of files already moved.
        size: The bytes to move.
        done: The bytes already moved.
        current: A file that is being moved.
        seconds: Seconds since the transfer began.
    """

    files: int = 0
    files_done: int = 0
    size: int = 0
    done: int = 0
    current: str = ""
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Bytes per second; 0 before the first byte is moved."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end at this rate; None if the rate is 0."""
        return (self.size - self.done) / self.rate if self.rate else None

    def __str__(self) -> str:
        rest = self.seconds_left if self.done >= _TELLING * self.size else None
        left = "" if rest is None else f", {duration(rest)} left"
        current = f": {short(self.current, 40)}" if self.current else ""
        return (
            f"{self.files_done:,} of {count(self.files, 'file')}, {size(self.done)} of {size(self.size)}, "
            f"{size(self.rate)}/s{left}{current}"
        )

    def __add__(self, other: Progress) -> Progress:
        """Return the sum of two transfers; *other* is the later one."""
        return Progress(
            self.files + other.files,
            self.files_done + other.files_done,
            self.size + other.size,
            self.done + other.done,
            other.current or self.current,
            self.seconds + other.seconds,
        )


ProgressCallback = Callable[[Progress], None]
"""A function that receives each progress, one call at a time, in the thread that made the progress."""


class ProgressTracker:
    """Count the files and bytes that a transfer has moved. Any thread may call it.

    Args:
        on_change: Called with each change.
        clock: Returns seconds.
    """

    def __init__(
        self, on_change: ProgressCallback | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._on_change = on_change
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._now = Progress()

    @property
    def now(self) -> Progress:
        """The current progress."""
        return self._now

    def plan(self, files: int, size: int) -> None:
        """Add files and bytes to the plan; negative numbers remove some."""
        self._add(files=files, size=size)

    @contextmanager
    def file(self, path: str) -> Iterator[Callable[[int], None]]:
        """Count one file. The block moves the file and calls the yielded function with each number of bytes.

        If the block fails, the bytes that it reported are subtracted, since it may be tried again.
        """
        counted = 0

        def moved(size: int) -> None:
            nonlocal counted
            counted += size
            self._add(done=size)

        self._add(current=path)
        try:
            yield moved
        except BaseException:
            self._add(done=-counted)
            raise
        self._add(files_done=1)

    def _add(
        self, *, files: int = 0, files_done: int = 0, size: int = 0, done: int = 0, current: str = ""
    ) -> None:
        with self._lock:  # also during the call below: the callback must never see less after more
            was = self._now
            self._now = Progress(
                was.files + files,
                was.files_done + files_done,
                was.size + size,
                was.done + done,
                current or was.current,
                self._clock() - self._began,
            )
            if self._on_change is not None:
                self._on_change(self._now)
