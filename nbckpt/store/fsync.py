"""Makes files and folders durable: after the return, they survive a crash of the machine.

Disk errors are raised as OSError.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from nbckpt.store.scan import is_link

_WINDOWS = sys.platform == "win32"
_SIDE_BY_SIDE = 4  # fewer files are synced before threads would have started
_MOST_THREADS = 32  # a journaling file system syncs many files about as fast as one


def sync_tree(folder: Path) -> None:
    """Make everything below a folder durable."""
    folders = list(os.walk(folder))
    files = (Path(parent, name) for parent, _, names in folders for name in names)
    sync_files(file for file in files if not is_link(file))
    sync_folders(Path(parent) for parent, _, _ in folders)


def sync_files(files: Iterable[Path]) -> None:
    """Make the contents of files durable, in about the time of one."""
    _each(sync_file, files)


def sync_folders(folders: Iterable[Path]) -> None:
    """Make the names in folders durable, in about the time of one."""
    _each(sync_folder, folders)


def sync_folder(folder: Path) -> None:
    """Make the names in *folder* durable. Does nothing on Windows, which cannot sync a folder."""
    if _WINDOWS:
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(file: Path) -> None:
    """Make the contents of a file durable."""
    # Windows flushes only a file that is open for writing.
    fd = os.open(file, os.O_RDWR if _WINDOWS else os.O_RDONLY)
    try:
        sync(fd)
    finally:
        os.close(fd)


def sync(fd: int) -> None:
    """Make the contents of an open file durable."""
    if sys.platform == "darwin":  # on macOS, fsync alone leaves the bytes in the drive's cache
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def _each(work: Callable[[Path], None], paths: Iterable[Path]) -> None:
    """Do the work for each path, in parallel if there are many and threads can start."""
    every = list(paths)
    if len(every) < _SIDE_BY_SIDE or not _side_by_side(work, every):
        for path in every:
            work(path)


def _side_by_side(work: Callable[[Path], None], paths: list[Path]) -> bool:
    """Do the work in threads and return True; return False if threads cannot start."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(len(paths), _MOST_THREADS), "nbckpt-files") as threads:
        try:
            futures = [threads.submit(work, path) for path in paths]
        except RuntimeError:  # no threads in a browser, nor while the interpreter shuts down
            return False
        for future in futures:
            future.result()
    return True
