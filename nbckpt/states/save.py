"""Save: one save of a job's states: a folder of their files, and the manifest that names them."""

from __future__ import annotations

import errno
import re
import stat
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, Self

from nbckpt.core import schema
from nbckpt.core.algorithms import PREFERRED, Algorithms, of_checksum
from nbckpt.core.manifest import now
from nbckpt.errors import CorruptError, NotFoundError, StoreError
from nbckpt.store import sync_file
from nbckpt.store.files import explained, staged
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
_PLAIN = re.compile(r"[a-z0-9._-]{1,80}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
"""Names that Windows reserves, with any extension."""


class Writable(Protocol):
    """An object that can write itself to a file."""

    def save(self, fileobj: IO[bytes]) -> None:
        """Write the object's data."""


@dataclass(frozen=True)
class StateFile:
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
    states: Mapping[str, StateFile]
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
        file = self.folder / self.states[name].file
        with explained("read", file):
            return file.open("rb")

    def check(self) -> Self:
        """Read every file, check its checksum, and return the save.

        Raises:
            CorruptError: A file is missing or differs from the saved one; the message names it.
            StoreError: The disk failed.
        """
        for name, saved in self.states.items():
            file = self.folder / saved.file
            if not _has_size(file, saved) or _checksum(file, saved.digest) != saved.digest:
                raise CorruptError(f"{str(file)!r}, the state {name!r}, is not what was saved")
        return self

    def seems_complete(self) -> bool:
        """Tell whether every file exists with its size. This is quick: no file is read.

        Raises:
            StoreError: The disk failed.
        """
        return all(_has_size(self.folder / saved.file, saved) for saved in self.states.values())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a save's manifest without checking the files of its states.

        Raises:
            NotFoundError: The folder has no manifest of nbckpt, so it belongs to another program.
            CorruptError: The manifest is damaged.
            FormatError: A newer nbckpt wrote the manifest.
            StoreError: The disk failed.
        """
        file, data = folder / MANIFEST, None
        if link := link_outside(folder.parent, f"{folder.name}/{MANIFEST}"):
            raise NotFoundError(f"{str(folder.parent / link)!r} is not read: {OUTSIDE}")
        with explained("read", file), suppress(FileNotFoundError, NotADirectoryError):
            if stat.S_ISREG(file.stat().st_mode):
                data = file.read_bytes()
        manifest = None if data is None else schema.parse(data, repr(str(file)))
        if not isinstance(manifest, dict) or manifest.keys().isdisjoint({"states", "replicas"}):
            raise NotFoundError(f"{str(folder)!r} has no {MANIFEST} of nbckpt's")
        assert data is not None
        manifest = schema.unseal(data, _FORM, repr(str(file)))
        states = {name: _checked(name, *entry) for name, entry in manifest["states"].items()}
        return cls(folder, states, manifest["replicas"])


def write_state(name: str, state: Writable, file: Path) -> StateFile:
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
        return StateFile(file_name(name), file.stat().st_size, PREFERRED.checksum_of_file(file))
    except OSError as error:
        if error is own:
            raise
        raise StoreError(f"cannot write {str(file)!r}: {error.strerror or error}") from error


def write_manifest(stage: Path, states: Mapping[str, StateFile], replicas: int) -> None:
    """Write the manifest of a save into its staged folder."""
    entries = {name: [saved.file, saved.size, saved.digest] for name, saved in states.items()}
    manifest = {"format": FORMAT, "created_at": now(), "replicas": replicas, "states": entries}
    # Sealed with a checksum, not a signature: replicas share no secret, see docs/decisions/0022.
    (stage / MANIFEST).write_bytes(schema.seal(manifest))


def write_alone(name: str, state: Writable, folder: Path) -> None:
    """Let a state write its file in *folder*, atomically and durably: an error keeps the former file.

    Raises:
        StoreError: The disk failed.
        Exception: Any error that the state's `save` raises.
    """
    with ExitStack() as staging:
        with explained("write", folder):
            stage = staging.enter_context(staged(folder / file_name(name)))
        write_state(name, state, stage)
        with explained("write", folder):
            sync_file(stage)
            staging.close()


def file_name(name: str, algorithms: Algorithms = PREFERRED) -> str:
    """Return the file name for the state called *name*. Different names have different files.

    This also holds on file systems that ignore the case of letters.
    """
    if _PLAIN.fullmatch(name) and not _RESERVED.fullmatch(name):
        return name + SUFFIX
    readable = re.sub(r"[^a-z0-9_-]", "_", name.lower())[:40]
    # A plain name never contains a tilde, so the two kinds cannot collide.
    return f"{readable}~{algorithms.digest(name.encode(errors='surrogatepass')).hex()[:32]}{SUFFIX}"


def _checked(name: str, file: str, size: int, digest: str) -> StateFile:
    """Return a manifest's entry for a state's file.

    Raises:
        CorruptError: The file belongs to another state, or its name leads elsewhere.
        FormatError: The digest algorithm is not available here.
    """
    if file != file_name(name, of_checksum(digest, f"the state {name!r}")):
        raise CorruptError(f"a manifest is damaged: {file!r} is not the file of the state {name!r}")
    return StateFile(file, size, digest)


def _has_size(file: Path, saved: StateFile) -> bool:
    """Tell whether a regular file exists with the right size. A link does not belong to the save."""
    with explained("read", file), suppress(FileNotFoundError):
        status = file.lstat()
        return stat.S_ISREG(status.st_mode) and status.st_size == saved.size
    return False


def _checksum(file: Path, like: str) -> str:
    """Return the checksum of a file, with the algorithm of the checksum *like*; "" if the file is gone."""
    with explained("read", file), suppress(FileNotFoundError):
        return of_checksum(like, str(file)).checksum_of_file(file)
    return ""
