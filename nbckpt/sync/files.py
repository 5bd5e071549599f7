"""Files: scan a local folder, read its files, and replace several files together.

Another process may change the files meanwhile. So no file is mapped into memory: a mapped file that
becomes shorter kills the process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from nbckpt.core.algorithms import of_checksum
from nbckpt.errors import UsageError
from nbckpt.store import Data, Pieces, check_key
from nbckpt.store.base import pieces_of
from nbckpt.store.files import discard, explained, hidden, rename, sweep
from nbckpt.store.fsync import sync_folders, sync_tree
from nbckpt.store.scan import can_be_named
from nbckpt.store.scan import scan as files_in
from nbckpt.sync.exclude import parents


class FileStat(NamedTuple):
    """A local file at the moment of a scan."""

    size: int
    time: int
    inode: int

    @classmethod
    def of(cls, stat: os.stat_result) -> Self:
        """Return the size, time and inode of an `os.stat` result."""
        return cls(stat.st_size, stat.st_mtime_ns, stat.st_ino)


def scan(folder: Path, excluded: Callable[[str], bool], left_out: dict[str, str]) -> dict[str, FileStat]:
    """Return the files in a folder with their sizes and times. Skip files that vanish meanwhile.

    A folder is scanned before its subfolders, so files that a document in it mentions are found there. Later
    names come first: an experiment's `t0` before its `media`, so a journal has no line without its media.
    A link to a file inside the folder counts as that file. Other links, and entries that are neither files
    nor folders, are noted in *left_out*.
    """
    stats: dict[str, FileStat] = {}
    with explained("read", folder):
        for path, entry in files_in(
            folder, left_out.__setitem__, skip=excluded, linked_folders=False, backwards=True
        ):
            with suppress(FileNotFoundError):
                if not path.endswith("/"):
                    stats[check_key(path)] = FileStat.of(entry.stat())
    return stats


def contents(file: Path, size: int) -> Data:
    """Return the first *size* bytes of a file. The bytes of a large file are read on demand.

    Raises:
        OSError: The file cannot be read or is shorter than *size*. Reading on demand may raise it too.
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
    """Return the checksum of data, with the algorithm of the checksum *like*. A cancel interrupts it.

    Raises:
        FormatError: The algorithm is not available here.
    """
    return of_checksum(like, "a file of the target").checksum(pieces_of(data))


class StagedUpdate:
    """Replace files of a folder together or not at all. The end of the `with` block commits them.

    After an error in the block the folder is as before. A folder that did not exist is removed again.

    Args:
        folder: The folder; it is made if it does not exist.

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
        """For each step, the call that reverts it."""

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
        sweep(self._folder)  # the files of killed transfers

    def seal(self) -> None:
        """Sync the staged files to disk, before they are put.

        Raises:
            StoreError: The disk failed.
        """
        with explained("write", self._folder):
            sync_tree(self._stage)

    def staged(self, number: int) -> Path:
        """Return the path of a staged file to write."""
        return self._stage / str(number)

    def put(self, staged: Path, path: str) -> None:
        """Move a staged file to its path. A file, folder or link that is in the way is moved away.

        Raises:
            StoreError: The disk failed.
            UsageError: The path cannot be a file name on this system.
        """
        target = self._at(path)
        with explained("write", target):
            for folder in reversed([self._folder / parent for parent in parents(path)]):
                if folder.is_symlink() or not folder.is_dir():
                    self._put_away(folder)
                    self._make(folder)
            self._put_away(target)
            rename(staged, target)
        self._back.append(target.unlink)

    def remove(self, path: str) -> None:
        """Remove a file, and the folders that are empty afterwards.

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
            rename(target, away)
            self._back.append(partial(away.replace, target))

    def _make(self, folder: Path) -> None:
        if not folder.is_dir():
            if folder.parent != folder:
                self._make(folder.parent)
            folder.mkdir()
            self._changed.add(folder.parent)
            self._back.append(folder.rmdir)

    def _undo(self) -> None:
        # A folder that received other files stays. A step that cannot be reverted is skipped.
        for step in reversed(self._back):
            with suppress(OSError):
                step()

    def _drop(self) -> None:
        for file in self._stage.iterdir():
            if file != self._former:
                file.unlink()
