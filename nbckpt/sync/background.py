"""Background: syncers that make their transfers in a thread, and the default syncer."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.store import Store, open_store
from nbckpt.sync.download import download
from nbckpt.sync.engine import Engine, Job, backoff
from nbckpt.sync.exclusive import exclusive
from nbckpt.sync.progress import Progress
from nbckpt.sync.request import Request
from nbckpt.sync.syncer import PERIOD_S, TIMEOUT_S, Syncer, SyncerStatus, checked_timeout, seconds
from nbckpt.sync.target import delete
from nbckpt.sync.transfer import ATTEMPTS, BACKOFF_S, TransferOptions
from nbckpt.sync.upload import upload


class BackgroundSyncer(Syncer):
    """A syncer that makes transfers in the background, one at a time. Subclasses implement `carry_out`.

    `sync_up`, `sync_down` and `delete` return at once. They return True if the transfer begins now, and
    False if it waits for the running one. No request is dropped. A transfer that exceeds *sync_timeout* or
    is cancelled writes nothing from then on. Any thread may call any method.

    Args:
        sync_period: See `Syncer`.
        sync_timeout: Seconds after which a transfer is cancelled; None for no limit.
        clock: Returns monotonic seconds.

    Attributes:
        base_options: The options of each transfer, except its timeout, cancel and progress.
    """

    base_options = TransferOptions()

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
        self._engine = Engine(
            self._carry_out, ended=self._ended, clock=self._clock, timeout=self.sync_timeout
        )
        self._due: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    @abstractmethod
    def carry_out(self, request: Request, options: TransferOptions) -> object:
        """Carry out a request, and end when the options' timeout or cancel says so.

        It is called in the background, for several trials of an experiment at the same time.
        """

    def sync_up(self, local_dir: str, remote_dir: str, exclude: Iterable[str] | None = None) -> bool:
        """See `Syncer.sync_up` and the class."""
        return self._engine.ask(Request.of("sync_up", local_dir, remote_dir, exclude))

    def sync_down(self, remote_dir: str, local_dir: str, exclude: Iterable[str] | None = None) -> bool:
        """See `Syncer.sync_down` and the class."""
        return self._engine.ask(Request.of("sync_down", local_dir, remote_dir, exclude))

    def delete(self, remote_dir: str) -> bool:
        """See `Syncer.delete` and the class."""
        return self._engine.ask(Request.of("delete", "", remote_dir))

    def _carry_out(self, job: Job) -> None:
        options = replace(
            self.base_options, timeout=self.sync_timeout, cancel=job.cancel, on_progress=job.show
        )
        self.carry_out(job.request, options)

    def _if_needed(self, last: str, sync: Callable[[], bool]) -> bool:
        engine = self._engine
        with engine.lock:
            engine.cancel_late()
            now = self._clock()
            under_way = [job for job in (engine.running, *engine.waiting) if job and not job.cancel.cancelled]
            if (
                any(job.moves == last for job in under_way)
                or now - getattr(self, last) < self.sync_period
                or now < self._due.get(last, now)
            ):
                return False
            has_begun = sync()
            if engine.last is not None:
                engine.last.moves = last
            return has_begun

    def _ended(self, job: Job) -> None:
        """Update the time of the last success. After a failure, make the sync due after a growing pause."""
        last = job.moves
        if not last:
            return
        if job.error is None:
            setattr(self, last, job.began)
            self._failures.pop(last, None)
            self._due.pop(last, None)
        else:
            times = self._failures[last] = self._failures.get(last, 0) + 1
            self._due[last] = self._clock() + backoff(times, self.sync_period)

    def retry(self) -> None:
        """Repeat every failed request that no later request replaced. If there is none, repeat the last one.

        Raises:
            UsageError: There was no request yet.
        """
        engine = self._engine
        with engine.lock:
            if engine.last is None:
                raise UsageError("there is nothing to retry: call sync_up, sync_down or delete first")
            again = [job for job in engine.failed.values() if not job.is_past]
            for job in again or [engine.last]:
                engine.ask(job.request, job.moves)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for all requests. Tell whether they ended within *timeout* seconds; 0 does not wait.

        Neither this timeout nor an interrupt of the wait disturbs a running transfer.

        Raises:
            TimedOutError: A transfer exceeded `sync_timeout` and was cancelled.
            CancelledError: A transfer was cancelled.
            StoreError: Several transfers failed, or one failed with an error that is not nbckpt's.
            NbckptError: A transfer failed. Each failure is raised once.
        """
        if not self._engine.wait(timeout):
            return False
        self._engine.raise_failures()
        return True

    def reset(self) -> None:
        """See `Syncer.reset`."""
        super().reset()
        self._due.clear()

    def cancel(self) -> None:
        """Cancel the running transfer and all waiting ones. Nothing more is written to the targets."""
        self._engine.cancel()

    def close(self) -> None:
        """Wait for all requests and raise the failures that were not raised yet; see `wait`.

        A transfer that `cancel` ended is not a failure here. The syncer can be used again.
        """
        self._engine.wait()
        self._engine.raise_failures(also_unwanted=False)

    @property
    def progress(self) -> Progress | None:
        """The progress of the running transfer; None if none runs."""
        running = self._engine.running
        return None if running is None else running.progress

    def status(self) -> SyncerStatus:
        """See `Syncer.status`."""
        status, engine = super().status(), self._engine
        with engine.lock:
            return replace(
                status,
                settings=(*status.settings, ("sync_timeout", seconds(self.sync_timeout))),
                running=str(engine.running.request) if engine.running else "",
                progress=self.progress,
                waiting=tuple(str(job.request) for job in engine.waiting),
                failures=tuple(str(job.error) for job in engine.failed.values()),
            )

    def __getstate__(self) -> dict[str, Any]:
        ours = {"_engine", "_due", "_failures"}
        return {name: state for name, state in super().__getstate__().items() if name not in ours}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()


