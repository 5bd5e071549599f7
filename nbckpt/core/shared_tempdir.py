"""Lending: one temporary folder for all who need the same contents at the same time.

Every user of a folder holds a lock on a file of its own beside it. Whoever comes finds out which users
still live by trying those locks, which the system releases when a process dies; the last to leave
removes the folder, and whoever comes after a crash removes what the crash left.
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
    _sweep(root)
    folder, users = root / key, root / f"{key}.users"
    # The block may end in another thread than the one where it began.
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


def _root() -> Path:
    """Return the folder for temporary files that nobody else may enter."""
    me = os.getuid() if os.name != "nt" else 0  # Windows has a temporary folder for each user
    root = Path(tempfile.gettempdir()) / f"nbckpt-{me}"
    with suppress(FileExistsError):
        root.mkdir(mode=0o700)
    about = root.lstat()
    if os.name != "nt" and (not stat.S_ISDIR(about.st_mode) or about.st_uid != me):
        # Someone else made something of our name first: do not put anything into it.
        return Path(tempfile.mkdtemp(prefix="nbckpt-"))
    return root


def _entry(root: Path, key: str, timeout: float = -1) -> BaseFileLock:
    """Return the lock under which users of *key* come and go."""
    return file_lock(root / f"{key[:2]}.lock", timeout=timeout)


def _sweep(root: Path) -> None:
    """Remove what processes that died have left behind."""
    for users in root.glob("*.users"):
        key = users.name.removesuffix(".users")
        with suppress(Timeout), _entry(root, key, timeout=0):
            if not _living(users):
                _remove(root, key)


def _remove(root: Path, key: str) -> None:
    """Remove a folder that nobody uses, and one that was not finished."""
    for left in (root / key, root / f"{key}.half", root / f"{key}.users"):
        shutil.rmtree(left, ignore_errors=True)


def _living(users: Path) -> bool:
    """Tell whether anyone still uses the folder, and remove the traces of those who died."""
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
