"""Pending: a point on its way into the store, while the next cell may run.

See docs/decisions/0099.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.pools import starts
from nbckpt.errors import StoreError
from nbckpt.sync.shutdown import before_the_end
from nbckpt.timeline.step import Step

_AT_END_S = 3.0
"""How long the end of the process waits. Kernels are killed 5 s after they were asked to end."""


class DroppedError(StoreError):
    """The point was dropped before it was published."""


class Pending:
    """A point that a thread writes and publishes. If no thread can start, the caller does so at once.

    Args:
        step: The step, which has let go of the variables.
        lends: Whether memory of the variables is needed until the point is done.
        work: Writes and publishes the point. It calls `check` now and then, and `publishes` before it shows
            the point. It does not raise after that.
        then: Called with the point. Nobody waits for it, also not the end of the process.

    Attributes:
        made: The point; None until then, and if it failed.
        error: Why there is no point.
    """

    def __init__(
        self,
        step: Step,
        work: Callable[[Pending], Manifest],
        *,
        lends: bool,
        then: Callable[[Manifest], object] = lambda _: None,
    ) -> None:
        self.step, self.lends = step, lends
        self.made: Manifest | None = None
        self.error: Exception | None = None
        self._work, self._then = work, then
        self._process = os.getpid()
        self._begun, self._done = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._is_dropped = self._is_publishing = False
        _at_work.add(self)
        before_the_end(_finish_all)
        try:
            is_started = starts(threading.Thread(target=self._run, name="nbckpt-point", daemon=True))
        finally:
            self._begun.set()
        if not is_started:
            self._run()

    def _run(self) -> None:
        # `start` waits for the thread, which then would keep the interpreter for 5 ms of the user's pause.
        self._begun.wait()
        try:
            self.made = self._work(self)
        except Exception as error:  # noqa: BLE001  `error` keeps it
            self.error = error
        finally:
            _at_work.discard(self)
            self._done.set()
        if self.made is not None:
            self._then(self.made)

    def check(self, *_: int) -> None:
        """Raise DroppedError after `drop`."""
        if self._is_dropped:
            raise DroppedError("the point was dropped")

    def publishes(self) -> None:
        """Note that the point is about to be shown; from then on it cannot be dropped."""
        with self._lock:
            self.check()
            self._is_publishing = True

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the point is done, or failed. Return False if that takes longer."""
        if os.getpid() != self._process and not self._done.is_set():
            self._is_dropped = True  # the thread is in the process that was forked
            self.error = DroppedError("the process was forked")
            self._done.set()
        return self._done.wait(seconds)

    def drop(self) -> bool:
        """Do not publish the point. Return False if it is too late for that."""
        with self._lock:
            self._is_dropped = not self._is_publishing
            return self._is_dropped


_at_work: set[Pending] = set()


def _finish_all() -> None:
    until = time.monotonic() + _AT_END_S
    for pending in list(_at_work):
        pending.wait(max(0.0, until - time.monotonic()))
