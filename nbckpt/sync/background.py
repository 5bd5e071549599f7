"""Background: transfers that one thread makes, one after the other, in the order they were asked for."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  what it does at the end must be registered before ours
import logging
import os
import random
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from nbckpt.core.pools import starts
from nbckpt.errors import NbckptError, StoreError, UsageError
from nbckpt.store import Cancel, CancelledError, Store, TimedOutError, open_store
from nbckpt.sync.ending import before_the_end
from nbckpt.sync.exclude import excluding
from nbckpt.sync.folders import delete, download, upload
from nbckpt.sync.progress import Progress
from nbckpt.sync.syncer import PERIOD_S, TIMEOUT_S, Syncer, SyncerStatus, checked_timeout, seconds
from nbckpt.sync.work import ATTEMPTS, Terms

_AT_EXIT_S = 300.0
"""How long the end of the interpreter waits for the last transfers."""
_BACKOFF_S = 5.0

_log = logging.getLogger("nbckpt")


class Request(NamedTuple):
    """What somebody asked for.

    Attributes:
        action: `sync_up`, `sync_down` or `delete`.
        local: The local folder; empty for `delete`.
        remote: The URL of the remote one.
        exclude: Patterns of what is left out.
    """

    action: str
    local: str
    remote: str
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, action: str, local: str, remote: str, exclude: Iterable[str] | None = None) -> Request:
        """Return the request.

        Raises:
            UsageError: *exclude* is one text.
        """
        excluding(exclude)
        return cls(action, os.fspath(local), os.fspath(remote).rstrip("/"), tuple(exclude or ()))

    @property
    def target(self) -> str:
        """What is written to."""
        return str(Path(self.local).absolute()) if self.action == "sync_down" else self.remote

    def meets(self, other: Request) -> bool:
        """Tell whether both are about one folder, so that their order matters."""
        return self.remote == other.remote or (self.local != "" and self.local == other.local)

    def __str__(self) -> str:
        if self.action == "sync_up":
            return f"sync_up of {self.local!r} to {self.remote!r}"
        if self.action == "sync_down":
            return f"sync_down of {self.remote!r} to {self.local!r}"
        return f"delete of {self.remote!r}"


class Command:
    """A request that is waiting, is being carried out, or has ended; each has a result of its own.

    Attributes:
        request: What is to be done.
        cancel: Cancels it.
        done: Set when it has ended.
        error: Why it failed, if it did.
        began: When it began, by the clock; None before that.
        progress: How far it is.
        moves: The time that moves when it goes well, see `Syncer.sync_up_if_needed`.
        is_late: Whether it was cancelled since it took too long.
        is_unwanted: Whether somebody cancelled it.
        is_told: Whether somebody has heard of its failure.
        is_past: Whether something else was asked for later, about the same folders.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.cancel = Cancel()
        self.done = threading.Event()
        self.error: Exception | None = None
        self.began: float | None = None
        self.progress: Progress | None = None
        self.moves = ""
        self.is_late = self.is_unwanted = self.is_told = self.is_past = False

    def tell(self, progress: Progress) -> None:
        """Note how far it is."""
        self.progress = progress


