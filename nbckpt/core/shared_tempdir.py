"""Shared temporary folders: one folder for all users that need the same contents at the same time.

Every user of a folder holds a lock on its own file beside the folder. A new user finds the living users by
trying those locks, which the system releases when a process dies. The last user to leave removes the folder.
After a crash, the next user removes the leftovers.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nbckpt.store.locks import Timeout, file_lock

if TYPE_CHECKING:
    from filelock import BaseFileLock


def new_folder() -> Path:
    """Return a new temporary folder that belongs to the user."""
    return Path(tempfile.mkdtemp(prefix="checkpoint-", dir=user_folder()))


@contextmanager
def lend(key: str, fill: Callable[[Path], None]) -> Iterator[Path]:
    """Provide the folder called *key* for the block. The first user has it filled.

    Args:
        key: The folder's name. Equal keys must mean equal contents.
        fill: Makes the folder, all of it or nothing.
    """
    root = user_folder()
    _sweep(root)
    folder, users = root / key, root / f"{key}.users"
    # The block may end in a different thread from the one where it began.
    mine = file_lock(users / uuid.uuid4().hex, thread_local=False)
    with _entry(root, key):
        if not _living(users):
            _remove(root, key)
        users.mkdir(exist_ok=True)
        mine.acquire()
        try:
            if not folder.exists():
                half = root / f"{key}.half"
                half.mkdir()
                fill(half / key)
                (half / key).rename(folder)
                half.rmdir()
        except BaseException:
            _go(root, key, mine)
            raise
    try:
        yield folder
    finally:
        with _entry(root, key):
            _go(root, key, mine)


def user_folder() -> Path:
    """Return the folder for temporary files that only this user can enter."""
    me = os.getuid() if os.name != "nt" else 0  # Windows has a temporary folder for each user
    root = Path(tempfile.gettempdir()) / f"nbckpt-{me}"
    with suppress(FileExistsError):
        root.mkdir(mode=0o700)
    about = root.lstat()
    if os.name != "nt" and (not stat.S_ISDIR(about.st_mode) or about.st_uid != me):
        # Somebody else made a folder of this name first, so nothing may be put into it.
        return Path(tempfile.mkdtemp(prefix="nbckpt-"))
    return root


def _entry(root: Path, key: str, timeout: float = -1) -> BaseFileLock:
    """Return the lock that users of *key* hold while they enter or leave."""
    return file_lock(root / f"{key[:2]}.lock", timeout=timeout)


def _sweep(root: Path) -> None:
    """Remove the leftovers of processes that died."""
    for users in root.glob("*.users"):
        key = users.name.removesuffix(".users")
        with suppress(Timeout), _entry(root, key, timeout=0):
            if not _living(users):
                _remove(root, key)


def _remove(root: Path, key: str) -> None:
    """Remove a folder that nobody uses, or that was not finished."""
    for left in (root / key, root / f"{key}.half", root / f"{key}.users"):
        shutil.rmtree(left, ignore_errors=True)


def _living(users: Path) -> bool:
    """Tell whether a process still uses the folder. Remove the lock files of dead processes."""
    traces = list(users.iterdir()) if users.exists() else []
    living = [trace for trace in traces if not _dead(trace)]
    return bool(living)


def _dead(trace: Path) -> bool:
    lock = file_lock(trace, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    _leave(lock)
    return True


def _go(root: Path, key: str, mine: BaseFileLock) -> None:
    _leave(mine)
    if not _living(root / f"{key}.users"):
        _remove(root, key)


def _leave(lock: BaseFileLock) -> None:
    lock.release()
    Path(lock.lock_file).unlink(missing_ok=True)