class DefaultSyncer(BackgroundSyncer):
    """A syncer for any storage that fsspec supports. It moves only differences, several files at a time.

    A reader that calls `sync_down` sees the remote folder as it was before a `sync_up` or as it is after.

    Args:
        sync_period: See `Syncer`.
        sync_timeout: See `BackgroundSyncer`.
        delete_missing: Whether files that the source lacks are deleted from the target.
        attempts: How often each request to the storage is tried.
        backoff_s: See `TransferOptions`.
        clock: Returns monotonic seconds.

    Examples:
        >>> from nbckpt.sync import DefaultSyncer
        >>> syncer = DefaultSyncer()
        >>> syncer.sync_up(".", "memory://there"), syncer.wait()
        (True, True)
    """

    backoff_s: float = BACKOFF_S  # for the pickles of former versions

    def __init__(
        self,
        sync_period: float = PERIOD_S,
        sync_timeout: float | None = TIMEOUT_S,
        *,
        delete_missing: bool = False,
        attempts: int = ATTEMPTS,
        backoff_s: float = BACKOFF_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(sync_period, sync_timeout, clock=clock)
        if attempts < 1:
            raise UsageError(f"attempts={attempts}: give at least 1")
        self.delete_missing = delete_missing
        self.attempts = attempts
        self.backoff_s = backoff_s

    @classmethod
    def open_storage(cls, url: str) -> Store:
        """Return the store for a URL; override it to use your own store."""
        return open_store(url)

    def carry_out(self, request: Request, options: TransferOptions) -> object:
        """See `BackgroundSyncer.carry_out`."""
        with exclusive(request.target, options):
            return self._transfer(request, replace(options, attempts=self.attempts, backoff_s=self.backoff_s))

    def _transfer(self, request: Request, options: TransferOptions) -> object:
        store = self.open_storage(request.remote)
        if request.action == "delete":
            return delete(store, options=options)
        if request.action == "sync_up":
            return upload(
                request.local,
                store,
                exclude=request.exclude,
                delete_missing=self.delete_missing,
                options=options,
            )
        return download(
            store, request.local, exclude=request.exclude, delete_missing=self.delete_missing, options=options
        )
