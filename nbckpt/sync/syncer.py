"""Syncer: the base class of objects that copy a folder to remote storage and back.

Its interface equals that of existing syncers: to use one here, change only its import.
"""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from nbckpt.errors import StoreError, UsageError
from nbckpt.render import Column, Page, Result, Table, duration, size
from nbckpt.store import CancelledError, TimedOutError, check_protocol, local_folder
from nbckpt.sync.progress import Progress
from nbckpt.sync.transfer import FINAL

if TYPE_CHECKING:
    import tenacity

PERIOD_S = 300.0
TIMEOUT_S = 1800.0

_LONGEST_BACKOFF_S = 60.0

_log = logging.getLogger("nbckpt")


@dataclass(frozen=True, repr=False)
class SyncerStatus(Result):
    """The state of a syncer.

    Attributes:
        name: The class of the syncer.
        settings: The settings, as names and text.
        running: The running transfer, as text; empty for none.
        progress: The progress of that transfer.
        waiting: The transfers that wait.
        failures: The errors of failed transfers.
    """

    name: str
    settings: tuple[tuple[str, str], ...] = ()
    running: str = ""
    progress: Progress | None = None
    waiting: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    def page(self) -> Page:
        """See `Result.page`."""
        doing = self.running or "nothing to do"
        if self.progress is not None and self.progress.files:
            at = self.progress
            doing += f", {at.files_done} of {at.files} files, {size(at.done)} of {size(at.size)}"
        notes = [f"then: {request}" for request in self.waiting] + [
            f"failed: {error}" for error in self.failures
        ]
        settings = Table("Settings", (Column("setting", code=True), Column("value")), self.settings)
        return Page(f"{self.name}: {doing}", (settings,), tuple(notes))


