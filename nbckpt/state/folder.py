"""A job's saved states on disk: numbered folders, each complete or absent.

    checkpoint-7/               one save; the newest complete save is loaded
        manifest.json           the names of the states, their files, sizes and digests
        model.state             the file that the state called `model` wrote

A save is made in a hidden folder beside the saves, synced to disk and renamed. Its number is one more than
the highest number there, regardless of restarts. A lock lets only one process write at a time. Readers need
no lock.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, Self

from nbckpt.core import schema
from nbckpt.core.algorithms import PREFERRED, Algorithms, of_checksum
from nbckpt.core.manifest import now
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store import STAGING, sync_file, sync_folder
from nbckpt.store.files import commit, make_folder, remove, staged_folder, sweep
from nbckpt.store.locks import Timeout, file_lock
from nbckpt.store.scan import OUTSIDE, link_outside

FORMAT = 2
PREFIX = "checkpoint-"
MANIFEST = "manifest.json"
SUFFIX = ".state"

_OF_THE_DISK = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ESTALE),
    *(errno.EROFS, errno.EACCES, errno.EPERM),
}
_FORM = {"format": int, "created_at?": str, "replicas": int, "states": {str: (str, int, str)}}
_LOCK = f"{STAGING}.lock"
_LOCK_S = 60.0
_PLAIN = re.compile(r"[a-z0-9._-]{1,80}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
"""Names that Windows reserves, with any extension."""
_URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)

_log = logging.getLogger("nbckpt")


class Writes(Protocol):
    """An object that can write itself to a file."""

    def save(self, fileobj: IO[bytes]) -> None:
        """Write the object's data."""


@dataclass(frozen=True)
class Kept:
    """One state in a save: the name, the size in bytes and the checksum of its file."""

    file: str
    size: int
    digest: str


