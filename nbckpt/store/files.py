"""Files: the only module that writes, stages and removes local files; see also fsync.py and scan.py.

    write_file, write_files     write data that is whole and durable under its name, or absent
    write_cache                 writes a file that may be lost
    create_file                 does the same for a file whose first writer wins
    staged, writing             do the same for data that a block writes
    stage_folder, commit        fill a folder under a hidden name, then give it its final name
    staged_folder               does the same for a folder that a block fills
    rename                      gives a staged file or folder its final name
    sweep, remove, discard      remove leftovers of crashes, and data that is not needed
    only_files                  opens only regular files in a folder that somebody else made
    explained                   turns disk errors into StoreErrors that name the request

The other functions raise disk errors as OSError, because only their callers know the request.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import stat
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from nbckpt.errors import NbckptError, StoreError
from nbckpt.store.base import STAGING, Data, pieces_of
from nbckpt.store.cancel import wanted
from nbckpt.store.fsync import sync, sync_files, sync_folder, sync_folders, sync_tree
from nbckpt.store.scan import check_path, is_link

STALE_S = 24 * 3600
"""The age, in seconds, from which a hidden file counts as the leftover of a crash."""

# `sweep` removes nothing else: see docs/decisions/0052.
_OURS = re.compile(rf"{re.escape(STAGING)}-[0-9a-f]{{12}}")
_WINDOWS = sys.platform == "win32"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_DELAYS_S = (0.01, 0.03, 0.1, 0.3) if _WINDOWS else ()
_MOST_SWEEPS = 3
_BATCH = 256 << 10  # bytes on their way stay in memory only briefly, and in the CPU cache
_MOST_PARTS = 512  # POSIX promises room for 1024 buffers in one writev; half of it is as fast


def write_file(file: Path, data: Data) -> None:
    """Write *data* to a file, atomically and durably: the file holds its old bytes or all of *data*.

    Missing folders are made. After an error the file holds its old bytes. There is one exception: if only
    the sync of its folder failed, the file holds *data*, and a crash of the machine may undo that.

    Raises:
        OSError: The disk failed.
        CancelledError: The work was cancelled (see cancel.py).
    """

    def write() -> None:
        with staged(file) as stage:
            write_new(stage, data)

    _despite_sweeps(write, [file.parent])


def write_files(files: Mapping[Path, Data]) -> None:
    """Write many files as `write_file` does, in about the time of one.

    After an error each file holds its old bytes or all of its data.
    """
    _despite_sweeps(lambda: _write_files(files), {file.parent for file in files})


def _write_files(files: Mapping[Path, Data]) -> None:
    stages: dict[Path, Path] = {}
    changed = {file.parent for file in files}
    try:
        for file, data in files.items():
            changed.update(_make(file.parent))
            stage = stages[file] = hidden(file.parent)
            write_new(stage, data, synced=False)
        sync_files(stages.values())
        for file, stage in stages.items():
            rename(stage, file)
    except BaseException:
        for stage in stages.values():
            discard(stage)
        raise
    sync_folders(changed)


def _despite_sweeps(write: Callable[[], None], folders: Collection[Path]) -> None:
    """Write again if a staged file is gone, and its folder is not.

    A trial that starts removes what a crash left in its folder. It cannot tell that from a file that another
    thread or process is writing there.
    """
    for _ in range(_MOST_SWEEPS):
        try:
            return write()
        except FileNotFoundError:
            if not all(folder.is_dir() for folder in folders):
                raise
    return write()


def write_cache(file: Path, data: Data) -> None:
    """Write a file that can be made again: atomically, not durably, and only if its folder exists."""
    for left in file.parent.glob(f"{file.name}-*"):  # by a writer that was killed
        discard(left)
    stage = file.with_name(f"{file.name}-{uuid.uuid4().hex[:12]}")
    try:
        write_new(stage, data, synced=False)
        rename(stage, file)
    finally:
        discard(stage)


def create_file(file: Path, data: Data) -> None:
    """Write a file that only its owner can read, unless it exists. The first of several writers wins."""
    stage = hidden(file.parent)
    make_folder(file.parent)
    try:
        write_new(stage, data, 0o600)
        try:
            os.link(stage, file)
        except FileExistsError:
            pass
        except (OSError, AttributeError):  # the file system has no links; or Python has none, as in a browser
            if not file.exists():
                rename(stage, file)
    finally:
        discard(stage)
    sync_folder(file.parent)


@contextmanager
def writing(file: Path) -> Iterator[BinaryIO]:
    """Open a file for the block. The file keeps its old bytes until the block has ended."""
    with staged(file) as stage, _create(stage) as opened:
        yield opened
        opened.flush()
        sync(opened.fileno())


@contextmanager
def staged(
    file: Path, staging: Path | None = None, publish: Callable[[Path, Path], object] | None = None
) -> Iterator[Path]:
    """Lend a hidden path to the block. The file that the block makes there, and syncs, becomes *file*.

    Args:
        file: The file. Missing folders are made.
        staging: A folder on the same disk for the unfinished file. By default the folder of *file*.
        publish: Renames its first path to its second; by default `rename`.
    """
    make_folder(file.parent)
    stage = hidden(staging or file.parent)
    try:
        yield stage
        (publish or rename)(stage, file)
    except BaseException:
        discard(stage)
        raise
    sync_folder(file.parent)


@contextmanager
def staged_folder(folder: Path) -> Iterator[Path]:
    """Make a hidden folder in *folder* for the block. It is removed afterwards, unless `commit` took it."""
    stage = stage_folder(folder)
    try:
        yield stage
    finally:
        discard(stage)


def stage_folder(folder: Path) -> Path:
    """Return a new hidden folder in *folder*, to commit or to discard."""
    make_folder(folder)
    stage = hidden(folder)
    stage.mkdir()
    return stage


def commit(stage: Path, folder: Path) -> None:
    """Give a staged folder its final name, durably, with everything in it.

    An existing folder of that name is replaced, in one step if the system can do that. After an error the
    existing folder has its name again.
    """
    sync_tree(stage)
    occupied = os.path.lexists(folder)
    if not (occupied and exchange(stage, folder)):
        aside = hidden(stage.parent)
        if occupied:
            rename(folder, aside)
        try:
            rename(stage, folder)
        except BaseException:
            if occupied:
                rename(aside, folder)
            raise
        discard(aside)
    sync_folder(folder.parent)


def rename(source: Path, target: Path, delays: Iterable[float] = _DELAYS_S) -> None:
    """Give a file or a folder the name *target*, in one step. A file of that name is replaced.

    Args:
        source: The file or folder.
        target: The new name, on the same disk.
        delays: How many seconds to wait before each further attempt while another process has *target* open.
    """
    # see docs/decisions/0068
    for delay in delays:
        with suppress(PermissionError):
            source.replace(target)
            return
        time.sleep(delay)
    source.replace(target)


def hidden(folder: Path) -> Path:
    """Return a new name in *folder* that `sweep` recognises."""
    return folder / f"{STAGING}-{uuid.uuid4().hex[:12]}"


def sweep(folder: Path, older_s: float = STALE_S) -> None:
    """Remove leftovers of crashes in *folder*: nbckpt's hidden names of at least that age, but no links.

    If *folder* itself is a link, nothing is removed. Anything that cannot be removed stays.
    """
    with suppress(OSError):
        for entry in [] if is_link(folder) else list(os.scandir(folder)):
            if _OURS.fullmatch(entry.name) and not is_link(entry.path):
                with suppress(FileNotFoundError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime >= older_s:
                        discard(Path(entry.path))


def remove(folder: Path) -> None:
    """Remove a folder atomically: readers see all of it or nothing. Of a link, remove only the link."""
    away = hidden(folder.parent)
    rename(folder, away)
    sync_folder(folder.parent)
    discard(away)


def discard(path: Path) -> None:
    """Remove a file or a folder and ignore errors. If it is a link, only the link is removed."""
    with suppress(OSError):
        if path.is_dir() and not is_link(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make *folder* and its parents durably.

    Raises:
        NotADirectoryError: A file is in the way.
    """
    for parent in _make(folder):
        sync_folder(parent)