class Queue:
    """Commands, and the one thread that carries them out while there are any. Safe from every thread.

    Args:
        carry_out: Does what a command says, and ends when its cancel says so or after *timeout*.
        ended: Told of each command that ended; it holds the lock.
        clock: Tells seconds that only grow.
        timeout: After how many seconds a command is cancelled; None for never.

    Attributes:
        lock: Held while anything changes.
        running: What is being carried out.
        waiting: What comes next.
        last: What was asked for last.
        failed: What failed and did not go well since.
    """

    def __init__(
        self,
        carry_out: Callable[[Command], object],
        ended: Callable[[Command], object],
        clock: Callable[[], float],
        timeout: float | None,
    ) -> None:
        self._carry_out = carry_out
        self._ended = ended
        self._clock = clock
        self._timeout = timeout
        self.clear()

    def clear(self) -> None:
        """Forget everything; nothing of it is carried out here."""
        self.lock = threading.RLock()
        self.running: Command | None = None
        self.waiting: deque[Command] = deque()
        self.last: Command | None = None
        self.failed: dict[Request, Command] = {}
        self._thread: threading.Thread | None = None

    def ask(self, request: Request, moves: str = "") -> bool:
        """Have a request carried out: now, which is True, or when what runs has ended.

        One that is waiting already, with nothing behind it on the same folders, is not made twice.
        """
        with self.lock:
            self.cancel_what_is_late()
            for failed in self.failed.values():
                failed.is_past |= failed.request != request and failed.request.meets(request)
            command = self.last = self._like(request) or Command(request)
            command.moves = command.moves or moves
            if self.running is None:
                self._begin(command)
                return True
            if command not in self.waiting:
                self.waiting.append(command)
            return self.running.cancel.cancelled and self.waiting[0] is command

    def _like(self, request: Request) -> Command | None:
        for command in reversed(self.waiting):
            if command.request == request:
                return command
            if command.request.meets(request):
                return None
        return None

    def _begin(self, command: Command) -> None:
        if self._thread is not None:
            self._thread.join()  # it has nothing more to do
        thread = threading.Thread(target=self._work, name="nbckpt-syncer", daemon=True)
        is_in_thread = starts(thread)  # it waits for the lock
        self._thread, self.running = thread if is_in_thread else None, command
        command.began = self._clock()
        _busy.add(self)
        _flush_at_exit()
        if not is_in_thread:
            self._work()

    def _work(self) -> None:
        """Carry out what there is. Runs in a thread of its own."""
        with self.lock:
            command = self.running
        while command is not None:
            error: BaseException | None = None
            try:
                self._carry_out(command)
            except BaseException as raised:  # noqa: BLE001  whatever it was, it was no success
                error = raised
            command = self._next(command, error)

    def _next(self, ended: Command, error: BaseException | None) -> Command | None:
        """Note how a command ended, and return the next one."""
        with self.lock:
            self._note(ended, error)
            self.running = self.waiting.popleft() if self.waiting else None
            if self.running is not None:
                self.running.began = self._clock()
            self._rest()
            ended.done.set()
            return self.running

    def _note(self, command: Command, error: BaseException | None) -> None:
        self.failed.pop(command.request, None)  # it went well, or there is a newer failure
        if error is not None:
            if command.is_late and isinstance(error, CancelledError):
                error = TimedOutError(f"it did not end within {self._timeout:g} s")
            command.error = _explained(command.request, error)
            command.is_past = any(it.request.meets(command.request) for it in self.waiting)
            self.failed[command.request] = command
            _log.warning("%s", command.error)
        self._ended(command)

    def _rest(self) -> None:
        """Let go of what nobody has to hear of any more."""
        if self.running is None and all(it.is_told or it.is_unwanted for it in self.failed.values()):
            _busy.discard(self)

    def cancel_what_is_late(self) -> None:
        """Cancel what began too long ago; what carries it out may not have noticed yet."""
        with self.lock:
            it = self.running
            if it is None or it.began is None or self._timeout is None or it.cancel.cancelled:
                return
            if self._clock() - it.began >= self._timeout:
                it.is_late = True
                it.cancel.cancel()

    def cancel(self) -> None:
        """Cancel what is being carried out, and drop what is waiting."""
        with self.lock:
            waiting, self.waiting = list(self.waiting), deque()
            for command in waiting:
                command.is_unwanted = True
                self._note(command, CancelledError("it was cancelled"))
                command.done.set()
            if self.running is not None:
                self.running.is_unwanted = True
                self.running.cancel.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for all that was asked for, and tell whether it ended in so many seconds; 0 only looks."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.lock:
            self.cancel_what_is_late()
            thread = self._thread
            commands = [it for it in (self.running, *self.waiting) if it is not None]
        for command in commands:
            if not command.done.wait(None if deadline is None else max(0.0, deadline - time.monotonic())):
                return False
        if thread is not None and self.running is None:
            thread.join()
        return True

    def raise_failures(self, *, also_unwanted: bool = True) -> None:
        """Raise the failures that nobody has heard of, once.

        Raises:
            StoreError: Several, or one that was none of ours.
            NbckptError: The failure.
        """
        with self.lock:
            new = [it for it in self.failed.values() if not it.is_told]
            for command in new:
                command.is_told = True
            self.failed = {request: it for request, it in self.failed.items() if not it.is_past}
            self._rest()
        errors = [it.error for it in new if it.error and (also_unwanted or not it.is_unwanted)]
        if len(errors) > 1:
            raise StoreError("\n  ".join((f"{len(errors)} syncs failed:", *map(str, errors)))) from errors[0]
        if errors:
            raise errors[0]


def _explained(request: Request, error: BaseException) -> Exception:
    """Return the error with what was asked for."""
    if isinstance(error, CancelledError):
        explained: Exception = type(error)(f"{request}: {error}")
    elif isinstance(error, NbckptError):
        return error
    else:
        explained = StoreError(f"{request} failed: {type(error).__name__}: {error}")
    explained.__cause__ = error
    return explained


