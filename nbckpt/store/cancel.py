"""Cancel: tells running work that it was cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nbckpt.errors import StoreError


class CancelledError(StoreError):
    """The work was cancelled or took too long. Nothing that it had begun is visible."""


class TimedOutError(CancelledError, TimeoutError):
    """The work took too long and was therefore cancelled."""

    __str__ = StoreError.__str__


class Cancel:
    """Stops all work that runs under it. Safe to use from every thread.

    A store checks it between two pieces of a put. It also abandons the request under way, if the storage
    library allows that.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def event(self) -> threading.Event:
        """The event that is set when the work is cancelled."""
        return self._event

    @property
    def cancelled(self) -> bool:
        """Whether the work was cancelled."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Cancel the work. A second call does nothing."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def check(self) -> None:
        """Return if the work was not cancelled.

        Raises:
            CancelledError: The work was cancelled.
        """
        if self._event.is_set():
            raise CancelledError("it was cancelled")

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call *callback* if the work is cancelled within the block.

        Raises:
            CancelledError: The work was cancelled before the block.
        """
        with self._lock:
            self.check()
            self._callbacks.append(callback)
        try:
            yield
        finally:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

    @contextmanager
    def covering(self) -> Iterator[None]:
        """Run the block, in this thread, under this cancel."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Cancel | None] = ContextVar("nbckpt_cancel", default=None)


def wanted() -> Cancel:
    """Return the cancel that covers this code, or a new one that is never cancelled."""
    return _current.get() or Cancel()
