"""A trial's checkpoints on disk: a folder of the user's files, and beside it the record that commits it.

    checkpoint_000010/        the user's files, nothing of ours inside
    checkpoint_000010.json    the record, written last: without it the folder is no checkpoint

What is being written is staged in a hidden folder beside them and renamed. What is only for the
moment, because it was made from an object in memory, is a checkpoint whose record says `temporary`.
A null checkpoint, from which everything starts anew, is a record without a folder.
"""

from __future__ import annotations

import io
import logging
import os
import re
import shutil
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self

from nbckpt.core.algorithms import HERE, PREFERRED, of_checksum
from nbckpt.core.manifest import now
from nbckpt.core.schema import SEALED, OneOf, seal, unseal
from nbckpt.core.tree import INSIDE, check_path
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.render import count
from nbckpt.store import DAMAGE, STAGING, open_archive
from nbckpt.store.files import commit, discard, only_files, stage_folder, sweep, sync_folder, write_file
from nbckpt.store.scan import OUTSIDE, link_outside

PREFIX = "checkpoint_"
SUFFIX = ".json"
TEMPORARY = f"{PREFIX}tmp"

_FORMER = f"{STAGING}-former-"
_DIGEST = 32

Kind = Literal["files", "fields", "null"]

_FORM = {
    "format": int,
    "name": str,
    "kind": re.compile("files|fields|null"),
    "iteration": int,
    "time_total_s": float,
    **dict.fromkeys(("timesteps_total", "episodes_total"), OneOf(int, None)),
    "metrics": dict,
    "inner": str,
    "files": {str: (int, str)},
    "folders": [str],
    "temporary": bool,
    "created_at": str,
}

_log = logging.getLogger("nbckpt")


@dataclass(frozen=True)
class Record:
    """What commits a checkpoint and describes it.

    Attributes:
        name: The name of its folder.
        kind: `files` for a folder of the user's, `fields` for a dict, `null` for a checkpoint of
            nothing, which has no folder.
        iteration: How many results the trial had then.
        time_total_s: How long it had trained, in seconds.
        timesteps_total: The user's own count, where there is one.
        episodes_total: The same for episodes.
        metrics: The last result.
        inner: The path inside the folder that the user's code gave, empty for the folder itself.
        files: Each file's size in bytes and checksum, by its path.
        folders: The empty folders.
        temporary: Whether it goes with the one who made it.
        created_at: When it was committed, in UTC.
    """

    name: str
    kind: Kind
    iteration: int
    time_total_s: float = 0.0
    timesteps_total: int | None = None
    episodes_total: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    inner: str = ""
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    temporary: bool = False
    created_at: str = field(default_factory=now)

    def __repr__(self) -> str:
        return f"Record({self.name}, {self.kind}, {count(len(self.files), 'file')})"

    @property
    def step(self) -> int:
        """The number in its name, by which people ask for it."""
        digits = self.name.rpartition("_")[2]
        return int(digits) if digits.isdecimal() else self.iteration

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(size for size, _ in self.files.values())

    def encode(self) -> bytes:
        """Return the record as the JSON that is kept."""
        return seal({"format": SEALED, **asdict(self)})

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """Return the record that `encode` wrote.

        Raises:
            CorruptError: It is not what was written, or a path in it leads outside.
            FormatError: A newer nbckpt wrote it.
        """
        read = unseal(data, _FORM, where)
        files = {path: (size, checksum) for path, (size, checksum) in read["files"].items()}
        known = {it.name: read[it.name] for it in fields(cls)}
        record = cls(**known | {"files": files, "folders": tuple(read["folders"])})
        try:
            _check(record)
        except ValueError as error:
            raise CorruptError(f"{where} is damaged: {error}") from error
        return record


def name_of(step: int) -> str:
    """Return the name of the checkpoint of a step."""
    return f"{PREFIX}{step:06d}"