_busy: set[Queue] = set()
"""What the end of the interpreter waits for: queues with work, or with a failure to tell."""


@lru_cache(maxsize=1)
def _flush_at_exit() -> None:
    before_the_end(_flush)


def _flush() -> None:
    """Wait for the last transfers, and give them up after a while or when that is interrupted."""
    deadline = time.monotonic() + _AT_EXIT_S
    for queue in list(_busy):
        try:
            if not queue.wait(1):
                _log.warning("waiting for the last sync, up to %g s; an interrupt gives it up", _AT_EXIT_S)
            if not queue.wait(max(0.0, deadline - time.monotonic())):
                queue.cancel()
                queue.wait(1)
            queue.raise_failures(also_unwanted=False)
        except KeyboardInterrupt:
            queue.cancel()
            _log.error("the last sync was given up")
        except Exception as error:  # noqa: BLE001  the next one is to be waited for too
            _log.error("%s", error)


_targets: set[str] = set()
_targets_changed = threading.Condition()


@contextmanager
def _alone_at(target: str, terms: Terms) -> Iterator[None]:
    """Be the only one in this process who writes to a target; wait until nobody else does.

    Raises:
        CancelledError: It was cancelled meanwhile.
        TimedOutError: That took too long.
    """
    cancel = terms.cancel or Cancel()
    with _targets_changed, cancel.calling(_look_again):
        if not _targets_changed.wait_for(lambda: cancel.cancelled or target not in _targets, terms.timeout):
            raise TimedOutError(f"another transfer there did not end within {terms.timeout:g} s")
        cancel.check()
        _targets.add(target)
    try:
        yield
    finally:
        with _targets_changed:
            _targets.discard(target)
            _targets_changed.notify_all()


def _look_again() -> None:
    with _targets_changed:
        _targets_changed.notify_all()


def _forget() -> None:
    """Leave to the parent of a fork what it does: its threads are not here, and its locks may be held."""
    global _targets_changed
    for queue in list(_busy):
        queue.clear()
    _busy.clear()
    _targets.clear()
    _targets_changed = threading.Condition()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)


