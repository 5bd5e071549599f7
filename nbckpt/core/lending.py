"""Lending: one temporary folder for all who need the same contents at the same time.

Every user of a folder holds a lock on a file of its own beside it. Whoever comes finds out which users
still live by trying those locks, which the system releases when a process dies; the last to leave
removes the folder, and whoever comes after a crash removes what the crash left.
"""

from __future__ import annotations

import getpass
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


def new_folder() -> Path:
    """Return a new folder of the user's own for temporary files."""
    return Path(tempfile.mkdtemp(prefix="checkpoint-", dir=_root()))


@contextmanager
def lend(key: str, fill: Callable[[Path], None]) -> Iterator[Path]:
    """Lend the folder called *key* for the block; whoever comes first has it filled.

    Args:
        key: Equal for equal contents only; the folder's name.
        fill: Makes the folder, whole or not at all.
    """
    root = _root()
    folder, users = root / key, root / f"{key}.users"
    mine = FileLock(users / uuid.uuid4().hex, is_singleton=False)
    with _entry(root, key):
        users.mkdir(exist_ok=True)
        if not _living(users):
            shutil.rmtree(folder, ignore_errors=True)
        mine.acquire()
        try:
            if not folder.exists():
                fill(folder)
        except BaseException:
            _leave(mine)
            raise
    try:
        yield folder
    finally:
        with _entry(root, key):
            _leave(mine)
            if not _living(users):
                shutil.rmtree(folder, ignore_errors=True)
                shutil.rmtree(users, ignore_errors=True)


def _root() -> Path:
    """Return the folder for temporary files that nobody else may enter."""
    root = Path(tempfile.gettempdir()) / f"nbckpt-{getpass.getuser()}"
    root.mkdir(mode=0o700, exist_ok=True)
    if os.name != "nt" and root.stat().st_uid != os.getuid():
        # Someone else made a folder of our name first: do not put anything into it.
        return Path(tempfile.mkdtemp(prefix="nbckpt-"))
    return root


def _entry(root: Path, key: str) -> FileLock:
    """Return the lock under which users of *key* come and go."""
    return FileLock(root / f"{key[:2]}.lock", is_singleton=False)


def _living(users: Path) -> bool:
    """Tell whether anyone still uses the folder, and remove the traces of those who died."""
    return any(not _dead(trace) for trace in list(users.iterdir()))


def _dead(trace: Path) -> bool:
    lock = FileLock(trace, is_singleton=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    _leave(lock)
    return True


def _leave(lock: FileLock) -> None:
    lock.release()
    Path(lock.lock_file).unlink(missing_ok=True)