class CheckpointFolder:
    """The checkpoints in one trial's folder. One writer at a time; any number of readers.

    A reader finds a checkpoint whole or not at all, also after a crash of the machine.

    Args:
        folder: The trial's folder; made when it is first needed.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()

    def stage(self) -> Path:
        """Return a new empty folder for a checkpoint that is being written."""
        try:
            return stage_folder(self.folder)
        except OSError as error:
            raise _failed("make", self.folder, error) from error

    @contextmanager
    def staged(self) -> Iterator[Path]:
        """Lend such a folder; what of it is not committed in the block is removed."""
        place = self.stage()
        try:
            yield place
        finally:
            discard(place)

    def commit(self, stage: Path | None, record: Record) -> Record:
        """Make the staged folder the checkpoint *record*, and return the record with its files.

        After the return it survives a crash of the machine, and what had its name is gone. After an
        error everything is as before, the staged folder too.

        Raises:
            UsageError: The folder holds what is neither file nor folder, or a link that leads outside.
            StoreError: The disk failed.
        """
        try:
            if stage is not None:
                files, folders = _contents(stage)
                record = replace(record, files=files, folders=folders)
            self._replace(stage, record)
        except OSError as error:
            raise _failed("write", self.folder / record.name, error) from error
        return record

    def _replace(self, stage: Path | None, record: Record) -> None:
        """Put a folder and its record in place of those that have their name.

        At every moment either the former or the new checkpoint is there, or the former is beside it
        under hidden names, from which `_bring_back` takes it.
        """
        folder, file = self.folder / record.name, self.folder / (record.name + SUFFIX)
        former, was = self._former(record.name)
        self._bring_back(record.name)
        is_new = not file.exists()
        try:
            if stage is not None:
                if not is_new:
                    file.replace(was)
                if folder.exists():
                    folder.replace(former)
                commit(stage, folder)
            # The record goes last: a crash above this line leaves a folder that is no checkpoint.
            write_file(file, record.encode())
        except BaseException:
            with suppress(OSError):
                if is_new or was.exists():
                    file.unlink(missing_ok=True)
                if stage is not None and not stage.exists():
                    folder.replace(stage)
                self._bring_back(record.name)
            raise
        self._forget(record.name)

    def _bring_back(self, name: str) -> None:
        """Bring back the checkpoint that was being replaced when a crash came; forget one that was."""
        folder, file = self.folder / name, self.folder / (name + SUFFIX)
        former, was = self._former(name)
        if was.exists() and not file.exists():
            if former.exists():
                discard(folder)
                former.replace(folder)
            was.replace(file)
            sync_folder(self.folder)
        self._forget(name)

    def _forget(self, name: str) -> None:
        former, was = self._former(name)
        discard(was)
        discard(former)

    def _former(self, name: str) -> tuple[Path, Path]:
        """Return where a checkpoint's folder and record are while another takes their names."""
        return self.folder / f"{_FORMER}{name}", self.folder / f"{_FORMER}{name}{SUFFIX}"

    def records(self) -> list[Record]:
        """Return the committed checkpoints, the oldest iteration first; temporary ones are left out.

        A damaged record is skipped with a warning in the log, and so is a folder without one.
        """
        records, damages = self.scan()
        for damage in damages:
            _log.warning("%s: it is skipped", damage)
        return records

    def scan(self) -> tuple[list[Record], list[str]]:
        """Return the committed checkpoints, and what is wrong with those that cannot be read."""
        found: list[Record] = []
        damages: list[str] = []
        names: set[str] = set()
        with suppress(FileNotFoundError, NotADirectoryError):
            names = {it.name for it in self.folder.iterdir()}
        for name in sorted(names):
            try:
                if name.startswith(PREFIX) and name.endswith(SUFFIX):
                    found.append(self.read(name.removesuffix(SUFFIX)))
                elif name.startswith(PREFIX) and name + SUFFIX not in names:
                    _log.warning("%s was not finished: it is skipped", self.folder / name)
            except (CorruptError, FormatError, StoreError) as error:
                if name.removeprefix(PREFIX).removesuffix(SUFFIX).isdecimal():
                    damages.append(str(error))
                else:  # it may be a file of the user's
                    _log.warning("%s: it is skipped", error)
            except NotFoundError:  # removed meanwhile
                continue
        kept = [record for record in found if not record.temporary and record.kind != "null"]
        return sorted(kept, key=lambda record: (record.iteration, record.created_at)), damages

    def read(self, name: str) -> Record:
        """Return the record of the checkpoint called *name*.

        Raises:
            NotFoundError: There is none, or it was not finished.
            CorruptError: The record is damaged, or that of another one.
            StoreError: The disk failed.
        """
        file = self.folder / (name + SUFFIX)
        try:
            if link_outside(self.folder, file.name):
                raise CorruptError(f"{file} is not read: {OUTSIDE}")
            with open(file, "rb", opener=only_files) as opened:
                record = Record.decode(opened.read(), str(file))
        except FileNotFoundError:
            raise NotFoundError(f"there is no checkpoint {name!r} in {self.folder}") from None
        except OSError as error:
            raise StoreError(f"cannot read {str(file)!r}: {error.strerror or error}") from error
        if record.name != name:
            raise CorruptError(f"{file} is damaged: it is the record of {record.name!r}")
        return record

    def path(self, record: Record) -> Path:
        """Return where the files of a checkpoint are: the folder, or what in it the user's code gave."""
        return self.folder.joinpath(record.name, *PurePosixPath(record.inner).parts)

    def check(self, record: Record) -> None:
        """Read every file of a checkpoint.

        Raises:
            CorruptError: One is missing or is not what was committed; the message names it.
        """
        for path, (size, expected) in record.files.items():
            file = self.folder.joinpath(record.name, *path.split("/"))
            is_there = file.is_file() and not link_outside(self.folder, f"{record.name}/{path}")
            if not (is_there and is_as_saved(file, size, expected)):
                raise CorruptError(f"{path!r} in {self.folder / record.name} is not what was saved")

    def delete(self, record: Record) -> None:
        """Remove a checkpoint; one that is not there is fine.

        Raises:
            StoreError: The disk failed; the checkpoint is whole.
        """
        file = self.folder / (record.name + SUFFIX)
        try:
            # The record goes first: a reader never finds one whose files are half gone.
            file.unlink(missing_ok=True)
        except OSError as error:
            raise _failed("remove", file, error) from error
        discard(self.folder / record.name)

    def recover(self, newest: str) -> list[str]:
        """Bring back what the folder lost, where *newest* is not whole and it is kept elsewhere too.

        Returns:
            A sentence about each checkpoint that could not be brought back.

        Raises:
            StoreError: The other place cannot be reached.
        """
        del newest
        return []

    def sweep(self) -> None:
        """Remove what a crash left, staged, unfinished and temporary checkpoints, and bring back what it hid.

        Raises:
            StoreError: The disk failed; sweeping again may help.
        """
        try:
            for place in list(self.folder.glob(f"{_FORMER}*")):
                self._bring_back(place.name.removeprefix(_FORMER).removesuffix(SUFFIX))
        except OSError as error:
            raise _failed("clean", self.folder, error) from error
        sweep(self.folder, older_s=0)
        # Only names that are given here: `checkpoint_best` may be a folder of the user's.
        numbered = [it for it in self.folder.glob(f"{PREFIX}*") if it.name.removeprefix(PREFIX).isdecimal()]
        for place in (it for it in numbered if not it.with_name(it.name + SUFFIX).exists()):
            discard(place)
        for place in self.folder.glob(f"{TEMPORARY}*"):
            self.delete(Record(place.name.removesuffix(SUFFIX), "files", 0))

    def pack(self, record: Record) -> bytes:
        """Return a checkpoint as bytes, for `unpack`.

        Raises:
            CorruptError: Its files are not those that were saved.
        """
        self.check(record)
        return pack(self.folder / record.name, record)

    def unpack(self, data: bytes, *, temporary: bool = False) -> Record:
        """Commit the checkpoint that `pack` made bytes of, under its own name or a temporary one.

        Raises:
            CorruptError: The bytes are not those of a checkpoint; nothing was made.
            StoreError: The disk failed; nothing was made.
        """
        if not any(it.digest(memoryview(data)[_DIGEST:]) == data[:_DIGEST] for it in HERE):
            raise CorruptError("this object is no checkpoint of a trial, or not whole")
        with self.staged() as stage:
            try:
                record = _extract(data, stage)
            except (*DAMAGE, KeyError) as error:
                raise CorruptError(f"this object is no checkpoint of a trial: {error}") from error
            except OSError as error:
                raise _failed("write", stage, error) from error
            if temporary:
                name = f"{TEMPORARY}{uuid.uuid4().hex[:8]}_{record.step:06d}"
                record = replace(record, name=name, temporary=True)
            return self.commit(None if record.kind == "null" else stage, record)


