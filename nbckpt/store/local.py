"""LocalStore: a store in a folder, durable across `kill -9` and power loss."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path

from nbckpt.errors import NbckptError, NotFoundError, RefusedError, StoreError, UsageError
from nbckpt.store.base import STAGING, Data, Store, check_key, pieces_of
from nbckpt.store.cancel import wanted

_STALE_S = 24 * 3600
_MOST_PARTS = 512  # POSIX promises room for 1024 buffers in one writev; half of it is as fast
_BATCH = 256 << 10  # what is copied on its way is in memory only so long, and still in the cache
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_REFUSALS = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_FILE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
_WINDOWS = sys.platform == "win32"


class LocalStore(Store):
    """One file per key below *folder*, which is made at the first `put`.

    A file is written under a unique name in the staging folder, synced, renamed, and the folder
    synced, in this order: a crash at any point leaves the key as it was or whole.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()
        self.url = str(self.folder)
        self._staging = self.folder / STAGING
        self._swept = False

    def path(self, key: str) -> Path:
        """See `Store.path`; the file need not exist."""
        parts = check_key(key).split("/")
        if parts[0] == STAGING or not _can_name_a_file(key):
            raise UsageError(f"{key!r} cannot be a file name in {self.url}")
        return self.folder.joinpath(*parts)

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """See `Store.get`."""
        with self._explained("read", key), self.path(key).open("rb", buffering=0) as file:
            if start:
                file.seek(start)
            if stop is None:
                return file.readall()
            return _read_up_to(file.fileno(), max(0, stop - start))

    def put(self, key: str, data: Data) -> None:
        """See `Store.put`."""
        self._put(key, lambda staged: _write_durably(staged, pieces_of(data)))

    def copy(self, source: str, target: str) -> None:
        """See `Store.copy`: no key's bytes are ever changed in place, so that two may share them."""
        try:
            self._put(target, lambda staged: os.link(self.path(source), staged))
        except NotFoundError:
            raise
        except (StoreError, AttributeError):  # no such links on this file system, or none at all
            super().copy(source, target)

    def _put(self, key: str, write: Callable[[Path], None]) -> None:
        """Let *write* make a file, and give it its name."""
        target = self.path(key)
        with self._explained("write", key):
            self._sweep_once()
            make_folder(target.parent)
            staged = self._staging / uuid.uuid4().hex
            try:
                write(staged)
                _rename(staged, target)
            except BaseException:
                with suppress(OSError):
                    staged.unlink(missing_ok=True)
                raise
            sync_folder(target.parent)

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        with self._explained("look at", key):
            return self.path(key).is_file()

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`."""
        yield from (key for key, _ in self._entries(prefix))

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """See `Store.sizes`."""
        for key, entry in self._entries(prefix):
            with self._explained("look at", key), suppress(FileNotFoundError):
                yield key, entry.stat().st_size

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        file = self.path(key)
        with self._explained("delete", key), suppress(NotADirectoryError):
            if not file.is_dir():
                file.unlink(missing_ok=True)

    def _entries(self, prefix: str) -> list[tuple[str, os.DirEntry[str]]]:
        """Return the keys that begin with *prefix*, in order, with the files that hold them."""
        folder = prefix.rpartition("/")[0]
        if folder:
            self.path(folder)  # refused where it leads outside
        with self._explained("list", folder or "/"):
            if self.folder.is_file():
                raise NotADirectoryError(errno.ENOTDIR, f"{self.folder} is a file where a folder should be")
            return sorted((it for it in self._walk(folder) if it[0].startswith(prefix)), key=itemgetter(0))

    def _walk(self, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield what lies below *folder*; a folder that vanishes meanwhile has nothing."""
        try:
            entries = list(os.scandir(self.folder / folder))
        except FileNotFoundError:
            return
        except NotADirectoryError:
            if not folder:
                raise
            return
        for entry in entries:
            key = f"{folder}/{entry.name}" if folder else entry.name
            if key == STAGING:
                continue
            if entry.is_dir():
                yield from self._walk(key)
            else:
                yield key, entry

    def _sweep_once(self) -> None:
        """Remove what killed writers left in the staging folder long ago."""
        make_folder(self._staging)
        if self._swept:
            return
        self._swept = True
        for entry in os.scandir(self._staging):
            with suppress(FileNotFoundError):
                if time.time() - entry.stat().st_mtime > _STALE_S:
                    Path(entry.path).unlink()

    @contextmanager
    def _explained(self, action: str, key: str) -> Iterator[None]:
        """Turn an OSError into ours, with what was asked and what to do."""
        try:
            yield
        except NbckptError:
            raise
        except OSError as error:
            if action == "read" and isinstance(error, _NO_FILE):
                raise NotFoundError(f"no {key!r} in {self.url}") from None
            reason = error.strerror or str(error)
            kind = RefusedError if error.errno in _REFUSALS else StoreError
            raise kind(f"cannot {action} {key!r} in {self.url}: {reason}{_advice(error)}") from error


def sync_folder(folder: Path) -> None:
    """Make the names in *folder* durable, where the system knows how (not on Windows)."""
    if _WINDOWS:
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(file: Path) -> None:
    """Make what a file holds durable."""
    fd = os.open(file, os.O_RDWR if _WINDOWS else os.O_RDONLY)  # Windows flushes only what it may write
    try:
        _sync(fd)
    finally:
        os.close(fd)


def _can_name_a_file(key: str) -> bool:
    try:
        os.fsencode(key)
    except UnicodeEncodeError:
        return False
    return not (_WINDOWS and any(c in key for c in '\\:*?"<>|'))


def exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step, where the system can (Linux); tell whether it did."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    done = rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return bool(done == 0)


def make_folder(folder: Path) -> None:
    """Make *folder* and its parents durably."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir()
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is a file where a folder should be")
    sync_folder(folder.parent)


def _rename(staged: Path, target: Path) -> None:
    """Give a file its name, which folders may have that hold nothing any more."""
    try:
        staged.replace(target)
    except (IsADirectoryError, PermissionError):  # the second is what Windows says
        if not target.is_dir():
            raise
        for folder, _, _ in os.walk(target, topdown=False):
            Path(folder).rmdir()
        staged.replace(target)


def _write_durably(file: Path, pieces: Iterable[memoryview]) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        for batch in _batches(pieces):
            _write_all(fd, batch)
        _sync(fd)
        wanted().check()
    finally:
        os.close(fd)


def _batches(pieces: Iterable[memoryview]) -> Iterator[list[memoryview]]:
    """Yield the pieces in lists that are written with one call each."""
    batch: list[memoryview] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece)
        if len(batch) == _MOST_PARTS or size >= _BATCH:
            yield batch
            batch, size = [], 0
    yield batch


def _write_all(fd: int, views: list[memoryview]) -> None:
    """Write all of *views*; the system may take less than it is given."""
    while views:
        written = os.write(fd, views[0]) if _WINDOWS else os.writev(fd, views)
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if views and written:
            views[0] = views[0][written:]


def _sync(fd: int) -> None:
    if sys.platform == "darwin":  # fsync alone leaves the bytes in the drive's own cache there
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def _read_up_to(fd: int, size: int) -> bytes:
    """Read *size* bytes, or what there is until the end."""
    first = os.read(fd, size)
    if len(first) == size or not first:
        return first
    chunks = [first]
    missing = size - len(first)
    while missing and (chunk := os.read(fd, missing)):
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)


def _advice(error: OSError) -> str:
    if error.errno in {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}:
        return ". Free some space (`%ckpt rm`, `%ckpt gc`) and try again; what was saved before is whole"
    if error.errno in _REFUSALS:
        return ". Choose a folder that you may write to (NBCKPT_STORE)"
    return ""
