"""Claim: which process runs an experiment. One at a time does; the others look, or ask that one."""

from __future__ import annotations

import threading
from pathlib import Path

from nbckpt.errors import StoreError, UsageError
from nbckpt.store.files import make_folder
from nbckpt.store.locks import Timeout, file_lock

_PATIENCE_S = 1.0
"""A process that only looks whether the experiment runs holds the lock for a moment."""


class Claim:
    """A lock beside an experiment's folder, which the process that runs the experiment holds.

    Within the process it is counted: it is free after as many releases as there were acquisitions.

    Args:
        folder: The experiment's folder.
        changed: Held by the caller while it acquires or releases; `is_elsewhere` takes it.
    """

    def __init__(self, folder: Path, changed: threading.Condition) -> None:
        self._folder = folder
        self._changed = changed
        self._lock = file_lock(folder.parent / f".{folder.name}.lock", thread_local=False)

    def is_elsewhere(self) -> bool:
        """Tell whether another process holds it. Ask only while this one does not."""
        if not Path(self._lock.lock_file).exists():
            return False
        try:
            with self._changed, self._lock.acquire(timeout=0):
                return False
        except Timeout:
            return True
        except OSError:
            return False  # a folder that only may be read is run by nobody here

    def acquire(self) -> None:
        """Take it, once more if this process has it.

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
        """Give it back, once."""
        self._lock.release()
