"""Handoff: how a function's results get to its driver, one at a time, and the function goes on or not.

Either the function's thread and the driver's take turns, or, which spares two switches of threads for
each result, the function's thread calls the driver.
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
    """Two threads taking turns: the function's up to its next result, the driver's up to its next ask.

    Each waits in a lock that the other releases: nothing is polled, and a turn costs two switches of
    threads. The locks only wake. Whose turn it is, the numbers tell, so that an interrupted wait loses
    nothing and a wake-up too many does no harm.

    Attributes:
        turn: Held while a result is handed over; threads of the function may report too.
        ended: Whether the function has ended, or is to end with its next report.
        error: What it raised, if it did.
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
        """Hand over a result, and return when the next one is wanted. For threads of the function.

        Raises:
            StopTrial: There will be none.
        """
        with self.turn:
            if not self.ended:
                self._pass_on(result)
            if self.ended:
                raise StopTrial

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Hold the turn for a block that gets something ready for the next result.

        Raises:
            StopTrial: There will be none.
        """
        with self.turn:
            if self.ended:
                raise StopTrial
            yield

    def close(self, error: BaseException | None = None) -> None:
        """Tell that the function has ended. For its thread."""
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
        """Let the function go on, and return its next result; None at its end. For the driver's thread.

        When the wait is interrupted, asking again gets what this ask would have got.
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
        """Let the function's thread go, wherever it waits; its next report raises `StopTrial`."""
        self.ended = True
        _wake(self._asked)
        _wake(self._ready)


class InlineHandoff(Handoff):
    """No turns to take: whoever hands over a result calls the driver.

    Args:
        take: Makes the driver take the result; tells whether the function is to go on.

    Attributes:
        over: Set when nothing will be handed over any more.
        raised: What taking a result raised, which ends the function too.
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
        except BaseException as error:  # noqa: BLE001  it is the driver's, and the function must not meet it
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
    except RuntimeError:  # it is open already: whoever waits there next goes on at once, and looks again
        pass