@dataclass(frozen=True)
class Save:
    """One save.

    Attributes:
        folder: The folder of the save.
        states: The saved states, by name.
        replicas: The number of replicas at the time of the save.
    """

    folder: Path
    states: Mapping[str, Kept]
    replicas: int = 1

    @property
    def number(self) -> int:
        """The number of the save; later saves have higher numbers."""
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
        """Read every file, check its checksum, and return the save.

        Raises:
            CorruptError: A file is missing or differs from the saved one; the message names it.
            StoreError: The disk failed.
        """
        for name, kept in self.states.items():
            file = self.folder / kept.file
            if not _has_size(file, kept) or _checksum(file, kept.digest) != kept.digest:
                raise CorruptError(f"{str(file)!r}, the state {name!r}, is not what was saved")
        return self

    def seems_whole(self) -> bool:
        """Tell whether every file exists with its size. This is quick: no file is read.

        Raises:
            StoreError: The disk failed.
        """
        return all(_has_size(self.folder / kept.file, kept) for kept in self.states.values())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a save's manifest without checking the files of its states.

        Raises:
            NotFoundError: The folder has no manifest of nbckpt, so it belongs to another program.
            CorruptError: The manifest is damaged.
            FormatError: A newer nbckpt wrote the manifest.
            StoreError: The disk failed.
        """
        place, data = folder / MANIFEST, None
        if link := link_outside(folder.parent, f"{folder.name}/{MANIFEST}"):
            raise NotFoundError(f"{str(folder.parent / link)!r} is not read: {OUTSIDE}")
        with _explained("read", place), suppress(FileNotFoundError, NotADirectoryError):
            if stat.S_ISREG(place.stat().st_mode):
                data = place.read_bytes()
        read = None if data is None else schema.parse(data, repr(str(place)))
        if not isinstance(read, dict) or read.keys().isdisjoint({"states", "replicas"}):
            raise NotFoundError(f"{str(folder)!r} has no {MANIFEST} of nbckpt's")
        assert data is not None
        read = schema.unseal(data, _FORM, repr(str(place)))
        states = {name: _kept(name, *it) for name, it in read["states"].items()}
        return cls(folder, states, read["replicas"])


class StateFolder:
    """The saves of a job in one folder.

    Args:
        folder: The folder; the first save makes it.

    Raises:
        UsageError: The folder is a URL.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = local(folder)

    def write(self, states: Iterable[tuple[str, Writes]], *, keep: int, replicas: int) -> Save:
        """Make a save of *states*, and remove all but the newest *keep* complete saves.

        After the return the save survives a crash of the machine. After any error the earlier saves are
        complete.

        Raises:
            StoreError: The disk failed, or another process writes here.
            Exception: Any error that a state's `save` raises.
        """
        with self._alone():
            with ExitStack() as staged:
                with _explained("write", self.folder):
                    stage = staged.enter_context(staged_folder(self.folder))
                made = self._fill(stage, states, replicas)
            try:
                self._prune(made, keep)
            except OSError as error:
                _log.warning("%s is saved, but what is older cannot be removed: %s", made.folder, error)
        return made

    def _fill(self, stage: Path, states: Iterable[tuple[str, Writes]], replicas: int) -> Save:
        """Write the staged folder and rename it to its number."""
        kept = {name: write_state(name, state, stage / file_name(name)) for name, state in states}
        manifest = {
            "format": FORMAT,
            "created_at": now(),
            "replicas": replicas,
            "states": {name: [it.file, it.size, it.digest] for name, it in kept.items()},
        }
        with _explained("write", self.folder):
            # Sealed with a checksum, not a signature: replicas share no secret, see docs/decisions/0022.
            (stage / MANIFEST).write_bytes(schema.seal(manifest))
            place = self.folder / f"{PREFIX}{max(self._numbers(), default=0) + 1}"
            commit(stage, place)
        return Save(place, kept, replicas)

    def _prune(self, newest: Save, keep: int) -> None:
        """Remove the saves older than the newest *keep* complete ones, and the remains of crashes.

        Folders without a manifest of nbckpt stay: they belong to other programs. Links and saves of a newer
        nbckpt stay too.
        """
        whole = 1
        for number in sorted(self._numbers() - {newest.number}, reverse=True):
            folder = self.folder / f"{PREFIX}{number}"
            try:
                is_whole = Save.read(folder).seems_whole()
            except (NotFoundError, FormatError, StoreError):
                continue
            except CorruptError:
                is_whole = False
            if whole >= keep and not folder.is_symlink():
                remove(folder)
            whole += is_whole
        sweep(self.folder, older_s=0)  # no other process writes: the lock is held

    def newest(self) -> Save | None:
        """Return the newest complete save, after reading all its files. Log newer saves that are incomplete.

        Returns:
            The save, or None if there are no saves.

        Raises:
            CorruptError: There are saves, but all are incomplete.
            FormatError: There are saves, but a newer nbckpt wrote them.
            StoreError: The folder cannot be read.
        """
        passed: list[Exception] = []
        numbers = self._numbers(missing_ok=True)
        for number in sorted(numbers, reverse=True):
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
        if self._numbers(missing_ok=True) - numbers:
            return self.newest()  # another process saved and removed the earlier saves
        if passed:
            raise type(passed[0])(
                f"no save in {str(self.folder)!r} is whole: {passed[0]}. To begin anew, move the folder away"
            )
        return None

    def _numbers(self, *, missing_ok: bool = False) -> set[int]:
        names: list[str] = []
        with _explained("read", self.folder), suppress(*[FileNotFoundError] if missing_ok else []):
            names = [it.name for it in self.folder.iterdir()]
        found = (name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))
        return {int(it) for it in found if it.isascii() and it.isdecimal() and str(int(it)) == it}

    @contextmanager
    def _alone(self) -> Any:
        """Hold the lock that lets one process write."""
        with _explained("write", self.folder):
            make_folder(self.folder)
        lock = file_lock(self.folder / _LOCK)
        with _explained("lock", self.folder):
            try:
                lock.acquire(timeout=_LOCK_S)
            except Timeout:
                raise StoreError(
                    f"another process has been writing to {str(self.folder)!r} for {_LOCK_S:.0f} s: give "
                    "each job a folder of its own"
                ) from None
        try:
            yield
        finally:
            lock.release()