def pack(folder: Path, record: Record) -> bytes:
    """Return the checkpoint *record*, whose files are in *folder*, as bytes.

    They are a digest and an archive: `record.json`, and what is in the folder below `files/`.
    """
    file = io.BytesIO()
    file.write(bytes(_DIGEST))
    # Files older than 1980 are packed too.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
        archive.writestr("record.json", replace(record, files={}, folders=()).encode())
        for place in _walk(folder) if record.kind != "null" else ():
            archive.write(place, f"files/{_safe(place.relative_to(folder).as_posix())}")
    with file.getbuffer() as view:
        view[:_DIGEST] = PREFERRED.digest(view[_DIGEST:])
    return file.getvalue()


def is_as_saved(file: Path, size: int, checksum: str) -> bool:
    """Tell whether a file holds what a record says of it.

    Raises:
        FormatError: The digest of the record is not to be had here.
    """
    algorithms = of_checksum(checksum, f"{file.name!r} in {file.parent}")
    return file.stat().st_size == size and algorithms.checksum_of_file(file) == checksum


def _extract(data: bytes, stage: Path) -> Record:
    """Write the files of an object into *stage*, and return its record."""
    with open_archive(io.BytesIO(data)) as archive:
        for name in archive.namelist()[1:]:
            target = stage.joinpath(*_safe(name.removeprefix("files/").rstrip("/")).split("/"))
            target.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("/"):
                target.mkdir()
                continue
            with archive.open(name) as source, target.open("xb") as written:
                shutil.copyfileobj(source, written, 1 << 20)
        return Record.decode(archive.read("record.json"), "the checkpoint object")