def _make(folder: Path) -> list[Path]:
    """Make a folder and its parents, and return the folders that contain new ones."""
    if folder.is_dir():
        return []
    changed = _make(folder.parent) if folder.parent != folder else []
    with suppress(FileExistsError):
        folder.mkdir()
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is a file where a folder should be")
    return [*changed, folder.parent]


@contextmanager
def explained(action: str, path: str | os.PathLike[str], advice: str = "") -> Iterator[None]:
    """Turn an OSError in the block into a StoreError that says what cannot be done with which path.

    Raises:
        UsageError: No system call takes the path.
    """
    check_path(path)
    try:
        yield
    except NbckptError:
        raise
    except OSError as error:
        end = f". {advice}" if advice else ""
        raise StoreError(f"cannot {action} {os.fspath(path)!r}: {error.strerror or error}{end}") from error


def exists(path: Path) -> bool:
    """Tell whether there is a file, a folder or a link.

    Raises:
        StoreError: The disk failed, so nobody can tell.
    """
    with explained("read", path):
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


def only_files(path: str, flags: int) -> int:
    """Open a regular file for `open`. Anything else, such as a pipe, raises OSError and never blocks."""
    fd = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    kind = os.fstat(fd).st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):  # Python itself refuses a folder
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file")
    return fd


def exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step, if the system can (Linux). Tell whether it did."""
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    if call is None:
        return False
    done = call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return bool(done == 0)


def _create(file: Path, mode: int = 0o666) -> BinaryIO:
    """Create a file and open it for writing."""
    return open(file, "xb", opener=lambda path, flags: os.open(path, flags, mode))


def write_new(file: Path, data: Data, mode: int = 0o666, *, synced: bool = True) -> None:
    """Write a file that does not exist yet. The system may write fewer bytes than it was given."""
    with _create(file, mode) as opened:
        fd = opened.fileno()
        for views in _batches(pieces_of(data)):
            while views:
                written = os.write(fd, views[0]) if _WINDOWS else os.writev(fd, views)
                while views and written >= len(views[0]):
                    written -= len(views.pop(0))
                if views and written:
                    views[0] = views[0][written:]
        if synced:
            sync(fd)
            wanted().check()


def _batches(pieces: Iterable[memoryview]) -> Iterator[list[memoryview]]:
    """Yield the pieces in lists that one call can write."""
    batch: list[memoryview] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece)
        if len(batch) == _MOST_PARTS or size >= _BATCH:
            yield batch
            batch, size = [], 0
    yield batch
