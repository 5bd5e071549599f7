"""Handoff: pass a function's results to its worker thread, one at a time, and continue or end the function.

The function's thread and the worker thread take turns. Or the function's thread calls the worker's code
directly, which saves two thread switches for each result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nbckpt.trials.model.metrics import TIME_THIS_ITER
from nbckpt.trials.training.session import StopTrial

Result = dict[str, Any]


class Handoff:
    """Two threads that take turns: the function runs to its next result, the worker thread to its next ask.

    Each thread waits for a lock that the other releases. Nothing is polled, and a turn costs two thread
    switches. The locks only wake a thread; the counters tell whose turn it is. So an interrupted wait loses
    nothing, and an extra wake-up does no harm.

    Attributes:
        turn: Held while a result is handed over, because threads of the function may report too.
        ended: Whether the function has ended, or will end with its next report.
        error: The exception that the function raised, if any.
    """

    def __init__(self) -> None:
        self.turn = threading.RLock()
        self.ended = False
        self.error: BaseException | None = None
        self._result: Result | None = None
        self._wanted = self._given = self._taken = 0
        self._asked, self._ready = threading.Lock(), threading.Lock()
        self._asked.acquire()
        self._ready.acquire()

    def give(self, result: Result) -> None:
        """Hand over a result. Return when the next one is wanted. Called by threads of the function.

        Raises:
            StopTrial: No further result is wanted.
        """
        with self.turn:
            if not self.ended:
                self._pass_on(result)
            if self.ended:
                raise StopTrial

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Hold the turn during a block that prepares the next result.

        Raises:
            StopTrial: No further result is wanted.
        """
        with self.turn:
            if self.ended:
                raise StopTrial
            yield

    def close(self, error: BaseException | None = None) -> None:
        """Mark the function as ended. Called by its thread."""
        with self.turn:
            if not self.ended:
                self.ended, self.error = True, error
                self._pass_on(None)

    def _pass_on(self, result: Result | None) -> None:
        self._result = result
        self._given += 1
        _wake(self._ready)
        while self._wanted <= self._given and not self.ended:
            self._asked.acquire()

    def ask(self) -> Result | None:
        """Let the function continue. Return its next result, or None at its end. Called by the worker thread.

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
        """Release the function's thread wherever it waits. Its next report raises `StopTrial`."""
        self.ended = True
        _wake(self._asked)
        _wake(self._ready)


class InlineHandoff(Handoff):
    """A handoff without turns: the thread that hands over a result calls the worker's code.

    Args:
        take: Takes the result. Returns whether the function may continue.

    Attributes:
        over: Set when no further result will be handed over.
        raised: The exception from taking a result, which ends the function too.
    """

    def __init__(self, take: Callable[[], bool]) -> None:
        super().__init__()
        self.over = threading.Event()
        self.raised: BaseException | None = None
        self._take = take
        self._went_on_at = time.perf_counter()

    def _pass_on(self, result: Result | None) -> None:
        self._result = result
        if result is not None:
            result.setdefault(TIME_THIS_ITER, time.perf_counter() - self._went_on_at)
        try:
            goes_on = self._take()
        except BaseException as error:  # noqa: BLE001  it belongs to the worker; the function must not see it
            self.raised, goes_on = error, False
        if self.ended or not goes_on:
            self.end()
        self._went_on_at = time.perf_counter()

    def ask(self) -> Result | None:
        """See `Handoff.ask`."""
        return self._result

    def end(self) -> None:
        """See `Handoff.end`."""
        self.ended = True
        self.over.set()


def _wake(lock: threading.Lock) -> None:
    try:  # noqa: SIM105  suppress() would take as long as the rest
        lock.release()
    except RuntimeError:  # already open: the next thread that waits continues at once and checks again
        pass
