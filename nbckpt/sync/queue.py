"""Queue: one thread carries out transfers one after another, in the order of the requests."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from nbckpt.core.packs.pools import starts
from nbckpt.errors import NbckptError, StoreError
from nbckpt.store import Cancel, CancelledError, TimedOutError
from nbckpt.sync.exclude import excluding
from nbckpt.sync.progress import Progress
from nbckpt.sync.shutdown import before_the_end
from nbckpt.sync.transfer import TransferOptions

_AT_EXIT_S = 300.0
"""How long the interpreter waits for the last transfers at shutdown."""

_log = logging.getLogger("nbckpt")


class Request(NamedTuple):
    """A requested transfer.

    Attributes:
        action: `sync_up`, `sync_down` or `delete`.
        local: The local folder; empty for `delete`.
        remote: The URL of the remote folder.
        exclude: Patterns of files to leave out.
    """

    action: str
    local: str
    remote: str
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, action: str, local: str, remote: str, exclude: Iterable[str] | None = None) -> Request:
        """Return the request.

        Raises:
            UsageError: *exclude* is a single string.
        """
        excluding(exclude)
        return cls(action, os.fspath(local), os.fspath(remote).rstrip("/"), tuple(exclude or ()))

    @property
    def target(self) -> str:
        """The folder or URL that the transfer writes to."""
        return str(Path(self.local).absolute()) if self.action == "sync_down" else self.remote

    def meets(self, other: Request) -> bool:
        """Tell whether both requests use the same folder, so that their order matters."""
        return self.remote == other.remote or (self.local != "" and self.local == other.local)

    def __str__(self) -> str:
        if self.action == "sync_up":
            return f"sync_up of {self.local!r} to {self.remote!r}"
        if self.action == "sync_down":
            return f"sync_down of {self.remote!r} to {self.local!r}"
        return f"delete of {self.remote!r}"


class Command:
    """A request that waits, runs or has ended, with its own result.

    Attributes:
        request: The request.
        cancel: Cancels the command.
        done: Set when the command has ended.
        error: Why it failed; None if it did not.
        began: When it began, by the clock; None before that.
        progress: Its progress.
        moves: The name of the time to update on success, see `Syncer.sync_up_if_needed`.
        is_late: Whether it was cancelled after its timeout.
        is_unwanted: Whether a caller cancelled it.
        is_told: Whether its failure was raised to a caller.
        is_past: Whether a different request for the same folders came later.
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
        """Store the progress."""
        self.progress = progress


class Queue:
    """A queue of commands, which one thread carries out in order. Any thread may call its methods.

    Args:
        carry_out: Carries out a command; it ends on the command's cancel or after *timeout*.
        ended: Called with each command that ended, while the lock is held.
        clock: Returns monotonic seconds.
        timeout: Seconds after which a command is cancelled; None for no limit.

    Attributes:
        lock: Held during every change.
        running: The command that runs.
        waiting: The commands that wait, next first.
        last: The command of the latest request.
        failed: The requests that failed and have not succeeded since, with their commands.
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
        """Forget all commands without carrying them out."""
        self.lock = threading.RLock()
        self.running: Command | None = None
        self.waiting: deque[Command] = deque()
        self.last: Command | None = None
        self.failed: dict[Request, Command] = {}
        self._thread: threading.Thread | None = None

    def ask(self, request: Request, moves: str = "") -> bool:
        """Carry out a request. Return True if it begins now, False if it waits for the running command.

        The result is also True if the running command is cancelled already and this request is next.
        An equal request that already waits is reused, if no later request uses the same folders.
        """
        with self.lock:
            self.cancel_what_is_late()
            for failed in self.failed.values():
                failed.is_past |= failed.request != request and failed.request.meets(request)
            # A request is never refused, so the last one is not lost: see docs/decisions/0029.
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
            self._thread.join()  # the former thread has no work left
        thread = threading.Thread(target=self._work, name="nbckpt-syncer", daemon=True)
        is_in_thread = starts(thread)  # the new thread waits for the lock
        self._thread, self.running = thread if is_in_thread else None, command
        command.began = self._clock()
        _busy.add(self)
        _flush_at_exit()
        if not is_in_thread:
            self._work()

    def _work(self) -> None:
        """Carry out commands until none waits. Runs in its own thread."""
        with self.lock:
            command = self.running
        while command is not None:
            error: BaseException | None = None
            try:
                self._carry_out(command)
            except BaseException as raised:  # noqa: BLE001  any exception is a failure of the command
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
        # The former failure is obsolete after a success or a newer failure: see docs/decisions/0030.
        self.failed.pop(command.request, None)
        if error is not None:
            if command.is_late and isinstance(error, CancelledError):
                error = TimedOutError(f"it did not end within {self._timeout:g} s")
            command.error = _explained(command.request, error)
            command.is_past = any(it.request.meets(command.request) for it in self.waiting)
            self.failed[command.request] = command
            _log.warning("%s", command.error)
        self._ended(command)

    def _rest(self) -> None:
        """Drop the queue from `_busy` if it has no work and no failure left to raise."""
        if self.running is None and all(it.is_told or it.is_unwanted for it in self.failed.values()):
            _busy.discard(self)

    def cancel_what_is_late(self) -> None:
        """Cancel the running command if it exceeds the timeout; it may not have noticed that itself."""
        with self.lock:
            it = self.running
            if it is None or it.began is None or self._timeout is None or it.cancel.cancelled:
                return
            if self._clock() - it.began >= self._timeout:
                it.is_late = True
                it.cancel.cancel()

    def cancel(self) -> None:
        """Cancel the running command and drop the waiting ones."""
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
        """Wait for all requests. Tell whether they ended within *timeout* seconds; 0 does not wait."""
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
        """Raise each failure that was not raised yet.

        Raises:
            StoreError: Several requests failed, or one failed with an error that is not nbckpt's.
            NbckptError: The one failure.
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
    """Return an error that names the request."""
    if isinstance(error, CancelledError):
        explained: Exception = type(error)(f"{request}: {error}")
    elif isinstance(error, NbckptError):
        return error
    else:
        explained = StoreError(f"{request} failed: {type(error).__name__}: {error}")
    explained.__cause__ = error
    return explained


_busy: set[Queue] = set()
"""The queues that the interpreter waits for at shutdown: they have work or a failure to report."""


@lru_cache(maxsize=1)
def _flush_at_exit() -> None:
    before_the_end(_flush)


def _flush() -> None:
    """Wait for the last transfers. Abandon them after a limit or on an interrupt."""
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
        except Exception as error:  # noqa: BLE001  the next queue must be waited for too
            _log.error("%s", error)


_targets: set[str] = set()
_targets_changed = threading.Condition()


@contextmanager
def alone_at(target: str, options: TransferOptions) -> Iterator[None]:
    """Lock a target for writing within this process; wait until no other transfer writes to it.

    Raises:
        CancelledError: The transfer was cancelled meanwhile.
        TimedOutError: The other transfer did not end within the timeout.
    """
    cancel = options.cancel or Cancel()
    with _targets_changed, cancel.calling(_look_again):
        if not _targets_changed.wait_for(lambda: cancel.cancelled or target not in _targets, options.timeout):
            raise TimedOutError(f"another transfer there did not end within {options.timeout:g} s")
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
    """Clear all queues in the child of a fork: the parent's threads are not here, its locks may be held."""
    global _targets_changed
    for queue in list(_busy):
        queue.clear()
    _busy.clear()
    _targets.clear()
    _targets_changed = threading.Condition()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)