def write_state(name: str, state: Writes, file: Path) -> Kept:
    """Let a state write a new file. The file is not synced to disk.

    Raises:
        StoreError: The disk failed.
        Exception: Any error that the state's `save` raises.
    """
    own: OSError | None = None
    try:
        with file.open("wb") as opened:
            try:
                state.save(opened)
            except OSError as error:
                # An error of the opened file has no file name; an error with a name concerns another file.
                own = error if error.filename or error.errno not in _OF_THE_DISK else None
                raise
        return Kept(file_name(name), file.stat().st_size, PREFERRED.checksum_of_file(file))
    except OSError as error:
        if error is own:
            raise
        raise StoreError(f"cannot write {str(file)!r}: {error.strerror or error}") from error


def write_alone(name: str, state: Writes, folder: Path) -> None:
    """Let a state write its file in *folder*, atomically and durably: an error keeps the former file.

    Raises:
        StoreError: The disk failed.
        Exception: Any error that the state's `save` raises.
    """
    with ExitStack() as staging:
        with _explained("write", folder):
            stage = staging.enter_context(staged_folder(folder))
        kept = write_state(name, state, stage / file_name(name))
        with _explained("write", folder):
            sync_file(stage / kept.file)
            (stage / kept.file).replace(folder / kept.file)
            sync_folder(folder)


def file_name(name: str, algorithms: Algorithms = PREFERRED) -> str:
    """Return the file name for the state called *name*. Different names have different files.

    This also holds on file systems that ignore the case of letters.
    """
    if _PLAIN.fullmatch(name) and not _RESERVED.fullmatch(name):
        return name + SUFFIX
    readable = re.sub(r"[^a-z0-9_-]", "_", name.lower())[:40]
    # A plain name never contains a tilde, so the two kinds cannot collide.
    return f"{readable}~{algorithms.digest(name.encode(errors='surrogatepass')).hex()[:32]}{SUFFIX}"


def local(where: str | os.PathLike[str]) -> Path:
    """Return a folder as an absolute path.

    Raises:
        UsageError: The folder is a URL.
    """
    if _URL.match(os.fspath(where)):
        raise UsageError(f"states are kept in a folder that all replicas reach, not at {os.fspath(where)!r}")
    return Path(where).absolute()


def at_least_one(keep: int) -> int:
    """Return *keep*, the number of saves to keep, if it is at least one.

    Raises:
        UsageError: It is below one.
    """
    if keep < 1:
        raise UsageError(f"keep={keep}: one save at least is kept")
    return keep


def _kept(name: str, file: str, size: int, digest: str) -> Kept:
    """Return a manifest's entry for a state's file.

    Raises:
        CorruptError: The file belongs to another state, or its name leads elsewhere.
        FormatError: The digest algorithm is not available here.
    """
    if file != file_name(name, of_checksum(digest, f"the state {name!r}")):
        raise CorruptError(f"a manifest is damaged: {file!r} is not the file of the state {name!r}")
    return Kept(file, size, digest)


def _has_size(file: Path, kept: Kept) -> bool:
    """Tell whether a regular file exists with the right size. A link does not belong to the save."""
    with _explained("read", file), suppress(FileNotFoundError):
        found = file.lstat()
        return stat.S_ISREG(found.st_mode) and found.st_size == kept.size
    return False


def _checksum(file: Path, like: str) -> str:
    """Return the checksum of a file, with the algorithm of the checksum *like*; "" if the file is gone."""
    with _explained("read", file), suppress(FileNotFoundError):
        return of_checksum(like, str(file)).checksum_of_file(file)
    return ""


@contextmanager
def _explained(action: str, place: Path) -> Any:
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"cannot {action} {str(place)!r}: {error.strerror or error}") from error