def find(path: str | os.PathLike[str]) -> tuple[CheckpointFolder, Record]:
    """Return the checkpoint that *path* is, or lies in.

    Raises:
        NotFoundError: It is in none.
        CorruptError: Its record is damaged.
    """
    place = Path(path).absolute()
    for candidate in (place, *place.parents):
        if candidate.name.startswith(PREFIX) and candidate.with_name(candidate.name + SUFFIX).is_file():
            folder = CheckpointFolder(candidate.parent)
            return folder, folder.read(candidate.name)
    raise NotFoundError(f"{str(path)!r} is in no checkpoint: give the path that save() returned")


def _check(record: Record) -> None:
    """Refuse a record whose name or counts cannot be those of a checkpoint."""
    parts = PurePosixPath(record.name).parts
    if len(parts) != 1 or not record.name.startswith(PREFIX) or not record.iteration >= 0:
        raise ValueError(f"its name is {record.name!r}, its iteration {record.iteration!r}")
    for path in (*record.files, *record.folders, *([record.inner] if record.inner else [])):
        _safe(path)


def _safe(path: str) -> str:
    """Return *path* when a file in a checkpoint's folder can have it, the fields' own files included."""
    check_path(path.removeprefix(f"{INSIDE}/"))
    return path


def _contents(stage: Path) -> tuple[dict[str, tuple[int, str]], tuple[str, ...]]:
    """Return a folder's files with size and digest, and its empty folders; links become copies."""
    files: dict[str, tuple[int, str]] = {}
    empty: list[str] = []
    for place in _walk(stage):
        path = _safe(place.relative_to(stage).as_posix())
        if place.is_dir():
            empty.append(path)
        else:
            files[path] = (place.stat().st_size, PREFERRED.checksum_of_file(place))
    return dict(sorted(files.items())), tuple(sorted(empty))


def _walk(top: Path) -> Iterator[Path]:
    """Yield the files and the empty folders below *top*; links become copies of what they point to.

    Raises:
        UsageError: There is a link to a folder, or one that leads outside, or what is no file.
    """
    for place, folders, names in os.walk(top, onerror=_raise):
        here = Path(place)
        for name in folders:
            if (here / name).is_symlink():
                raise UsageError(f"{name!r} in the checkpoint is a link to a folder: copy what it points to")
        for name in names:
            file = here / name
            if file.is_symlink():
                _copy_in_place(file, top)
            if not file.is_file():
                raise UsageError(f"{name!r} in the checkpoint is neither a file nor a folder: take it out")
            yield file
        if not folders and not names and here != top:
            yield here


def _raise(error: OSError) -> None:
    raise error


def _copy_in_place(link: Path, top: Path) -> None:
    target = link.resolve()
    if not target.is_relative_to(top.resolve()) or not target.is_file():
        raise UsageError(
            f"{link.name!r} in the checkpoint is a link that leads outside or nowhere: copy the file"
        )
    copied = link.with_name(uuid.uuid4().hex)
    shutil.copy2(target, copied)
    copied.replace(link)


def _failed(action: str, place: Path, error: OSError) -> StoreError:
    if isinstance(error, StoreError):
        return error
    return StoreError(
        f"cannot {action} {str(place)!r}: {error.strerror or error}. Free some space or choose another folder"
    )
