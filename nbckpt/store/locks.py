"""Locks: files that one process holds at a time, and that are free again when it died."""

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
"""What acquiring a lock raises that somebody else holds; filelock's own error is one of these."""

_ENDS_WITH_PROCESS = sys.platform != "emscripten"  # see docs/decisions/0039
"""Whether a process that dies lets go of its locks. In a browser a lock file would outlive the page."""


def file_lock(path: Path, *, timeout: float = -1, thread_local: bool = True) -> BaseFileLock:
    """Return the lock of a path, which nobody holds yet.

    In a browser, where one process has all files to itself, it lies among the temporary files, which are
    in memory and go with the page.

    Args:
        path: Where it is.
        timeout: How long to wait for it, in seconds; negative for as long as it takes.
        thread_local: Whether each thread holds it for itself.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # in a browser it warns, see above
        from filelock import FileLock  # which takes asyncio along; see docs/decisions/0013
    if not (_ENDS_WITH_PROCESS or path.is_relative_to(tempfile.gettempdir())):
        name = hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()
        path = Path(tempfile.gettempdir()) / f"nbckpt-{name}.lock"
    return FileLock(path, timeout=timeout, is_singleton=False, thread_local=thread_local)