class BackgroundSyncer(Syncer):
    """A syncer whose transfers are made in the background, one at a time; subclass it with `carry_out`.

    `sync_up`, `sync_down` and `delete` return at once: True where it begins now, False where it waits
    for what runs; nothing is dropped. A transfer that takes longer than *sync_timeout*, or is cancelled,
    writes nothing from then on. Every method may be called from any thread.

    Args:
        sync_period: As for `Syncer`.
        sync_timeout: After how many seconds a transfer is cancelled; None for never.
        clock: Tells seconds that only grow.
    """

    def __init__(
        self,
        sync_period: float = PERIOD_S,
        sync_timeout: float | None = TIMEOUT_S,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(sync_period, clock=clock)
        self.sync_timeout = checked_timeout("sync_timeout", sync_timeout)
        self._begin()

    def _begin(self) -> None:
        self._queue = Queue(self._carry_out, self._ended, self._clock, self.sync_timeout)
        self._due: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    @abstractmethod
    def carry_out(self, request: Request, terms: Terms) -> object:
        """Do what a request says, and end when the terms say so. Called in the background."""

    def sync_up(self, local_dir: str, remote_dir: str, exclude: Iterable[str] | None = None) -> bool:
        """See `Syncer.sync_up` and above."""
        return self._queue.ask(Request.of("sync_up", local_dir, remote_dir, exclude))

    def sync_down(self, remote_dir: str, local_dir: str, exclude: Iterable[str] | None = None) -> bool:
        """See `Syncer.sync_down` and above."""
        return self._queue.ask(Request.of("sync_down", local_dir, remote_dir, exclude))

    def delete(self, remote_dir: str) -> bool:
        """See `Syncer.delete` and above."""
        return self._queue.ask(Request.of("delete", "", remote_dir))

    def _carry_out(self, command: Command) -> None:
        self.carry_out(command.request, Terms(self.sync_timeout, cancel=command.cancel, told=command.tell))

    def _if_needed(self, last: str, sync: Callable[[], bool]) -> bool:
        queue = self._queue
        with queue.lock:
            queue.cancel_what_is_late()
            now = self._clock()
            under_way = [it for it in (queue.running, *queue.waiting) if it and not it.cancel.cancelled]
            if (
                any(it.moves == last for it in under_way)
                or now - getattr(self, last) < self.sync_period
                or now < self._due.get(last, now)
            ):
                return False
            has_begun = sync()
            if queue.last is not None:
                queue.last.moves = last
            return has_begun

    def _ended(self, command: Command) -> None:
        """Move the time on of what went well; what failed is due soon, but not at once."""
        last = command.moves
        if not last:
            return
        if command.error is None:
            setattr(self, last, command.began)
            self._failures.pop(last, None)
            self._due.pop(last, None)
        else:
            times = self._failures[last] = self._failures.get(last, 0) + 1
            pause = min(self.sync_period, _BACKOFF_S * 2 ** min(times, 20))
            self._due[last] = self._clock() + pause * random.uniform(0.5, 1)

    def retry(self) -> None:
        """Ask again for all that failed, unless something else was asked for since; else for the last.

        Raises:
            UsageError: Nothing was ever asked for.
        """
        queue = self._queue
        with queue.lock:
            if queue.last is None:
                raise UsageError("there is nothing to retry: call sync_up, sync_down or delete first")
            again = [it for it in queue.failed.values() if not it.is_past]
            for command in again or [queue.last]:
                queue.ask(command.request, command.moves)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for all that was asked for, and tell whether it ended in so many seconds; 0 only looks.

        What goes on longer is not disturbed, and neither is it by an interrupt.

        Raises:
            TimedOutError: A transfer took longer than `sync_timeout`, and was cancelled.
            CancelledError: It was cancelled.
            StoreError: Several failed, or one in a way that is none of ours.
            NbckptError: It failed; each failure is raised once.
        """
        if not self._queue.wait(timeout):
            return False
        self._queue.raise_failures()
        return True

    def reset(self) -> None:
        """See `Syncer.reset`."""
        super().reset()
        self._due.clear()

    def cancel(self) -> None:
        """Cancel what is under way and what is waiting; nothing more is written to the targets."""
        self._queue.cancel()

    def close(self) -> None:
        """Wait for all that was asked for, and raise what nobody has heard of; see `wait`.

        What `cancel` ended is no failure here. The syncer can be used again.
        """
        self._queue.wait()
        self._queue.raise_failures(also_unwanted=False)

    @property
    def progress(self) -> Progress | None:
        """How far the transfer under way is; None where there is none."""
        running = self._queue.running
        return None if running is None else running.progress

    def status(self) -> SyncerStatus:
        """See `Syncer.status`."""
        status, queue = super().status(), self._queue
        with queue.lock:
            return replace(
                status,
                settings=(*status.settings, ("sync_timeout", seconds(self.sync_timeout))),
                running=str(queue.running.request) if queue.running else "",
                progress=self.progress,
                waiting=tuple(str(it.request) for it in queue.waiting),
                failures=tuple(str(it.error) for it in queue.failed.values()),
            )

    def __getstate__(self) -> dict[str, Any]:
        ours = {"_queue", "_due", "_failures"}
        return {name: it for name, it in super().__getstate__().items() if name not in ours}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()


class DefaultSyncer(BackgroundSyncer):
    """Brings folders to any storage that fsspec knows and back: what differs, several files at a time.

    Whoever reads a remote folder with `sync_down` sees it as it was before a `sync_up`, or as it is after.

    Args:
        sync_period: As for `Syncer`.
        sync_timeout: As for `BackgroundSyncer`.
        delete_missing: Whether a target loses what its source has not.
        attempts: How often each request to the storage is tried.
        clock: Tells seconds that only grow.
    """

    def __init__(
        self,
        sync_period: float = PERIOD_S,
        sync_timeout: float | None = TIMEOUT_S,
        *,
        delete_missing: bool = False,
        attempts: int = ATTEMPTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(sync_period, sync_timeout, clock=clock)
        if attempts < 1:
            raise UsageError(f"attempts={attempts}: give at least 1")
        self.delete_missing = delete_missing
        self.attempts = attempts

    @classmethod
    def open_storage(cls, url: str) -> Store:
        """Return the store that is used for a URL; override it to use one of your own."""
        return open_store(url)

    def carry_out(self, request: Request, terms: Terms) -> object:
        """See `BackgroundSyncer.carry_out`."""
        with _alone_at(request.target, terms):
            return self._transfer(request, replace(terms, attempts=self.attempts))

    def _transfer(self, request: Request, terms: Terms) -> object:
        store = self.open_storage(request.remote)
        if request.action == "delete":
            return delete(store, terms=terms)
        if request.action == "sync_up":
            return upload(
                request.local, store, exclude=request.exclude, delete_missing=self.delete_missing, terms=terms
            )
        return download(
            store, request.local, exclude=request.exclude, delete_missing=self.delete_missing, terms=terms
        )
