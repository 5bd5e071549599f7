"""Transfer: the options and counts of one transfer, and a thread pool that retries calls of a store."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from nbckpt.core.packs.pools import starts
from nbckpt.errors import CorruptError, FormatError, NotFoundError, RefusedError, StoreError, UsageError
from nbckpt.store import Cancel, CancelledError, TimedOutError
from nbckpt.sync.backoff import backoff
from nbckpt.sync.progress import ProgressCallback

if TYPE_CHECKING:
    import tenacity  # it imports asyncio, so it is imported only by code that transfers

    from nbckpt.sync.files import FileStat
    from nbckpt.sync.index import Index

THREADS = 8
ATTEMPTS = 3

BACKOFF_S = 0.5

_LONGEST_BACKOFF_S = 30.0
FINAL = (NotFoundError, UsageError, RefusedError, CorruptError, FormatError)
"""Errors that a retry cannot fix."""

T = TypeVar("T")
Incomplete = Callable[[Path, Collection[str]], Mapping[str, str]]
Keep = Callable[["Index", Mapping[str, "FileStat"]], Mapping[str, str]]


@dataclass(frozen=True)
class TransferOptions:
    """The options of a transfer.

    Attributes:
        timeout: Seconds after which the transfer is abandoned; None for no limit.
        attempts: How often a request is tried.
        cancel: Lets other code cancel the transfer.
        on_progress: Called with the progress, in any thread.
        backoff_s: The longest pause before the second attempt in seconds; it doubles with each attempt.
        incomplete: Takes a folder to upload and the paths of its files. Returns those to leave out, with the
            reasons.
        keep: Takes the index of an upload's target and the local files that differ from it. Returns the files
            and folders that the target is to keep, with the reasons; "" stands for the whole target.
        before: Called before an upload changes its target, if it does.
    """

    timeout: float | None = None
    attempts: int = ATTEMPTS
    cancel: Cancel | None = None
    on_progress: ProgressCallback | None = None
    backoff_s: float = BACKOFF_S
    incomplete: Incomplete = lambda *_: {}
    keep: Keep = lambda *_: {}
    before: Callable[[], object] = lambda: None

    def work(self, target: str) -> TransferPool:
        """Return the pool that makes the calls of this transfer, which writes to *target*."""
        return TransferPool(target, self.timeout, self.attempts, self.cancel, backoff_s=self.backoff_s)


@dataclass(frozen=True)
class Moved:
    """The counts of a finished transfer.

    Attributes:
        files: The number of files moved.
        size: The bytes of these files.
        same: The number of files that were there already.
        removed: The number of files removed.
        left_out: Why files were left out, by path: they vanished, or changed while they were read.
        only_there: The number of checkpoints that only the target has.
    """

    files: int = 0
    size: int = 0
    same: int = 0
    removed: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)
    only_there: int = 0

    def __repr__(self) -> str:
        numbers = f"files={self.files}, size={self.size}, same={self.same}, removed={self.removed}"
        return f"Moved({numbers}, left_out={len(self.left_out)})"


_log = logging.getLogger("nbckpt")
_hanging: WeakKeyDictionary[threading.Thread, str] = WeakKeyDictionary()
"""Threads that were abandoned but may still run, each with the target that it writes to."""


class TransferPool:
    """A pool of a few threads that makes calls of a store, with one deadline for all calls.

    After a cancel or the deadline, running requests are aborted and no further call is made. A call that
    cannot be aborted keeps running. The next pool for the same target waits for that call.

    Args:
        target: The target that the calls write to; one writer at a time.
        timeout: Seconds after which the calls are abandoned; None for no limit.
        attempts: How often a call is tried.
        cancel: Lets other code cancel the calls.
        backoff_s: See `TransferOptions`.
        grace: Seconds that threads may take to notice that the transfer was abandoned.
    """

    def __init__(
        self,
        target: str,
        timeout: float | None = None,
        attempts: int = ATTEMPTS,
        cancel: Cancel | None = None,
        *,
        backoff_s: float = BACKOFF_S,
        grace: float = 1.0,
    ) -> None:
        import tenacity

        self.cancel = cancel or Cancel()
        self._target = target
        self._timeout = timeout
        self._grace = grace
        self._deadline = None if timeout is None else time.monotonic() + timeout
        given_up, longest = self.cancel.event, max(backoff_s, _LONGEST_BACKOFF_S)
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(attempts) | tenacity.stop_when_event_set(given_up),
            wait=lambda state: backoff(state.attempt_number - 1, longest, backoff_s),
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, Exception) and not isinstance(error, FINAL)
            ),
            before_sleep=_say,
            sleep=tenacity.sleep_using_event(given_up),
        )
        self._wait_for_former()

    def one(self, call: Callable[[], T]) -> T:
        """Make one call and return its result; see `all`."""
        returned: list[T] = []
        self.all([lambda: returned.append(call())])
        return returned[0]

    def all(self, calls: Iterable[Callable[[], object]]) -> None:
        """Make all the calls, several at a time and in any order.

        Raises:
            CancelledError: The transfer was cancelled.
            TimedOutError: The calls together exceeded the timeout and were cancelled.
            StoreError: A call failed in every attempt.
            NotFoundError: A call raised it. Every error of `FINAL` is raised at once, without a retry.
        """
        waiting = deque(calls)
        failed: list[BaseException] = []
        over = threading.Event()
        ended = _countdown(min(THREADS, len(waiting)), over.set)
        threads = [
            threading.Thread(
                target=copy_context().run,
                args=(self._make, waiting, failed, ended),
                name=f"nbckpt-sync-{at}",
                daemon=True,
            )
            for at in range(min(THREADS, len(waiting)))
        ]
        try:
            with self.cancel.calling(over.set):
                for thread in threads:
                    if not starts(thread):
                        self._make(waiting, failed, ended)
                in_time = over.wait(self._seconds_left()) if threads else True
        except BaseException:
            self._give_up(threads)
            raise
        if not in_time:
            self._give_up(threads)
            raise TimedOutError(f"it did not end within {self._timeout:g} s")
        if self.cancel.cancelled:
            self._give_up(threads)
            raise CancelledError("it was cancelled")
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        if failed:
            raise failed[0]

    def _give_up(self, threads: Iterable[threading.Thread]) -> None:
        """Abort the running calls; remember the threads whose calls cannot be aborted."""
        alive = [thread for thread in threads if thread.is_alive()]
        _hanging.update(dict.fromkeys(alive, self._target))  # first, since an interrupt may skip the rest
        self.cancel.cancel()
        deadline = time.monotonic() + self._grace
        for thread in alive:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _wait_for_former(self) -> None:
        """Wait for abandoned threads that still write here: two writers could leave a mixture of both."""
        # see docs/decisions/0020
        for thread in [thread for thread, target in list(_hanging.items()) if target == self._target]:
            while thread.is_alive():
                self.cancel.check()
                left = self._seconds_left()
                if left == 0:
                    raise TimedOutError(f"an abandoned transfer there did not end within {self._timeout:g} s")
                thread.join(0.1 if left is None else min(left, 0.1))

    def _seconds_left(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _make(
        self, waiting: deque[Callable[[], object]], failed: list[BaseException], ended: Callable[[], None]
    ) -> None:
        """Make calls until the queue is empty. Runs in its own thread."""
        try:
            with self.cancel.covering():
                self._make_each(waiting, failed)
        finally:
            ended()

    def _make_each(self, waiting: deque[Callable[[], object]], failed: list[BaseException]) -> None:
        from tenacity import RetryError

        while not self.cancel.cancelled:
            try:
                call = waiting.popleft()
            except IndexError:
                return
            try:
                self._retrying.copy()(call)
            except RetryError as error:
                failed.append(_exhausted(error.last_attempt))
                waiting.clear()
            except BaseException as error:  # noqa: BLE001  the caller of `all` raises it, whatever it is
                failed.append(error)
                waiting.clear()


def _countdown(number: int, then: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls *then* at its call number *number*."""
    turns = itertools.count(1)
    return lambda: then() if next(turns) == number else None


def _say(state: tenacity.RetryCallState) -> None:
    """Log that a call failed and is retried."""
    failed = state.outcome and state.outcome.exception()
    _log.warning("%s (attempt %d); retrying", failed, state.attempt_number)


def _exhausted(last: tenacity.Future) -> StoreError:
    """Return the error for a call that failed in every attempt."""
    cause, times = last.exception(), last.attempt_number
    error = StoreError(f"{cause} (after {times} attempt{'s' if times > 1 else ''})")
    error.__cause__ = cause
    return error
