"""Claim: the one process that runs an experiment. Other processes only look, or send it requests."""

from __future__ import annotations

import threading
from pathlib import Path

from nbckpt.errors import StoreError, UsageError
from nbckpt.store.files import make_folder
from nbckpt.store.locks import Timeout, file_lock

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
        self._lock = file_lock(folder.parent / f".{folder.name}.lock", thread_local=False)

    def is_elsewhere(self) -> bool:
        """Return whether another process holds the lock. Call it only while this process does not."""
        if not Path(self._lock.lock_file).exists():
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
            raise StoreError(f"cannot lock {str(self._folder)!r}: {error.strerror or error}") from error

    def release(self) -> None:
        """Release the lock once."""
        self._lock.release()
