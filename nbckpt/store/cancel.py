"""Cancel: how work that is under way is told that nobody wants it any more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nbckpt.errors import StoreError


class CancelledError(StoreError):
    """The work was cancelled, or took too long; what it had begun is not visible."""


class TimedOutError(CancelledError, TimeoutError):
    """The work took too long, and was cancelled for that."""

    __str__ = Exception.__str__


class Cancel:
    """Tells everything that is done in its name to stop. Safe from every thread.

    A store asks it between two pieces of a put, and lets go of a request under way where it can.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def event(self) -> threading.Event:
        """Set once it was cancelled."""
        return self._event

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Stop the work. The second call does nothing."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def check(self) -> None:
        """Go on, unless it was cancelled.

        Raises:
            CancelledError: It was.
        """
        if self._event.is_set():
            raise CancelledError("it was cancelled")

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Have *callback* called when the work is cancelled within the block.

        Raises:
            CancelledError: It was cancelled before.
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
        """Have what is done in the block, in this thread, done in its name."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Cancel | None] = ContextVar("nbckpt_cancel", default=None)


def wanted() -> Cancel:
    """Return the cancel of what is being done here; one that nobody cancels, where there is none."""
    return _current.get() or Cancel()
