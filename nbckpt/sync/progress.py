"""Progress: how far a transfer is, as data."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


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


Told = Callable[[Progress], None]
"""What is told of progress, in whichever thread it happens."""


class Meter:
    """Counts what a transfer has moved, from any thread.

    Args:
        told: Told of each change.
    """

    def __init__(self, told: Told | None = None) -> None:
        self._told = told
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._now = Progress()

    @property
    def now(self) -> Progress:
        """How far it is."""
        return self._now

    def plan(self, files: int, size: int) -> None:
        """Add to what is to be moved."""
        self._add(files=files, size=size)

    def begin(self, path: str) -> None:
        """A file is under way."""
        self._add(current=path)

    def moved(self, size: int) -> None:
        """So many bytes of a file are there."""
        self._add(done=size)

    def ended(self) -> None:
        """A file is there."""
        self._add(files_done=1)

    def _add(
        self, *, files: int = 0, files_done: int = 0, size: int = 0, done: int = 0, current: str = ""
    ) -> None:
        with self._lock:
            was = self._now
            self._now = Progress(
                was.files + files,
                was.files_done + files_done,
                was.size + size,
                was.done + done,
                current or was.current,
                time.monotonic() - self._began,
            )
            if self._told is not None:
                self._told(self._now)
