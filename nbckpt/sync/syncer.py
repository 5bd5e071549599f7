"""Syncer: what brings a folder to remote storage and back, and what all of them are given.

The interface is that of the syncers that people have written already: a subclass of theirs needs another
import and nothing else.
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
    """How a syncer stands.

    Attributes:
        name: Its class.
        settings: Its settings, as names and words.
        running: What it does now, in words; empty for nothing.
        progress: How far that is.
        waiting: What comes next.
        failures: Why something is not where it should be.
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
        notes = [f"then: {it}" for it in self.waiting] + [f"failed: {it}" for it in self.failures]
        settings = Table("Settings", (Column("setting", code=True), Column("value")), self.settings)
        return Page(f"{self.name}: {doing}", (settings,), tuple(notes))


class Syncer(ABC):
    """Brings folders to remote storage and back; subclass it to use a tool of your own.

    A subclass gives `sync_up`, `sync_down` and `delete`. Where these return before the work is done, it
    gives `wait` and `retry` too. One object serves all trials of an experiment, one call at a time.

    Args:
        sync_period: For so many seconds after one that began well, `sync_up_if_needed` and
            `sync_down_if_needed` do nothing.
        clock: Tells seconds that only grow.

    Attributes:
        last_sync_up_time: When the last one that went well began, by the clock.
        last_sync_down_time: The same for downloads.
    """

    # Here, so that a subclass that does not call this __init__ has them too.
    sync_period: float = PERIOD_S
    last_sync_up_time: float = -math.inf
    last_sync_down_time: float = -math.inf
    _clock: Callable[[], float] = time.monotonic

    def __init__(self, sync_period: float = PERIOD_S, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.sync_period = checked_period("sync_period", sync_period)
        self._clock = clock

    @abstractmethod
    def sync_up(self, local_dir: str, remote_dir: str, exclude: list[str] | None = None) -> bool:
        """Bring a remote folder up to what a local one holds, perhaps in the background.

        Args:
            local_dir: The local folder.
            remote_dir: The URL of the remote one.
            exclude: Patterns of what is left out, such as `*.tmp`.

        Returns:
            Whether that has begun.
        """

    @abstractmethod
    def sync_down(self, remote_dir: str, local_dir: str, exclude: list[str] | None = None) -> bool:
        """Bring a local folder up to what a remote one holds; otherwise as `sync_up`."""

    @abstractmethod
    def delete(self, remote_dir: str) -> bool:
        """Remove a remote folder, perhaps in the background; tell whether that has begun."""

    def retry(self) -> None:  # noqa: B027  a syncer that works at once has nothing to do here
        """Do again what failed last."""

    def wait(self) -> object:  # noqa: B027  the same
        """Wait for what goes on in the background, and raise why it failed if it did."""

    def sync_up_if_needed(self, local_dir: str, remote_dir: str, exclude: list[str] | None = None) -> bool:
        """Call `sync_up` if the last that went well is a period ago; tell whether that has begun."""
        return self._if_needed(
            "last_sync_up_time",
            partial(self.sync_up, local_dir=local_dir, remote_dir=remote_dir, exclude=exclude),
        )

    def sync_down_if_needed(self, remote_dir: str, local_dir: str, exclude: list[str] | None = None) -> bool:
        """Call `sync_down` if the last that went well is a period ago; tell whether that has begun."""
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
        """Wait, and where that fails, do it again, until it was tried *max_retries* times.

        Args:
            max_retries: How often in all.
            backoff_s: How many seconds pass before the second time, at least; later times are further apart.

        Raises:
            UsageError: The numbers cannot be.
            StoreError: It failed every time; the cause says how.
            NotFoundError: What trying again does not help, and the like.
        """
        if max_retries < 1:
            raise UsageError(f"max_retries={max_retries}: give at least 1")
        checked_period("backoff_s", backoff_s)
        import tenacity  # and asyncio with it, which takes long

        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(max_retries),
            wait=tenacity.wait_exponential(backoff_s, _LONGEST_BACKOFF_S)
            + tenacity.wait_random(0, backoff_s),
            retry=tenacity.retry_if_exception(is_worth_retrying),
            before_sleep=lambda state: _log.warning("%s; it is tried again", _error(state)),
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

    def close(self) -> None:  # noqa: B027  a syncer that works at once has nothing to do here
        """Wait for what was asked for, and raise the failure that nobody has heard of."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @classmethod
    def validate_upload_dir(cls, upload_dir: str) -> bool:
        """Tell that this syncer reaches *upload_dir*; a subclass may accept anything.

        Raises:
            UsageError: It does not: the message says what to write or to install.
        """
        if upload_dir.startswith("file://"):
            return True
        folder = local_folder(upload_dir)
        if folder is not None:
            raise UsageError(
                f"upload_dir={upload_dir!r} is no URL: write {folder.absolute().as_uri()!r} for a folder, "
                "or for example 's3://bucket/folder'"
            )
        check_protocol(upload_dir)
        return True

    def status(self) -> SyncerStatus:
        """Return how it stands."""
        return SyncerStatus(type(self).__name__, (("sync_period", seconds(self.sync_period)),))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sync_period={self.sync_period:g})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return how it stands as text and as HTML; a front end shows the best that it can."""
        return self.status()._repr_mimebundle_(include, exclude)

    def __getstate__(self) -> dict[str, Any]:
        # Another process's clock began elsewhere.
        return {name: it for name, it in self.__dict__.items() if name != "_clock" and name not in _MOMENTS}


_MOMENTS = ("last_sync_up_time", "last_sync_down_time")


def is_worth_retrying(error: BaseException) -> bool:
    """Tell whether trying again may help."""
    if isinstance(error, CancelledError):
        return isinstance(error, TimedOutError)  # else somebody does not want it
    return isinstance(error, Exception) and not isinstance(error, FINAL)


def checked_period(name: str, number: object) -> float:
    """Return *number* where it is seconds: 0 or more.

    Raises:
        UsageError: It is not.
    """
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not number >= 0:
        raise UsageError(f"{name}={number!r}: give seconds, 0 or more")
    return number


def checked_timeout(name: str, number: object) -> float | None:
    """Return *number* where it is seconds above 0, or None.

    Raises:
        UsageError: It is not.
    """
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < math.inf:
        raise UsageError(f"{name}={number!r}: give seconds above 0, or None for no limit")
    return number


def seconds(number: float | None) -> str:
    """Return a duration as it was given and as people read it.

    >>> seconds(300), seconds(None)
    ('300 s (5 min)', 'no limit')
    """
    if number is None:
        return "no limit"
    return f"{number:g} s ({duration(number)})" if 60 <= number < math.inf else f"{number:g} s"


def _error(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
