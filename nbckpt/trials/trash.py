"""Trash: experiments and checkpoints that `rm` removed, under hidden names beside the others, until `gc`.

    .removed~<stamp>~<path>     an experiment's folder; or a trial's checkpoint: its folder, and its record
    .deleted~<stamp>~<path>     the same, while it is being deleted

Each removal has its own stamp. In a path `~` stands for `/`. Only names change: that needs no space, so it
works on a full disk. If nbckpt is killed in the middle, everything has one of its two names.

see docs/decisions/0056
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

from nbckpt.errors import NotFoundError, StoreError, UsageError
from nbckpt.store.files import discard, exists, explained
from nbckpt.store.fsync import sync_folder
from nbckpt.store.scan import can_be_named, link_outside, size_of

_REMOVED, _DELETED = ".removed", ".deleted"
_NAME = re.compile(
    rf"({re.escape(_REMOVED)}|{re.escape(_DELETED)})~([0-9]{{8}}T[0-9]{{12}}Z-[0-9a-f]{{8}})~(.+)"
)
_PATH = re.compile(r"([^./\\][^/\\]*)(?:/(t[0-9]+)/checkpoint_0*([^/\\]+?)(\.json)?)?")


@dataclass(frozen=True)
class Removal:
    """The experiments and checkpoints that one `rm` removed.

    Attributes:
        folder: The folder of experiments.
        stamp: The time of the removal, and a random number.
        paths: Their former paths in the folder. A checkpoint's folder comes before its record. So there is
            never a folder without a record, which the trial would sweep.
    """

    folder: Path
    stamp: str
    paths: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        """The names that people use for the removed experiments and checkpoints."""
        return list(dict.fromkeys(label_of(path) for path in self.paths))

    def bring_back(self) -> None:
        """Move everything back to its path. Anything that is already back stays there.

        Raises:
            UsageError: One of the paths is in use again, or leads out of the folder through a link; nothing
                was brought back.
            NotFoundError: `gc` has deleted a part of it, or the trial no longer exists.
            StoreError: The disk failed; another try continues from there.
        """
        for path in self.paths:
            if link := _link_above(self.folder, path):
                raise UsageError(
                    f"{label_of(path)!r} cannot be brought back: {link} in {self.folder} is a link that "
                    "leads outside. Remove the link first"
                )
            if exists(self.folder / path) and exists(self._in_trash(path)):
                raise UsageError(f"{label_of(path)!r} exists again. Remove the new one first, or keep it")
        back: list[str] = []
        for path in reversed(self.paths):
            if self._is_back(path):
                continue
            try:
                move(self.folder, self._in_trash(path), self.folder / path)
                back.append(path)
            except FileNotFoundError:
                if self._is_back(path):  # another undo was faster
                    continue
                if f"{path}.json" in back:  # leave no record without its files
                    discard(self.folder / f"{path}.json")
                raise NotFoundError(self._why_not(path)) from None
            except OSError as error:
                raise _failed("bring back", path, error) from error

    def _is_back(self, path: str) -> bool:
        return exists(self.folder / path) and not exists(self._in_trash(path))

    def _why_not(self, path: str) -> str:
        """Return why a path could not be brought back."""
        above = Path(path).parent.as_posix()
        why = f"there is no {above!r}" if exists(self._in_trash(path)) else "`gc` has deleted it"
        return f"{label_of(path)!r} cannot be brought back: {why}"

    def delete(self) -> int:
        """Delete it permanently, and return the number of bytes that this freed."""
        freed = 0
        for path in self.paths:
            source, doomed = self._in_trash(path), self._in_trash(path, _DELETED)
            size = size_of(source)
            try:
                move(self.folder, source, doomed)  # from here on nobody can bring it back
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _failed("delete", path, error) from error
            discard(doomed)
            freed += size - size_of(doomed)
        return freed

    @property
    def size(self) -> int:
        """The number of bytes of its files."""
        return sum(size_of(self._in_trash(path)) for path in self.paths)

    def _in_trash(self, path: str, state: str = _REMOVED) -> Path:
        parts = (quote(part, safe="", errors="surrogateescape") for part in path.split("/"))
        return self.folder / "~".join((state, self.stamp, *(part.replace("~", "%7E") for part in parts)))


def take_away(folder: Path, paths: Sequence[str]) -> Removal:
    """Move paths in a folder of experiments into its trash.

    Raises:
        UsageError: A path leads out of the folder through a link; nothing was moved.
        StoreError: The disk failed. Everything is where it was, or in the trash if the disk failed again.
    """
    for path in paths:
        if not _PATH.fullmatch(path) or _link_above(folder, path):
            raise UsageError(f"{label_of(path)!r} is not inside {folder}: remove it where it is")
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z-{secrets.token_hex(4)}"
    removal = Removal(folder, stamp, tuple(paths))
    moved: list[str] = []
    try:
        for path in paths:
            moved.append(path)  # before the move: the sync can fail after the name has changed
            move(folder, folder / path, removal._in_trash(path))
    except OSError as error:
        for path in reversed(moved):
            with suppress(OSError):
                move(folder, removal._in_trash(path), folder / path)
        raise _failed("remove", moved[-1], error) from error
    return removal


def removals(folder: Path) -> list[Removal]:
    """Return the removals in a folder of experiments that can be undone, the last removal last.

    Raises:
        StoreError: The disk failed.
    """
    by_stamp: dict[str, list[str]] = {}
    for stamp, path in _entries(folder, _REMOVED):
        by_stamp.setdefault(stamp, []).append(path)
    return [Removal(folder, stamp, tuple(sorted(paths))) for stamp, paths in sorted(by_stamp.items())]


def empty(folder: Path, *, dry_run: bool = False) -> tuple[list[str], int]:
    """Empty the trash. Return the removed names, and the number of bytes that this freed or would free."""
    trash = removals(folder)
    freed = sum(removal.size if dry_run else removal.delete() for removal in trash)
    for stamp, path in _entries(folder, _DELETED):  # left behind by a `gc` that was killed
        left = Removal(folder, stamp, (path,))._in_trash(path, _DELETED)
        freed += size_of(left)
        if not dry_run:
            discard(left)
            freed -= size_of(left)
    return [label for removal in trash for label in removal.labels], freed


def label_of(path: str) -> str:
    """Return the name that people use for a path: `EXP`, or `EXP/t3@10` for a checkpoint of a trial.

    >>> label_of("net"), label_of("net/t0/checkpoint_000010"), label_of("net/t0/checkpoint_000010.json")
    ('net', 'net/t0@10', 'net/t0@10')
    """
    match = _PATH.fullmatch(path)
    return f"{match[1]}/{match[2]}@{match[3]}" if match and match[2] else path


def _entries(folder: Path, state: str) -> list[tuple[str, str]]:
    """Return the stamps and paths in the trash. A name that nbckpt does not give is left out."""
    names: list[str] = []
    with explained("read", folder), suppress(FileNotFoundError, NotADirectoryError):
        names = os.listdir(folder)  # noqa: PTH208
    entries = []
    for match in filter(None, map(_NAME.fullmatch, names)):
        path = "/".join(unquote(part, errors="surrogateescape") for part in match[3].split("~"))
        is_ours = Removal(folder, match[2], ())._in_trash(path, match[1]).name == match[0]
        if match[1] == state and is_ours and _PATH.fullmatch(path) and can_be_named(path):
            entries.append((match[2], path))
    return sorted(entries)


def _link_above(folder: Path, path: str) -> str:
    """Return the folder above a path that is a link out of the folder of experiments; "" if there is none."""
    above = path.rpartition("/")[0]
    return link_outside(folder, above) if above else ""


def move(folder: Path, source: Path, target: Path) -> None:
    """Move a file or folder within *folder*, and sync the folders that change."""
    source.rename(target)
    for parent in {source.parent, target.parent, folder}:
        sync_folder(parent)


def _failed(action: str, path: str, error: OSError) -> StoreError:
    return StoreError(f"cannot {action} {label_of(path)!r}: {error.strerror or error}")
