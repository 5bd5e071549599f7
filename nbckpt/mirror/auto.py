"""AutoMirror: sync a store and its experiments to another location in the background."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import iglob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbckpt.core.manifest import now
from nbckpt.core.packs.pools import starts
from nbckpt.errors import StoreError, UsageError
from nbckpt.mirror import note
from nbckpt.render import visible
from nbckpt.store import Cancel, Store, check_no_secret, local_folder
from nbckpt.trials.home import experiments_folder

if TYPE_CHECKING:
    # Imported where they are used: most stores are not synced.
    from nbckpt.mirror.mirror import Mirror, Mirrored
    from nbckpt.sync.progress import Progress
    from nbckpt.sync.transfer import TransferOptions

PERIOD_S = 300.0

_EXPERIMENTS = "experiments"
"""The prefix of a trial's mark; the mark of a checkpoint does not have it."""

_RETRY_S = 30.0
"""The pause before a failed push is retried, if the period is not shorter."""
_GIVE_UP_S = 10.0
"""How long the caller waits for a push that hangs after its cancel."""

_SILENT_S = 0.7


@dataclass(frozen=True)
class AutoStatus:
    """The status of the background sync of a store.

    Attributes:
        url: The remote location.
        period: Seconds between two pushes.
        is_running: Whether this process syncs in the background.
        pushed_at: When the last complete push ended, in UTC; None before that.
        last: The counts of that push.
        failure: Why the remote location is not up to date, as text.
        progress: The progress of a running push.
    """

    url: str
    period: float
    is_running: bool
    pushed_at: str | None = None
    last: Mirrored | None = None
    failure: str = ""
    progress: Progress | None = None


