"""Handoff: a channel whose results are pulled, one at a time, by another thread than the function's."""

from __future__ import annotations

import threading

from nbckpt.trials.model.metrics import Result
from nbckpt.trials.training.reporter import ResultChannel


class Handoff(ResultChannel):
    """Two threads that take turns: the function runs to its next result, the other thread to its next ask.

    Each thread waits for a lock that the other releases. Nothing is polled, and a turn costs two thread
    switches. The locks only wake a thread; the counters tell whose turn it is. So an interrupted wait loses
    nothing, and an extra wake-up does no harm.
    """

    def __init__(self) -> None:
        super().__init__(self._give)
        self._result: Result | None = None
        self._wanted = self._given = self._taken = 0
        self._asked, self._ready = threading.Lock(), threading.Lock()
        self._asked.acquire()
        self._ready.acquire()

    def _give(self, result: Result) -> bool:
        self._result = result
        self._given += 1
        _wake(self._ready)
        while self._wanted <= self._given and not self.ended:
            self._asked.acquire()
        return not self.ended

    def ask(self) -> Result | None:
        """Let the function continue. Return its next result, or None after its last one.

        If the wait is interrupted, the next call returns the result that this call would have returned.
        """
        self._wanted = self._taken + 1
        _wake(self._asked)
        while self._given < self._wanted and not self.ended:
            self._ready.acquire()
        if self._given < self._wanted:
            return None
        self._taken = self._given
        return self._result

    def end(self) -> None:
        """See `ResultChannel.end`: wake both threads."""
        self.ended = True
        _wake(self._asked)
        _wake(self._ready)


def _wake(lock: threading.Lock) -> None:
    try:  # noqa: SIM105  suppress() would take as long as the rest
        lock.release()
    except RuntimeError:  # already open: the next thread that waits continues at once and checks again
        pass
