"""Progress: how far a transfer is, as data."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nbckpt.render import count, duration, short, size

_TELLING = 0.01
"""From which share on the rate tells how long the rest takes."""


@dataclass(frozen=True)
class Progress:
    """How far a transfer is.

    Attributes:
        files: How many files it moves, of which `files_done` are there.
        size: Their bytes, of which `done` are there.
        current: A file that is under way.
        seconds: How long it has taken.
    """

    files: int = 0
    files_done: int = 0
    size: int = 0
    done: int = 0
    current: str = ""
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Bytes per second; 0 before there are any."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate; None where that cannot be told."""
        return (self.size - self.done) / self.rate if self.rate else None

    def __str__(self) -> str:
        rest = self.seconds_left if self.done >= _TELLING * self.size else None
        left = "" if rest is None else f", {duration(rest)} left"
        return (
            f"{self.files_done:,} of {count(self.files, 'file')}, {size(self.done)} of {size(self.size)}, "
            f"{size(self.rate)}/s{left}: {short(self.current, 40)}"
        )

    def __add__(self, other: Progress) -> Progress:
        """Return how far two transfers are, of which *other* came later."""
        return Progress(
            self.files + other.files,
            self.files_done + other.files_done,
            self.size + other.size,
            self.done + other.done,
            other.current or self.current,
            self.seconds + other.seconds,
        )


ProgressCallback = Callable[[Progress], None]
"""What is told of progress, in whichever thread it happens, one after the other."""


class ProgressTracker:
    """Counts what a transfer has moved, from any thread.

    Args:
        told: Told of each change.
        clock: Tells the seconds.
    """

    def __init__(
        self, told: ProgressCallback | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._told = told
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._now = Progress()

    @property
    def now(self) -> Progress:
        """How far it is."""
        return self._now

    def plan(self, files: int, size: int) -> None:
        """Add to what is to be moved, or take from it."""
        self._add(files=files, size=size)

    @contextmanager
    def file(self, path: str) -> Iterator[Callable[[int], None]]:
        """Count a file that is moved in the block, which tells how many bytes more are there.

        When the block fails, what it had told does not count: it may be tried again.
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
        with self._lock:  # while it is told, too: it never hears of less after more
            was = self._now
            self._now = Progress(
                was.files + files,
                was.files_done + files_done,
                was.size + size,
                was.done + done,
                current or was.current,
                self._clock() - self._began,
            )
            if self._told is not None:
                self._told(self._now)