class AutoMirror:
    """Sync a store and its experiments to another location in the background.

    The location is stored beside the store, so that another kernel continues the sync. A push follows each
    save and each period, and a last push follows `close`. Any thread may use it.

    Args:
        store: The store.
        in_background: Whether to start a thread; without a thread only `push` pushes.

    Attributes:
        began: Called just before a push of the background thread begins, in that thread.
    """

    def __init__(self, store: Store, *, in_background: bool = True) -> None:
        self.in_background = in_background
        self._store = store
        self._experiments = experiments_folder(store.url)
        self._file = None if (folder := local_folder(store.url)) is None else folder / note.FILE
        self._changed = threading.Condition()
        kept = self._file and note.read(self._file)
        self._status = AutoStatus(*kept, is_running=False) if kept else None
        self._thread: threading.Thread | None = None
        self._is_due = False
        self._closed = threading.Event()
        self._is_told = True
        self._sent: frozenset[str] | None = None
        self._pushing = threading.Lock()
        self._is_at_work = False
        self.began: Callable[[], object] = lambda: None
        self._cancel: Cancel | None = None
        if self._status is not None and in_background:
            self._start_thread()

    @property
    def status(self) -> AutoStatus | None:
        """The state of the sync; None if the store is not synced."""
        return self._status

    def waiting(self) -> tuple[int, int]:
        """Return the numbers of checkpoints and of trials that changed since this process's last push."""
        new = [] if self._sent is None else [it.startswith(_EXPERIMENTS) for it in self._marks() - self._sent]
        return new.count(False), new.count(True)

    @property
    def is_busy(self) -> bool:
        """Whether a push runs or is about to begin."""
        return self._is_at_work or self._pushing.locked() or (self._is_due and self._thread is not None)

    @property
    def place(self) -> str:
        """The remote location; empty if the store is not synced."""
        return "" if self._status is None else self._status.url

    def start(self, url: str, period: float = PERIOD_S) -> None:
        """Sync the store to *url* from now on, in this kernel and in later ones.

        Raises:
            UsageError: The URL or the period is invalid.
            StoreError: The location cannot be written beside the store.
        """
        if not period > 0:
            raise UsageError(f"--period {period:g}: give seconds above 0")
        check_no_secret(url, note.FILE)
        self._mirror(url)
        where = local_folder(url)
        self.stop()
        self._sent = None
        place = url if where is None else str(where.absolute())
        self._set(AutoStatus(place, period, is_running=False))
        if self._file is not None:
            note.write(self._file, place, period)
        if self.in_background:
            self._start_thread()

    def stop(self) -> None:
        """Turn the sync off, for this process and later ones. Nothing at the remote location is deleted."""
        self._end_thread(timeout=_GIVE_UP_S, last=False)
        self._status = None
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def cancel(self) -> None:
        """Cancel a running push. Data that was moved stays, and the push is retried later."""
        if self._cancel is not None:
            self._cancel.cancel()

    def wake(self) -> None:
        """Ask for a push soon, since there is new data."""
        with self._changed:
            self._is_due = True
            self._changed.notify_all()

    def push(self, options: TransferOptions | None = None) -> Mirrored:
        """Push now, after a running push has ended; see `Mirror.push`.

        Raises:
            UsageError: The store is not synced.
        """
        with self._pushing:
            status = self._status
            if status is None:
                raise UsageError("this store is kept here only: say where else, %ckpt sync URL")
            marks = self._marks()
            try:
                moved = self._mirror(status.url).push(options)
            except Exception as error:
                if self._note(status.url, failure=str(error), progress=None):
                    self._is_told = False
                raise
            left_out = len(moved.checkpoints.left_out)
            failure = f"{left_out} damaged keys are not there: see %ckpt verify" if left_out else ""
            if self._note(status.url, failure=failure, last=moved, pushed_at=now(), progress=None):
                self._is_told, self._sent = not failure, marks
            return moved

    def _mirror(self, url: str) -> Mirror:
        from nbckpt.mirror.mirror import Mirror

        return Mirror(self._store, self._experiments, url)

    def _note(self, url: str, **news: Any) -> bool:
        """Update the status if *url* is still the location: a push may end long after a change of it."""
        if self._status is None or self._status.url != url:
            return False
        self._set(replace(self._status, **news))
        return True

    def _marks(self) -> frozenset[str]:
        """Return one mark for each local checkpoint and for each state of a local trial's journal."""
        checkpoints = [] if self._file is None else _below(self._file.parent, "checkpoints/*.json")
        trials = _below(self._experiments, "*/*/events.jsonl")
        return frozenset([*checkpoints, *(_version(self._experiments / it) for it in trials)])

    def trouble(self) -> str:
        """Return why the remote location is not up to date, once for each failure; empty for none."""
        if self._is_told or self._status is None:
            return ""
        self._is_told = True
        return f"{self._status.url} is not up to date: {self._status.failure}"

    def close(self) -> None:
        """Make a last push, wait for it, and end the thread. An interrupt cancels the push.

        Raises:
            StoreError: The remote location is not up to date.
        """
        self._end_thread(timeout=None, last=True)
        if self._status is not None and self._status.failure:
            raise StoreError(f"{self._status.url} is not up to date: {self._status.failure}")

    def _start_thread(self) -> None:
        from nbckpt.sync.shutdown import before_the_end

        assert self._status is not None
        self._status = replace(self._status, is_running=True)
        self._closed = threading.Event()  # a new event: the former thread may still be ending
        self._is_due = True
        work = threading.Thread(target=self._work, args=(self._closed,), name="nbckpt-mirror", daemon=True)
        self._thread = work
        if not starts(self._thread):  # no thread can start: only `push` pushes
            self._thread, self.in_background = None, False
            self._set(self._status)
            return
        _running.add(self)
        before_the_end(_push_all)

    def _end_thread(self, *, timeout: float | None, last: bool) -> None:
        with self._changed:
            self._closed.set()
            self._is_due = last
            self._changed.notify_all()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            if not last:
                self.cancel()
            thread.join(timeout)
        except KeyboardInterrupt:
            self.cancel()
            thread.join(_GIVE_UP_S)
            raise
        finally:
            _running.discard(self)

    def _work(self, closed: threading.Event) -> None:
        """Push whenever a push is due, until the sync is closed. Runs in its own thread."""
        from nbckpt.sync.transfer import TransferOptions

        while self._wait(closed):
            self._cancel = Cancel()
            with suppress(Exception):  # the status holds the error, and the next command shows it
                self.push(TransferOptions(cancel=self._cancel, told=self._tell))
            self._is_at_work = False

    def _wait(self, closed: threading.Event) -> bool:
        """Wait until a push is due or the sync is closed; tell whether to push."""
        status = self._status
        if status is None:
            return False
        pause = min(status.period, _RETRY_S) if status.failure else status.period
        with self._changed:
            self._changed.wait_for(lambda: self._is_due or closed.is_set(), pause)
            self._is_at_work = self._is_due or not closed.is_set()
            self._is_due = False
        if self._is_at_work:
            self.began()
        return self._is_at_work

    def _tell(self, progress: Progress) -> None:
        if self._status is not None:
            self._set(replace(self._status, progress=progress))

    def _set(self, status: AutoStatus) -> None:
        self._status = replace(status, is_running=self._thread is not None)


def _below(folder: Path, pattern: str) -> Iterator[str]:
    """Yield the matching paths in a folder; `Path.glob` fails if a folder is removed meanwhile."""
    return iglob(pattern, root_dir=folder)  # noqa: PTH207


def _version(file: Path) -> str:
    """Return a mark that differs for each state of a trial's journal."""
    with suppress(FileNotFoundError):  # its experiment was just removed
        return f"{_EXPERIMENTS}/{file}:{file.stat().st_mtime_ns}"
    return ""


_running: weakref.WeakSet[AutoMirror] = weakref.WeakSet()


def _push_all() -> None:
    """Make the last push of each running sync at interpreter shutdown; print a note if it takes long."""
    if _running:
        from nbckpt.trials.engine.shutdown import finish_all

        finish_all()  # the push must include the last writes of the trials
    for auto in list(_running):
        said = threading.Timer(_SILENT_S, _say, [f"sending the last to {auto.place}; Ctrl-C gives it up"])
        with suppress(RuntimeError):  # some Python versions start no thread at shutdown
            said.start()
        try:
            auto.close()
        except StoreError as error:
            _say(str(error))
        except KeyboardInterrupt:
            _say(f"given up: {auto.place} is not up to date. In the next kernel: %ckpt sync --now")
        finally:
            said.cancel()


def _say(text: str) -> None:
    sys.stderr.write(f"nbckpt: {visible(text)}\n")