class Syncer(ABC):
    """A tool that syncs folders with remote storage; subclass it to use your own tool.

    A subclass implements `sync_up`, `sync_down` and `delete`. If these return before the work is done, the
    subclass implements `wait` and `retry` too. One object serves all trials of an experiment, one call at a
    time.

    Args:
        sync_period: Seconds after a successful start in which `sync_up_if_needed` and
            `sync_down_if_needed` do nothing.
        clock: Returns monotonic seconds.

    Attributes:
        last_sync_up_time: When the last successful upload began, by the clock.
        last_sync_down_time: When the last successful download began, by the clock.

    Examples:
        >>> import shutil
        >>> class Copier(nbckpt.sync.Syncer):
        ...     def sync_up(self, local_dir, remote_dir, exclude=None):
        ...         return bool(shutil.copytree(local_dir, remote_dir, dirs_exist_ok=True))
        ...     def sync_down(self, remote_dir, local_dir, exclude=None):
        ...         return bool(shutil.copytree(remote_dir, local_dir, dirs_exist_ok=True))
        ...     def delete(self, remote_dir):
        ...         return not shutil.rmtree(remote_dir)
        >>> folder = nbckpt.Checkpoint.from_dict({"step": 3}).to_directory("runs")
        >>> with Copier(sync_period=60) as copier:
        ...     copier.sync_up_if_needed("runs", "there"), copier.sync_up_if_needed("runs", "there")
        (True, False)
    """

    # Class attributes, so that a subclass that does not call this __init__ has them too.
    sync_period: float = PERIOD_S
    last_sync_up_time: float = -math.inf
    last_sync_down_time: float = -math.inf
    _clock: Callable[[], float] = time.monotonic

    def __init__(self, sync_period: float = PERIOD_S, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.sync_period = checked_period("sync_period", sync_period)
        self._clock = clock

    @abstractmethod
    def sync_up(self, local_dir: str, remote_dir: str, exclude: list[str] | None = None) -> bool:
        """Update a remote folder from a local one, perhaps in the background.

        Args:
            local_dir: The local folder.
            remote_dir: The URL of the remote folder.
            exclude: Patterns of files to leave out, such as `*.tmp`.

        Returns:
            Whether the upload has begun.
        """

    @abstractmethod
    def sync_down(self, remote_dir: str, local_dir: str, exclude: list[str] | None = None) -> bool:
        """Update a local folder from a remote one; otherwise like `sync_up`."""

    @abstractmethod
    def delete(self, remote_dir: str) -> bool:
        """Remove a remote folder, perhaps in the background; tell whether the removal has begun."""

    def retry(self) -> None:  # noqa: B027  a synchronous syncer needs no override
        """Repeat the requests that failed last."""

    def wait(self) -> object:  # noqa: B027  the same
        """Wait for the transfers in the background and raise their failures."""

    def sync_up_if_needed(self, local_dir: str, remote_dir: str, exclude: list[str] | None = None) -> bool:
        """Call `sync_up` if the last successful one is a period ago or more; tell whether it has begun."""
        return self._if_needed(
            "last_sync_up_time",
            partial(self.sync_up, local_dir=local_dir, remote_dir=remote_dir, exclude=exclude),
        )

    def sync_down_if_needed(self, remote_dir: str, local_dir: str, exclude: list[str] | None = None) -> bool:
        """Call `sync_down` if the last successful one is a period ago or more; tell whether it has begun."""
        return self._if_needed(
            "last_sync_down_time",
            partial(self.sync_down, remote_dir=remote_dir, local_dir=local_dir, exclude=exclude),
        )

    def _if_needed(self, last: str, sync: Callable[[], bool]) -> bool:
        now = self._clock()
        if now - getattr(self, last) < self.sync_period:
            return False
        has_begun = bool(sync())
        if has_begun:
            setattr(self, last, now)
        return has_begun

    def wait_or_retry(self, max_retries: int = 3, backoff_s: float = 5) -> None:
        """Wait for the transfers, and repeat failed ones, with at most *max_retries* attempts in all.

        Args:
            max_retries: The number of attempts, with the first one.
            backoff_s: The minimum pause before the second attempt in seconds; later pauses are longer.

        Raises:
            UsageError: An argument is invalid.
            StoreError: Every attempt failed; the cause is the last error.
            NotFoundError: A transfer raised it. Errors that a retry cannot fix are raised at once.
        """
        if max_retries < 1:
            raise UsageError(f"max_retries={max_retries}: give at least 1")
        checked_period("backoff_s", backoff_s)
        import tenacity  # slow: it imports asyncio too

        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(max_retries),
            wait=tenacity.wait_exponential(backoff_s, _LONGEST_BACKOFF_S)
            + tenacity.wait_random(0, backoff_s),
            retry=tenacity.retry_if_exception(is_worth_retrying),
            before_sleep=lambda state: _log.warning("%s; retrying", _error(state)),
        )
        try:
            for attempt in retrying:
                if attempt.retry_state.attempt_number > 1:
                    self.retry()
                with attempt:
                    self.wait()
        except tenacity.RetryError as failed:
            error = failed.last_attempt.exception()
            raise StoreError(f"the sync failed {max_retries} times; the last time: {error}") from error

    def reset(self) -> None:
        """Make both directions due at once."""
        self.last_sync_up_time = self.last_sync_down_time = -math.inf

    def close(self) -> None:  # noqa: B027  a synchronous syncer needs no override
        """Wait for all requests and raise the failure that was not raised yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @classmethod
    def validate_upload_dir(cls, upload_dir: str) -> bool:
        """Return True if this syncer supports *upload_dir*; a subclass may accept anything.

        Raises:
            UsageError: It does not. The message says what to write or to install.
        """
        if upload_dir.startswith("file://"):
            return True
        folder = local_folder(upload_dir)
        if folder is not None:
            raise UsageError(
                f"upload_dir={upload_dir!r} is not a URL: write {folder.absolute().as_uri()!r} for a folder, "
                "or for example 's3://bucket/folder'"
            )
        check_protocol(upload_dir)
        return True

    def status(self) -> SyncerStatus:
        """Return the state of the syncer."""
        return SyncerStatus(type(self).__name__, (("sync_period", seconds(self.sync_period)),))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sync_period={self.sync_period:g})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the status as text and as HTML; a front end shows the richest form that it supports."""
        return self.status()._repr_mimebundle_(include, exclude)

    def __getstate__(self) -> dict[str, Any]:
        # Another process's clock has another start.
        return {
            name: value for name, value in self.__dict__.items() if name != "_clock" and name not in _MOMENTS
        }


_MOMENTS = ("last_sync_up_time", "last_sync_down_time")


def is_worth_retrying(error: BaseException) -> bool:
    """Tell whether a retry may help."""
    if isinstance(error, CancelledError):
        return isinstance(error, TimedOutError)  # otherwise a caller cancelled it
    return isinstance(error, Exception) and not isinstance(error, FINAL)


def checked_period(name: str, number: object) -> float:
    """Return *number* if it is a number of seconds, 0 or more.

    Raises:
        UsageError: It is not.
    """
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not number >= 0:
        raise UsageError(f"{name}={number!r}: give seconds, 0 or more")
    return number


def checked_timeout(name: str, number: object) -> float | None:
    """Return *number* if it is a number of seconds above 0, or None.

    Raises:
        UsageError: It is neither.
    """
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < math.inf:
        raise UsageError(f"{name}={number!r}: give seconds above 0, or None for no limit")
    return number


def seconds(number: float | None) -> str:
    """Return a duration in seconds, and in larger units from one minute on.

    >>> seconds(300), seconds(None)
    ('300 s (5 min)', 'no limit')
    """
    if number is None:
        return "no limit"
    return f"{number:g} s ({duration(number)})" if 60 <= number < math.inf else f"{number:g} s"


def _error(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
