"""Locks: files that one process holds at a time, and that are released if the process dies."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock

Timeout = TimeoutError
"""The error if another process holds the lock. The error class of filelock is a subclass."""

ENDS_WITH_PROCESS = sys.platform != "emscripten"  # see docs/decisions/0039
"""Whether a dying process releases its locks. In a browser, a lock file would outlive the page."""


def file_lock(path: Path, *, timeout: float = -1, thread_local: bool = True) -> BaseFileLock:
    """Return the lock for a path, not yet acquired.

    In a browser one process owns all files. There the lock lies among the temporary files, which are in
    memory and end with the page.

    Args:
        path: The lock file.
        timeout: How long to wait for the lock, in seconds. A negative number waits forever.
        thread_local: Whether each thread acquires the lock separately.
    """
    with warnings.catch_warnings():
        # In a browser, filelock warns. The docstring says why that is safe.
        warnings.simplefilter("ignore", UserWarning)
        from filelock import FileLock  # imports asyncio too; see docs/decisions/0013
    if not (ENDS_WITH_PROCESS or path.is_relative_to(tempfile.gettempdir())):
        name = hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()
        path = Path(tempfile.gettempdir()) / f"nbckpt-{name}.lock"
    return FileLock(path, timeout=timeout, is_singleton=False, thread_local=thread_local)
