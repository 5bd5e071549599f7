"""A job's saved states on disk: numbered folders, each whole or not there at all.

    checkpoint-7/               one save; the newest whole one counts
        manifest.json           the names of the states, their files, sizes and digests
        model.state             what the state called `model` wrote

A save is made in a hidden folder beside them, written through to the disk and renamed. Its number is one
more than the highest that is there, whatever restart it comes from. Only one process writes at a time,
which a lock holds; readers need none.
"""

from __future__ import annotations

import errno
import json
import logging
import re
import shutil
import uuid
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, Self

from filelock import FileLock, Timeout

from nbckpt.core.manifest import now
from nbckpt.core.pack import digest, digest_of_file
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store import STAGING, sync_file, sync_folder

FORMAT = 1
PREFIX = "checkpoint-"
MANIFEST = "manifest.json"
SUFFIX = ".state"

_OF_THE_DISK = {errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG}
_LOCK = f"{STAGING}.lock"
_LOCK_S = 60.0
_PLAIN = re.compile(r"[a-z0-9._-]{1,80}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
"""Names that Windows keeps for itself, whatever follows the dot."""

_log = logging.getLogger("nbckpt")


class Writes(Protocol):
    """What can write itself to a file."""

    def save(self, fileobj: IO[bytes]) -> None:
        """Write what there is to keep."""


@dataclass(frozen=True)
class Kept:
    """One state in a save: its file, that file's size in bytes and its BLAKE3-256."""

    file: str
    size: int
    digest: str


@dataclass(frozen=True)
class Save:
    """One whole save.

    Attributes:
        folder: Where it is.
        states: What it holds, by the states' names.
        replicas: How many replicas the job had then.
    """

    folder: Path
    states: Mapping[str, Kept]
    replicas: int = 1

    @property
    def number(self) -> int:
        """Its number; later saves have higher ones."""
        return int(self.folder.name.removeprefix(PREFIX))

    def open(self, name: str) -> IO[bytes]:
        """Open the file of the state called *name*, which must be in the save.

        Raises:
            StoreError: The disk failed.
        """
        place = self.folder / self.states[name].file
        try:
            return place.open("rb")
        except OSError as error:
            raise StoreError(f"cannot read {str(place)!r}: {error.strerror or error}") from error

    def check(self) -> Self:
        """Read every file.

        Raises:
            CorruptError: One is missing or is not what was saved; the message names it.
        """
        for name, kept in self.states.items():
            file = self.folder / kept.file
            with _explained("read", file):
                if not _has_size(file, kept) or digest_of_file(file).hex() != kept.digest:
                    raise CorruptError(f"{str(file)!r}, the state {name!r}, is not what was saved")
        return self

    def seems_whole(self) -> bool:
        """Tell whether every file is there with its size, which is quick to see."""
        return all(_has_size(self.folder / kept.file, kept) for kept in self.states.values())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return what a save's manifest says, without looking at the files.

        Raises:
            NotFoundError: It has no manifest, so it is none of ours.
            CorruptError: The manifest is damaged.
            FormatError: A newer nbckpt wrote it.
        """
        place = folder / MANIFEST
        try:
            read = json.loads(place.read_bytes())
            if read["format"] != FORMAT:
                raise FormatError(f"{str(place)!r} has format {read['format']!r}, this nbckpt reads {FORMAT}")
            states = {str(name): _kept(*it) for name, it in read["states"].items()}
            return cls(folder, states, int(read["replicas"]))
        except (FileNotFoundError, NotADirectoryError):
            raise NotFoundError(f"{str(folder)!r} has no {MANIFEST}: no save of nbckpt's") from None
        except OSError as error:
            raise CorruptError(f"{str(place)!r} cannot be read: {error.strerror or error}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptError(f"{str(place)!r} is damaged: {error}") from error


class StateFolder:
    """A job's saves in one folder.

    Args:
        folder: Where they are; made with the first save.

    Raises:
        UsageError: It is a URL.
    """

    def __init__(self, folder: Path) -> None:
        if re.match(r"[a-z0-9+]+:/", str(folder)):
            raise UsageError(f"states are kept in a folder that all replicas reach, not at {str(folder)!r}")
        self.folder = folder.absolute()

    def write(self, states: Iterable[tuple[str, Writes]], *, keep: int, replicas: int) -> Save:
        """Make a save of *states*, and remove all but the newest *keep* whole ones.

        After the return it survives a crash of the machine. After an error, whichever, what was there
        before is whole.

        Raises:
            StoreError: The disk failed, or another process writes here.
            Exception: Whatever a state's own `save` raises.
        """
        with self._alone():
            stage = self.folder / f"{STAGING}-{uuid.uuid4().hex[:12]}"
            try:
                made = self._fill(stage, states, replicas)
            except BaseException:
                shutil.rmtree(stage, ignore_errors=True)
                raise
            self._prune(made, keep)
        return made

    def _fill(self, stage: Path, states: Iterable[tuple[str, Writes]], replicas: int) -> Save:
        """Write the staged folder, and give it its number."""
        with _explained("write", self.folder):
            stage.mkdir()
        kept = {name: write_state(name, state, stage) for name, state in states}
        manifest = {
            "format": FORMAT,
            "created_at": now(),
            "replicas": replicas,
            "states": {name: [it.file, it.size, it.digest] for name, it in kept.items()},
        }
        with _explained("write", self.folder):
            (stage / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
            sync_file(stage / MANIFEST)
            sync_folder(stage)
            place = self.folder / f"{PREFIX}{max(self._numbers(), default=0) + 1}"
            stage.rename(place)
            sync_folder(self.folder)
        return Save(place, kept, replicas)

    def _prune(self, newest: Save, keep: int) -> None:
        """Remove what is older than the newest *keep* whole saves, and what crashes left.

        Folders without a manifest of ours stay: they are somebody's.
        """
        whole = 1
        for number in sorted(self._numbers() - {newest.number}, reverse=True):
            folder = self.folder / f"{PREFIX}{number}"
            try:
                save = Save.read(folder)
            except NotFoundError:
                continue
            except (CorruptError, FormatError):
                save = None
            if whole >= max(keep, 1):
                _remove(folder)
            elif save is not None and save.seems_whole():
                whole += 1
        for left in self.folder.glob(f"{STAGING}-*"):
            shutil.rmtree(left, ignore_errors=True)

    def newest(self) -> Save | None:
        """Return the newest whole save, all its files read; the log tells of newer ones that are not.

        Returns:
            None where there is no save.

        Raises:
            CorruptError: There are saves, and none is whole.
            FormatError: Those that are not were written by a newer nbckpt.
            StoreError: The folder cannot be read.
        """
        passed: list[Exception] = []
        for number in sorted(self._numbers(), reverse=True):
            folder = self.folder / f"{PREFIX}{number}"
            try:
                save = Save.read(folder).check()
            except NotFoundError as error:
                _log.warning("%s is passed over: %s", folder.name, error)
            except (CorruptError, FormatError) as error:
                _log.warning("%s is passed over: %s", folder.name, error)
                passed.append(error)
            else:
                if passed:
                    _log.warning("going on from %s, an older save", save.folder)
                return save
        if passed:
            raise type(passed[0])(
                f"no save in {str(self.folder)!r} is whole: {passed[0]}. To begin anew, move the folder away"
            )
        return None

    def _numbers(self) -> set[int]:
        with _explained("read", self.folder):
            names = [it.name for it in self.folder.iterdir()] if self.folder.is_dir() else []
        found = (name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))
        return {int(it) for it in found if it.isascii() and it.isdecimal() and str(int(it)) == it}

    @contextmanager
    def _alone(self) -> Any:
        """Hold the lock that lets one process write."""
        with _explained("write", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / _LOCK, is_singleton=False)
        try:
            with _explained("lock", self.folder):
                lock.acquire(timeout=_LOCK_S)
        except Timeout:
            raise StoreError(
                f"another process has been writing to {str(self.folder)!r} for {_LOCK_S:.0f} s: give each "
                "job a folder of its own"
            ) from None
        try:
            yield
        finally:
            lock.release()


def write_state(name: str, state: Writes, folder: Path) -> Kept:
    """Have a state write its file in *folder*, durably.

    Raises:
        StoreError: The disk failed.
        Exception: Whatever the state's own `save` raises.
    """
    file = folder / file_name(name)
    try:
        with file.open("wb") as opened:
            state.save(opened)
        sync_file(file)
        return Kept(file.name, file.stat().st_size, digest_of_file(file).hex())
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise  # the state's own
        raise StoreError(f"cannot write {str(file)!r}: {error.strerror}") from error


def file_name(name: str) -> str:
    """Return the name of the file of the state called *name*; different names have different files.

    So it is also where the system does not tell `A` from `a`.
    """
    if _PLAIN.fullmatch(name) and not _RESERVED.fullmatch(name):
        return name + SUFFIX
    readable = re.sub(r"[^a-z0-9_-]", "_", name.lower())[:40]
    # No plain name has a tilde.
    return f"{readable}~{digest(name.encode(errors='surrogatepass')).hex()[:32]}{SUFFIX}"


def _kept(file: str, size: int, digest_: str) -> Kept:
    """Return what a manifest says of a file.

    Raises:
        ValueError: It leads elsewhere.
    """
    if not file.endswith(SUFFIX) or "/" in file or "\\" in file:
        raise ValueError(f"{file!r} is no name of a state's file")
    return Kept(file, int(size), str(digest_))


def _has_size(file: Path, kept: Kept) -> bool:
    try:
        return not file.is_symlink() and file.stat().st_size == kept.size
    except OSError:
        return False


def _remove(folder: Path) -> None:
    """Remove a save: its manifest first, so that no reader takes what is left for a save."""
    try:
        (folder / MANIFEST).unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", folder, error)
        return
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _explained(action: str, place: Path) -> Any:
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot {action} {str(place)!r}: {error.strerror or error}") from error
