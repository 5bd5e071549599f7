"""LocalStore: a store in a folder, durable across `kill -9` and power loss."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path

from nbckpt.errors import NbckptError, NotFoundError, RefusedError, StoreError, UsageError
from nbckpt.store.base import STAGING, Data, Store, check_key
from nbckpt.store.files import make_folder, only_files, rename, staged, sweep, write_new
from nbckpt.store.fsync import sync_folder
from nbckpt.store.scan import OUTSIDE, can_be_named, check_path, link_outside, scan

_REFUSALS = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_FILE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


class LocalStore(Store):
    """One file per key below *folder*, which is made at the first `put`.

    A file is written under a unique name in the staging folder and synced. Then it is renamed, and its
    folder is synced. A crash at any point leaves the key unchanged or whole.

    Examples:
        >>> store = nbckpt.store.LocalStore("bytes")
        >>> store.put("a/b", b"data")
        >>> store.path("a/b").read_bytes()
        b'data'
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        check_path(folder)
        self.folder = Path(folder).absolute()
        self.url = str(self.folder)
        self._staging = self.folder / STAGING
        self._swept = False

    def path(self, key: str) -> Path:
        """See `Store.path`. The file need not exist.

        Raises:
            RefusedError: A link on the path leads out of the store.
        """
        parts = check_key(key).split("/")
        if parts[0] == STAGING or not can_be_named(key):
            raise UsageError(f"{key!r} cannot be a file name in {self.url}")
        self._check_inside(key)
        return self.folder.joinpath(*parts)

    def _check_inside(self, path: str) -> None:
        if link := link_outside(self.folder, path):
            self._refuse(link)

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """See `Store.get`."""
        with self._explained("read", key), open(self.path(key), "rb", 0, opener=only_files) as file:
            if start:
                file.seek(start)
            if stop is None:
                return file.readall()
            # Reading allocates the requested size at once, which may be far more than the file has.
            there = min(stop, os.fstat(file.fileno()).st_size)
            return _read_up_to(file.fileno(), max(0, there - start))

    def put(self, key: str, data: Data) -> None:
        """See `Store.put`."""
        with self._staged(key) as stage:
            write_new(stage, data)

    def put_note(self, key: str, data: Data) -> None:
        """See `Store.put_note`. Nothing is synced."""
        target = self.path(key)
        with self._explained("write", key):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                write_new(target, data, synced=False)
            except FileExistsError:
                self.put(key, data)

    def copy(self, source: str, target: str) -> None:
        """See `Store.copy`. Both keys share one file, because the bytes of a key never change in place."""
        try:
            with self._staged(target) as stage:
                os.link(self.path(source), stage)
        except NotFoundError:
            raise
        except (StoreError, AttributeError):  # this file system or platform has no hard links
            super().copy(source, target)

    def move(self, source: str, target: str) -> None:
        """See `Store.move`."""
        before, after = self.path(source), self.path(target)
        with self._explained("move", source):
            make_folder(after.parent)
            _rename(before, after)
            for folder in (after.parent, before.parent):
                sync_folder(folder)

    @contextmanager
    def _staged(self, key: str) -> Iterator[Path]:
        """Lend a path to the block. The file that the block makes there becomes the key."""
        target = self.path(key)
        with self._explained("write", key):
            self._sweep_once()
            with staged(target, self._staging, _rename) as stage:
                yield stage

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

    def settle(self, folder: str) -> None:
        """See `Store.settle`."""
        with self._explained("sync", folder), suppress(FileNotFoundError):
            sync_folder(self.path(folder))

    def _entries(self, prefix: str) -> list[tuple[str, os.DirEntry[str]]]:
        """Return the keys that begin with *prefix*, sorted, each with its file."""
        folder = prefix.rpartition("/")[0]
        if folder:
            self.path(folder)  # raises if the folder leads out of the store

        def refuse(path: str, why: str) -> None:
            # Listing the whole store also meets folders of the user, which may contain any links.
            if why == OUTSIDE and (folder or "/" not in path):
                self._refuse(path)

        with self._explained("list", folder or "/"):
            files = scan(self.folder, refuse, skip=STAGING.__eq__, prefix=prefix)
            keys = [file for file in files if file[0].startswith(prefix) and file[0][-1] != "/"]
            return sorted(keys, key=itemgetter(0))

    def _refuse(self, path: str) -> None:
        raise RefusedError(
            f"{path!r} in {self.url} is refused: {OUTSIDE}. Remove it, or move the whole store"
        )

    def _sweep_once(self) -> None:
        """Remove old leftovers of killed writers from the staging folder."""
        self._check_inside(STAGING)
        make_folder(self._staging)
        if not self._swept:
            self._swept = True
            sweep(self._staging)

    @contextmanager
    def _explained(self, action: str, key: str) -> Iterator[None]:
        """Turn an OSError into an nbckpt error that names the request and says what to do."""
        try:
            yield
        except NbckptError:
            raise
        except OSError as error:
            if action in {"read", "move"} and isinstance(error, _NO_FILE):
                raise NotFoundError(f"no {key!r} in {self.url}") from None
            reason = error.strerror or str(error)
            kind = RefusedError if error.errno in _REFUSALS else StoreError
            raise kind(f"cannot {action} {key!r} in {self.url}: {reason}{_advice(error, action)}") from error


def _rename(staged: Path, target: Path) -> None:
    """Rename a file to its final name, even if empty folders occupy that name."""
    try:
        rename(staged, target)
    except (IsADirectoryError, PermissionError):  # Windows raises the second
        if not target.is_dir():
            raise
        for folder, _, _ in os.walk(target, topdown=False):
            Path(folder).rmdir()
        rename(staged, target)


def _read_up_to(fd: int, size: int) -> bytes:
    """Read *size* bytes, or as many as there are."""
    first = os.read(fd, size)
    if len(first) == size or not first:
        return first
    chunks = [first]
    missing = size - len(first)
    while missing and (chunk := os.read(fd, missing)):
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)


def _advice(error: OSError, action: str) -> str:
    if error.errno in {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}:
        return ". Free some space (`%ckpt rm`, `%ckpt gc`) and try again; what was saved before is whole"
    if error.errno in _REFUSALS:
        verb = "read" if action == "read" else "write to"
        return f". Choose a folder that you may {verb} (NBCKPT_STORE)"
    return ""
