"""Claims: the one process that runs an experiment, or that has a tracked trial open. Others ask it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nbckpt.errors import StoreError, UsageError
from nbckpt.store.files import exists, make_folder
from nbckpt.store.locks import Timeout, file_lock

if TYPE_CHECKING:
    from filelock import BaseFileLock

_PATIENCE_S = 1.0
"""How long to wait for the lock; a process that only checks it holds it for a moment."""


class Claim:
    """A lock beside an experiment's folder. The process that runs the experiment holds it.

    The lock counts: within a process it is free after one release for each acquisition.

    Args:
        folder: The experiment's folder.
        changed: Held by the caller during `acquire` and `release`; `is_elsewhere` takes it itself.
    """

    def __init__(self, folder: Path, changed: threading.Condition) -> None:
        self._folder = folder
        self._changed = changed
        self._lock = file_lock(_lock_of(folder), thread_local=False)

    def is_elsewhere(self) -> bool:
        """Return whether another process holds the lock. Call it only while this process does not.

        Raises:
            StoreError: The disk failed, so nobody can tell.
        """
        if not exists(Path(self._lock.lock_file)):
            return False
        try:
            with self._changed, self._lock.acquire(timeout=0):
                return False
        except Timeout:
            return True
        except OSError:
            return False  # nobody here can run an experiment in a read-only folder

    def acquire(self) -> None:
        """Take the lock; if this process holds it already, count one more.

        Raises:
            UsageError: Another process runs the experiment.
            StoreError: The disk failed.
        """
        try:
            make_folder(self._folder.parent)
            self._lock.acquire(timeout=_PATIENCE_S)
        except Timeout:
            name = self._folder.name
            raise UsageError(
                f"{name!r} is run by another kernel or process. Pause it first, with "
                f"%ckpt pause {name}, or choose another name"
            ) from None
        except OSError as error:
            raise _cannot_lock(self._folder, error) from error

    def release(self) -> None:
        """Release the lock once."""
        self._lock.release()


class OpenClaims:  # see docs/decisions/0083
    """The tracked trials that this process has open, each with a lock beside the experiment's folder.

    Call `acquire` only while this process holds the experiment's `Claim`: then no trial is opened twice.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks: dict[str, BaseFileLock] = {}

    def acquire(self, trial: str) -> None:
        """Take the lock of a trial, if this process does not hold it already.

        Raises:
            UsageError: Another process has the trial open.
            StoreError: The disk failed.
        """
        if trial in self._locks:
            return
        lock = file_lock(self._folder.parent / f".{self._folder.name}.{trial}.open", thread_local=False)
        try:
            lock.acquire(timeout=_PATIENCE_S)
        except Timeout:
            raise UsageError(open_elsewhere(self._folder.name, trial)) from None
        except OSError as error:
            raise StoreError(f"cannot lock {lock.lock_file!r}: {error.strerror or error}") from error
        self._locks[trial] = lock

    def release(self, *trials: str) -> None:
        """Release the locks of these trials, by default of all."""
        claim = file_lock(_lock_of(self._folder))
        with ExitStack() as stack:
            with suppress(Timeout, OSError):  # somebody opens a trial just now: the files stay
                stack.enter_context(claim.acquire(timeout=0))
            for trial in trials or [*self._locks]:
                if lock := self._locks.pop(trial, None):
                    lock.release()
                    if claim.is_locked:
                        with suppress(OSError):
                            Path(lock.lock_file).unlink(missing_ok=True)

    def elsewhere(self) -> list[str]:
        """Return the trials that other processes have open."""
        return [trial for trial in _open_in(self._folder) if trial not in self._locks]


def open_elsewhere(experiment: str, trial: str) -> str:
    """Return the message for somebody who wants to open a trial that another process has open."""
    return (
        f"{experiment}/{trial} is open in another kernel or process. Pause it first, with %ckpt pause "
        f"{experiment}/{trial}, or open a new trial"
    )


@contextmanager
def at_rest(folder: Path, timeout: float) -> Iterator[None]:
    """Hold the lock of an experiment during the block, so that no process starts to run it.

    Raises:
        Timeout: A process runs it, or has one of its trials open.
        StoreError: The folder around it is read-only, or the disk failed.
    """
    lock = file_lock(_lock_of(folder), timeout=timeout)
    try:
        lock.acquire()
    except Timeout:
        raise
    except OSError as error:
        raise _cannot_lock(folder, error) from error
    try:
        if _open_in(folder):
            raise Timeout
        yield
    finally:
        lock.release()


def _cannot_lock(folder: Path, error: OSError) -> StoreError:
    return StoreError(f"cannot lock {str(folder)!r}: {error.strerror or error}")


def _lock_of(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.lock"


def _open_in(folder: Path) -> list[str]:
    """Return the trials of an experiment whose locks are held, by this process or another one."""
    pattern = re.compile(rf"\.{re.escape(folder.name)}\.(t[0-9]{{1,18}})\.open")
    names: list[str] = []
    with suppress(OSError):
        for file in folder.parent.iterdir():
            if match := pattern.fullmatch(file.name):
                try:
                    with file_lock(file, timeout=0):
                        pass
                except Timeout:
                    names.append(match[1])
    return sorted(names, key=lambda name: int(name[1:]))
