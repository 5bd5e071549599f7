"""AutoMirror: sync a store and its experiments to another location in the background."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbckpt.core.manifest import now
from nbckpt.errors import StoreError, UsageError
from nbckpt.mirror import note
from nbckpt.mirror.note import Note
from nbckpt.mirror.pending import Marks, Pending, Waiting
from nbckpt.store import Store, check_no_secret, local_folder
from nbckpt.store.files import explained
from nbckpt.store.fsync import sync_folder
from nbckpt.trials.home import experiments_folder

if TYPE_CHECKING:
    # Imported where they are used: most stores are not synced.
    from nbckpt.mirror.mirror import Mirror, Mirrored
    from nbckpt.sync.engine import Engine, Job
    from nbckpt.sync.progress import Progress
    from nbckpt.sync.transfer import TransferOptions

PERIOD_S = 300.0

_YEAR_S = 366 * 86_400.0

_RETRY_S = 30.0
"""The longest pause before a failed push is retried, if the period is not shorter."""


@dataclass(frozen=True)
class AutoStatus:
    """The status of the background sync of a store.

    Attributes:
        url: The remote location.
        period: Seconds between two pushes; 0 if time alone starts none.
        is_running: Whether this process syncs in the background.
        pushed_at: When the last complete push ended, in UTC; None before that.
        last: The counts of that push.
        failure: Why the remote location is not up to date, as text.
        progress: The progress of a running push.
        after_saves: Whether each save is pushed.
    """

    url: str
    period: float
    is_running: bool
    pushed_at: str | None = None
    last: Mirrored | None = None
    failure: str = ""
    progress: Progress | None = None
    after_saves: bool = True

    @property
    def by_itself(self) -> bool:
        """Whether anything but a user starts a push."""
        return self.after_saves or self.period > 0


class AutoMirror:
    """Sync a store and its experiments to another location in the background.

    The location is stored beside the store, so that other kernels continue the sync, and follow its changes.
    A push follows each save and each period, if that is wanted, and a last push follows `close`. Any thread
    may use it.

    Args:
        store: The store.
        in_background: Whether to start a thread; without a thread only `push` pushes.
        stop_timeout: Seconds to wait for a push that hangs after its cancel.

    Attributes:
        began: Called just before a push of the background thread begins, in that thread.
    """

    def __init__(self, store: Store, *, in_background: bool = True, stop_timeout: float = 10.0) -> None:
        self.in_background = in_background
        self.began: Callable[[], object] = lambda: None
        self._stop_timeout = stop_timeout
        self._store = store
        self._experiments = experiments_folder(store.url)
        self._file = None if (folder := local_folder(store.url)) is None else folder / note.FILE
        self._pending = Pending(store, self._experiments)
        self._changing = threading.RLock()
        self._note_version: object = None
        self._status: AutoStatus | None = None
        self._engine: Engine | None = None
        self._is_closed = False
        self._failures = 0
        self._is_reported = True
        self._sent: Marks | None = None
        self.follow()

    @property
    def status(self) -> AutoStatus | None:
        """The state of the sync; None if the store is not synced."""
        engine, status = self._engine, self._status  # read once: any thread may turn the sync off
        return status and replace(status, is_running=engine is not None and engine.is_serving)

    def waiting(self) -> Waiting:
        """Return what changed since this process's last push."""
        return Waiting() if (sent := self._sent) is None else self._pending.since(sent)

    @property
    def is_busy(self) -> bool:
        """Whether a push runs in the background or is about to begin."""
        return (engine := self._engine) is not None and engine.running is not None

    @property
    def url(self) -> str:
        """The remote location; empty if the store is not synced."""
        return "" if (status := self._status) is None else status.url

    def start(self, url: str, period: float = PERIOD_S, *, after_saves: bool = True) -> None:
        """Sync the store to *url* from now on, in this kernel and in later ones.

        With a period of 0 and not after saves, only `push` and `wake` push.

        Raises:
            UsageError: The URL or the period is invalid.
            StoreError: The location cannot be written beside the store.
        """
        if not 0 <= period <= _YEAR_S:
            raise UsageError(f"--period {period:g}: give seconds, at most a year, or 0 for none")
        check_no_secret(url, note.FILE)
        self._mirror(url)
        folder = local_folder(url)
        settings = Note(url if folder is None else str(folder.absolute()), period, after_saves)
        if self._file is not None:
            note.write(self._file, settings)
        self._change(settings)

    def stop(self) -> None:
        """Turn the sync off, in all processes. Nothing at the remote location is deleted.

        Raises:
            StoreError: The location cannot be removed beside the store: the sync stays on.
        """
        if self._file is not None:
            with explained("remove", self._file), suppress(FileNotFoundError):
                self._file.unlink()
                sync_folder(self._file.parent)
        self._change(None)

    def follow(self) -> None:
        """Do what another process wrote beside the store: sync to that location, or no longer.

        What cannot be read, or was written by another user, changes nothing.
        """
        if self._file is None or self._is_closed:
            return
        with self._changing:
            try:
                version = _version(self._file)
            except OSError:  # the disk does not answer: nobody turned the sync off
                return
            if version == self._note_version:
                return
            self._note_version = version
            settings = note.read(self._file) if version else None
            own = self._status and Note(self._status.url, self._status.period, self._status.after_saves)
            if settings != own and (settings is not None or version is None):
                self._take(settings)

    def _change(self, settings: Note | None) -> None:
        """Sync by these settings from now on, or no longer. Wait for a push that is cancelled."""
        if (engine := self._end()) is not None:
            engine.wait(self._stop_timeout)
        self._take(settings)

    def _take(self, settings: Note | None) -> None:
        with self._changing:
            self._end()
            self._sent, self._failures, self._is_reported = None, 0, True
            self._status = settings and _status_of(settings)
            if self._status is not None and self.in_background:
                self._begin(self._status)

    def _end(self) -> Engine | None:
        """Cancel a running push, and begin none from now on. Return what ran it."""
        with self._changing:
            self.cancel()
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.end(last=False)
        return engine

    def cancel(self) -> None:
        """Cancel a running push. Data that was moved stays, and the push is retried later."""
        if (engine := self._engine) is not None and (job := engine.running):
            job.cancel.cancel()

    def wake(self) -> None:
        """Ask for a push soon, since there is new data."""
        from nbckpt.sync.request import Request

        self.follow()
        engine, status = self._engine, self._status
        if engine is None or status is None:
            return
        if status.by_itself:
            engine.again()
        else:
            engine.ask(Request("sync_up", self._store.url, status.url))

    def saved(self) -> None:
        """Note a save: it is pushed soon if that is wanted."""
        self.follow()
        if (status := self._status) is not None and status.after_saves:
            self.wake()

    def push(self, options: TransferOptions | None = None) -> Mirrored:
        """Push now, after a running push to the same location has ended; see `Mirror.push`.

        Raises:
            UsageError: The store is not synced.
        """
        from nbckpt.sync.exclusive import exclusive
        from nbckpt.sync.transfer import TransferOptions

        self.follow()
        status, options = self._status, options or TransferOptions()
        if status is None:
            raise UsageError("this store is not synced. Choose a location: %ckpt sync URL")
        with exclusive(status.url, options):
            marks = self._pending.marks()
            try:
                mirrored = self._mirror(status.url).push(options)
            except Exception as error:
                self._note(status.url, str(error))
                raise
            if self._note(status.url, _left_out(mirrored), last=mirrored, pushed_at=now()):
                self._sent = marks
            return mirrored

    def _mirror(self, url: str) -> Mirror:
        from nbckpt.mirror.mirror import Mirror

        return Mirror(self._store, self._experiments, url)

    def _note(self, url: str, failure: str, **news: Any) -> bool:
        """Update the status if *url* is still the location: a push may end long after a change of it."""
        with self._changing:
            if self._status is None or self._status.url != url:
                return False
            is_known = self._is_reported and failure == self._status.failure
            self._status = replace(self._status, failure=failure, progress=None, **news)
            self._failures, self._is_reported = (
                (self._failures + 1 if failure else 0),
                is_known or not failure,
            )
            return True

    def trouble(self) -> str:
        """Return why the remote location is not up to date, once for each failure; empty for none."""
        if self._is_reported or (status := self._status) is None:
            return ""
        self._is_reported = True
        return f"{status.url} is not up to date: {status.failure}"

    def close(self) -> None:
        """Make a last push, wait for it, and end the thread. An interrupt cancels the push.

        Raises:
            StoreError: The remote location is not up to date.
        """
        self.follow()
        self._is_closed = True
        if (engine := self._engine) is not None:
            engine.end(last=True)
            try:
                engine.wait()
            except KeyboardInterrupt:
                engine.cancel()
                engine.wait(self._stop_timeout)
                raise
            finally:
                self._engine = None
        self._raise_failure()

    def _raise_failure(self) -> None:
        if (status := self._status) is not None and status.failure:
            raise StoreError(f"{status.url} is not up to date: {status.failure}")

    def _begin(self, status: AutoStatus) -> None:
        """Start the thread. If it cannot start, only `push` pushes."""
        from nbckpt.sync.engine import Engine
        from nbckpt.sync.request import Request

        self._engine = engine = Engine(
            lambda job: self._push_in_background(engine, job),
            at_end=self._raise_failure,
            name="nbckpt-mirror",
        )
        if status.by_itself:
            request = Request("sync_up", self._store.url, status.url)
            self.in_background = engine.repeat(request, partial(self._pause, status.period or math.inf))

    def _push_in_background(self, engine: Engine, job: Job) -> None:
        from nbckpt.sync.transfer import TransferOptions

        self.follow()
        if engine is not self._engine:
            return  # the sync was turned off, or goes to another location
        self.began()
        with suppress(Exception):  # the status holds the error, and the next command shows it
            self.push(TransferOptions(cancel=job.cancel, on_progress=self._show))

    def _pause(self, period: float) -> float:
        from nbckpt.sync.backoff import backoff

        return backoff(self._failures, min(period, _RETRY_S)) if self._failures else period

    def _show(self, progress: Progress) -> None:
        with self._changing:
            if self._status is not None:
                self._status = replace(self._status, progress=progress)


def _version(file: Path) -> object:
    """Return a value that differs for each state of a file; None if it is missing."""
    try:
        stat = file.stat()
    except FileNotFoundError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def _status_of(settings: Note) -> AutoStatus:
    return AutoStatus(settings.url, settings.period, is_running=False, after_saves=settings.after_saves)


def _left_out(mirrored: Mirrored) -> str:
    """Return what a push left out that only the user can help; "" for nothing."""
    damaged = len(mirrored.checkpoints.left_out)
    texts = [f"{damaged} damaged keys are not there: see %ckpt verify"] if damaged else []
    parts = mirrored.experiments.items()
    texts += [f"experiment {name}: {part.left_out[name]}" for name, part in parts if name in part.left_out]
    return "; ".join(texts)
