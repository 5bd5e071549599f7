"""AutoMirror: sync a store and its experiments to another location in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from glob import iglob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbckpt.core.manifest import now
from nbckpt.errors import StoreError, UsageError
from nbckpt.mirror import note
from nbckpt.store import Store, check_no_secret, local_folder
from nbckpt.trials.home import experiments_folder

if TYPE_CHECKING:
    # Imported where they are used: most stores are not synced.
    from nbckpt.mirror.mirror import Mirror, Mirrored
    from nbckpt.sync.engine import Engine, Job
    from nbckpt.sync.progress import Progress
    from nbckpt.sync.transfer import TransferOptions

PERIOD_S = 300.0

_EXPERIMENTS = "experiments"
"""The prefix of a trial's mark; the mark of a checkpoint does not have it."""

_RETRY_S = 30.0
"""The longest pause before a failed push is retried, if the period is not shorter."""


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
        settings = self._file and note.read(self._file)
        self._status = AutoStatus(*settings, is_running=False) if settings else None
        self._engine: Engine | None = None
        self._failures = 0
        self._is_reported = True
        self._sent: frozenset[str] | None = None
        if self._status is not None and in_background:
            self._begin(self._status)

    @property
    def status(self) -> AutoStatus | None:
        """The state of the sync; None if the store is not synced."""
        is_running = self._engine is not None and self._engine.is_serving
        return self._status and replace(self._status, is_running=is_running)

    def waiting(self) -> tuple[int, int]:
        """Return the numbers of checkpoints and of trials that changed since this process's last push."""
        marks = frozenset[str]() if self._sent is None else self._marks() - self._sent
        trials = sum(mark.startswith(_EXPERIMENTS) for mark in marks)
        return len(marks) - trials, trials

    @property
    def is_busy(self) -> bool:
        """Whether a push runs in the background or is about to begin."""
        return self._engine is not None and self._engine.running is not None

    @property
    def url(self) -> str:
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
        folder = local_folder(url)
        self.stop()
        self._sent, self._failures = None, 0
        self._status = AutoStatus(url if folder is None else str(folder.absolute()), period, is_running=False)
        if self._file is not None:
            note.write(self._file, self.url, period)
        if self.in_background:
            self._begin(self._status)

    def stop(self) -> None:
        """Turn the sync off, for this process and later ones. Nothing at the remote location is deleted."""
        self.cancel()
        engine, self._engine = self._engine, None  # from here on no push begins
        if engine is not None:
            engine.end(last=False)
            engine.wait(self._stop_timeout)
        self._status = None
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def cancel(self) -> None:
        """Cancel a running push. Data that was moved stays, and the push is retried later."""
        if self._engine is not None and (job := self._engine.running):
            job.cancel.cancel()

    def wake(self) -> None:
        """Ask for a push soon, since there is new data."""
        if self._engine is not None:
            self._engine.again()

    def push(self, options: TransferOptions | None = None) -> Mirrored:
        """Push now, after a running push to the same location has ended; see `Mirror.push`.

        Raises:
            UsageError: The store is not synced.
        """
        from nbckpt.sync.exclusive import exclusive
        from nbckpt.sync.transfer import TransferOptions

        status, options = self._status, options or TransferOptions()
        if status is None:
            raise UsageError("this store is not synced. Choose a location: %ckpt sync URL")
        with exclusive(status.url, options):
            marks = self._marks()
            try:
                mirrored = self._mirror(status.url).push(options)
            except Exception as error:
                self._note(status.url, str(error))
                raise
            left_out = len(mirrored.checkpoints.left_out)
            failure = f"{left_out} damaged keys are not there: see %ckpt verify" if left_out else ""
            if self._note(status.url, failure, last=mirrored, pushed_at=now()):
                self._sent = marks
            return mirrored

    def _mirror(self, url: str) -> Mirror:
        from nbckpt.mirror.mirror import Mirror

        return Mirror(self._store, self._experiments, url)

    def _note(self, url: str, failure: str, **news: Any) -> bool:
        """Update the status if *url* is still the location: a push may end long after a change of it."""
        if self._status is None or self._status.url != url:
            return False
        self._status = replace(self._status, failure=failure, progress=None, **news)
        self._failures, self._is_reported = (self._failures + 1 if failure else 0), not failure
        return True

    def _marks(self) -> frozenset[str]:
        """Return one mark for each local checkpoint and for each state of a local trial's journal."""
        checkpoints = [] if self._file is None else _below(self._file.parent, "checkpoints/*.json")
        journals = _below(self._experiments, "*/*/events.jsonl")
        return frozenset([*checkpoints, *(_version(self._experiments / path) for path in journals)])

    def trouble(self) -> str:
        """Return why the remote location is not up to date, once for each failure; empty for none."""
        if self._is_reported or self._status is None:
            return ""
        self._is_reported = True
        return f"{self._status.url} is not up to date: {self._status.failure}"

    def close(self) -> None:
        """Make a last push, wait for it, and end the thread. An interrupt cancels the push.

        Raises:
            StoreError: The remote location is not up to date.
        """
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
        if self._status is not None and self._status.failure:
            raise StoreError(f"{self._status.url} is not up to date: {self._status.failure}")

    def _begin(self, status: AutoStatus) -> None:
        """Start the thread. If it cannot start, only `push` pushes."""
        from nbckpt.sync.engine import Engine
        from nbckpt.sync.request import Request

        self._engine = engine = Engine(
            lambda job: self._push_in_background(engine, job),
            at_end=self._raise_failure,
            name="nbckpt-mirror",
        )
        request = Request("sync_up", self._store.url, status.url)
        self.in_background = engine.repeat(request, partial(self._pause, status.period))

    def _push_in_background(self, engine: Engine, job: Job) -> None:
        from nbckpt.sync.transfer import TransferOptions

        if engine is not self._engine:
            return  # the sync was turned off, or goes to another location
        self.began()
        with suppress(Exception):  # the status holds the error, and the next command shows it
            self.push(TransferOptions(cancel=job.cancel, on_progress=self._show))

    def _pause(self, period: float) -> float:
        from nbckpt.sync.backoff import backoff

        return backoff(self._failures, min(period, _RETRY_S)) if self._failures else period

    def _show(self, progress: Progress) -> None:
        if self._status is not None:
            self._status = replace(self._status, progress=progress)


def _below(folder: Path, pattern: str) -> Iterator[str]:
    """Yield the matching paths in a folder; `Path.glob` fails if a folder is removed meanwhile."""
    return iglob(pattern, root_dir=folder)  # noqa: PTH207


def _version(file: Path) -> str:
    """Return a mark that differs for each state of a trial's journal."""
    with suppress(FileNotFoundError):  # its experiment was just removed
        return f"{_EXPERIMENTS}/{file}:{file.stat().st_mtime_ns}"
    return ""
