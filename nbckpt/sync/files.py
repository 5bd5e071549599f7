"""Files: what a local folder holds, what a file held then, and files that take their places together.

The files may be somebody's who changes them meanwhile, so none is mapped into memory: a mapped file that
becomes shorter ends the process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from nbckpt.core.algorithms import of_checksum
from nbckpt.errors import NbckptError, StoreError, UsageError
from nbckpt.store import Data, Pieces, check_key
from nbckpt.store.base import pieces_of
from nbckpt.store.files import discard, hidden, sweep, sync_folders, sync_tree
from nbckpt.store.scan import can_be_named
from nbckpt.store.scan import scan as files_in
from nbckpt.sync.exclude import parents


class FileStat(NamedTuple):
    """A local file as it was when it was looked at."""

    size: int
    time: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """Return what was found."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)


def scan(folder: Path, excluded: Callable[[str], bool], left_out: dict[str, str]) -> dict[str, FileStat]:
    """Return the files in a folder with their sizes and times; what vanishes meanwhile is no matter.

    A folder is looked at before the folders in it: what a file in it tells of those can be found there.
    A link counts as the file in the folder that it points to; other links, and what is neither a file nor a
    folder, are noted in *left_out*.
    """
    found: dict[str, FileStat] = {}
    with explained("read", folder):
        for path, entry in files_in(folder, left_out.__setitem__, skip=excluded, linked_folders=False):
            with suppress(FileNotFoundError):
                if not path.endswith("/"):
                    found[check_key(path)] = FileStat.of(entry.stat())
    return found


def contents(file: Path, size: int) -> Data:
    """Return the first *size* bytes of a file; those of a large one are read when they are asked for.

    Raises:
        OSError: It cannot be read, or is shorter; also where the bytes are asked for.
    """
    data = Pieces(size, partial(_read, file))
    return data if len(data) > 1 else b"".join(data)


def _read(file: Path, start: int, stop: int) -> bytes:
    with file.open("rb", buffering=0) as opened:
        opened.seek(start)
        data = opened.read(stop - start) or b""
    if len(data) != stop - start:
        raise OSError("it became shorter while it was read")
    return data


def digest_of(data: Data, like: str) -> str:
    """Return the checksum of bytes, of the kind of another one, for as long as they are wanted.

    Raises:
        FormatError: That kind is not to be had here.
    """
    return of_checksum(like, "a file of the target").checksum(pieces_of(data))


@contextmanager
def explained(action: str, place: Path) -> Iterator[None]:
    """Turn an OSError of the disk in the block into a StoreError that names the place."""
    try:
        yield
    except NbckptError:
        raise
    except OSError as error:
        raise StoreError(f"cannot {action} {str(place)!r}: {error.strerror or error}") from error


class StagedUpdate:
    """Files that take their places in a folder together, or not at all: at the end of a `with` block.

    After an error in the block the folder is as before, and is not there if it was not.

    Args:
        folder: The folder, which is made if it is not there.

    Raises:
        StoreError: The disk failed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._stage = hidden(self._folder)
        self._former = self._stage / "former"
        self._removed: list[str] = []
        self._changed: set[Path] = set()
        self._back: list[Callable[[], object]] = []
        """What takes each step back."""

    def __enter__(self) -> Self:
        try:
            with explained("write", self._folder):
                self._make(self._former)
        except BaseException:
            self._undo()
            raise
        self._back.append(self._drop)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._undo()
            return
        try:
            with explained("write", self._folder):
                sync_folders(folder for folder in self._changed if folder.is_dir())
        except BaseException:
            self._undo()
            raise
        discard(self._stage)
        for path in self._removed:
            with suppress(OSError):
                for folder in parents(path):
                    (self._folder / folder).rmdir()
        sweep(self._folder)  # of transfers that were killed

    def seal(self) -> None:
        """Make what was written to its places durable, before it is put.

        Raises:
            StoreError: The disk failed.
        """
        with explained("write", self._folder):
            sync_tree(self._stage)

    def place(self, number: int) -> Path:
        """Return where a file can be written."""
        return self._stage / str(number)

    def put(self, staged: Path, path: str) -> None:
        """Give a file its place; what is in the way goes, be it a file, a folder or a link to one.

        Raises:
            StoreError: The disk failed.
            UsageError: No file can have this path here.
        """
        target = self._at(path)
        with explained("write", target):
            for folder in reversed([self._folder / it for it in parents(path)]):
                if folder.is_symlink() or not folder.is_dir():
                    self._put_away(folder)
                    self._make(folder)
            self._put_away(target)
            staged.replace(target)
        self._back.append(target.unlink)

    def remove(self, path: str) -> None:
        """Take a file away, and the folders that hold nothing then.

        Raises:
            StoreError: The disk failed.
        """
        with explained("remove", self._folder / path):
            self._put_away(self._at(path))
        self._removed.append(path)

    def _at(self, path: str) -> Path:
        if not can_be_named(check_key(path)):
            raise UsageError(f"{path!r} cannot be a file name in {self._folder}")
        return self._folder / path

    def _put_away(self, target: Path) -> None:
        self._changed.add(target.parent)
        if os.path.lexists(target):
            away = self._former / str(len(self._back))
            target.replace(away)
            self._back.append(partial(away.replace, target))

    def _make(self, folder: Path) -> None:
        if not folder.is_dir():
            if folder.parent != folder:
                self._make(folder.parent)
            folder.mkdir()
            self._changed.add(folder.parent)
            self._back.append(folder.rmdir)

    def _undo(self) -> None:
        # A folder that something else was put into stays, and so does what cannot be brought back.
        for step in reversed(self._back):
            with suppress(OSError):
                step()

    def _drop(self) -> None:
        for place in self._stage.iterdir():
            if place != self._former:
                place.unlink()
