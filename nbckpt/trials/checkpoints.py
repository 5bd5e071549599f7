"""A trial's checkpoints on disk: a folder of the user's files, and beside it the record that commits it.

    checkpoint_000010/        the user's files, nothing of ours inside
    checkpoint_000010.json    the record, written last: without it the folder is no checkpoint

What is being written is staged in a hidden folder beside them and renamed. What is only for the
moment, because it was made from an object in memory, is a checkpoint whose record says `temporary`.
"""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import uuid
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self

from nbckpt.core.manifest import now
from nbckpt.core.pack import digest_of_file
from nbckpt.core.tree import INSIDE, check_path
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store import LocalStore, sync_file, sync_folder

FORMAT = 1
STAGING = ".nbckpt-tmp"
SUFFIX = ".json"

Kind = Literal["files", "fields", "null"]

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
        files: Each file's size in bytes and BLAKE3-256 digest, by its path.
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

    @property
    def step(self) -> int:
        """The number in its name, by which people ask for it."""
        digits = self.name.rpartition("_")[2]
        return int(digits) if digits.isdigit() else self.iteration

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(size for size, _ in self.files.values())

    def encode(self) -> bytes:
        """Return the record as the JSON that is kept."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """Return the record that `encode` wrote.

        Raises:
            CorruptError: It is none, or cut short.
            FormatError: A newer nbckpt wrote it.
        """
        try:
            read = json.loads(data)
            version = read.pop("format")
            if version != FORMAT:
                raise FormatError(f"{where} has format {version}, this nbckpt reads {FORMAT}: upgrade it")
            files = {_safe(path): (size, digest) for path, (size, digest) in read.pop("files").items()}
            return cls(**read | {"files": files, "folders": tuple(map(_safe, read["folders"]))})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptError(f"{where} is no whole record of a checkpoint: {error}") from error


def name_of(step: int) -> str:
    """Return the name of the checkpoint of a step."""
    return f"checkpoint_{step:06d}"


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
        place = self.folder / f"{STAGING}-{uuid.uuid4().hex[:12]}"
        try:
            place.mkdir(parents=True)
        except OSError as error:
            raise _failed("make", place, error) from error
        return place

    def commit(self, stage: Path | None, record: Record) -> Record:
        """Make the staged folder the checkpoint *record*, and return the record with its files.

        After the return it survives a crash of the machine. Whatever had its name is replaced.

        Raises:
            UsageError: The folder holds what is neither file nor folder.
            StoreError: The disk failed; the checkpoint is not there, the others are.
        """
        try:
            if stage is not None:
                files, folders = _contents(stage)
                record = replace(record, files=files, folders=folders)
                self._put_in_place(stage, record.name)
            # The record goes last: a crash above this line leaves a folder that is no checkpoint.
            LocalStore(self.folder).put(record.name + SUFFIX, record.encode())
            with suppress(OSError):
                (self.folder / STAGING).rmdir()
        except OSError as error:
            raise _failed("write", self.folder / record.name, error) from error
        return record

    def _put_in_place(self, stage: Path, name: str) -> None:
        target = self.folder / name
        (self.folder / (name + SUFFIX)).unlink(missing_ok=True)
        if target.exists():
            target.replace(self.folder / f"{STAGING}-{uuid.uuid4().hex[:12]}")
        stage.replace(target)
        sync_folder(self.folder)

    def records(self) -> list[Record]:
        """Return the committed checkpoints, the oldest iteration first; temporary ones are left out.

        A damaged record is skipped with a warning in the log, and so is a folder without one.
        """
        found = []
        names = {it.name for it in self.folder.iterdir()} if self.folder.is_dir() else set()
        for name in sorted(names):
            if name.startswith("checkpoint_") and name.endswith(SUFFIX):
                with _warned(self.folder / name):
                    found.append(self.read(name.removesuffix(SUFFIX)))
            elif name.startswith("checkpoint_") and name + SUFFIX not in names:
                _log.warning("%s was not finished: it is skipped", self.folder / name)
        kept = [record for record in found if not record.temporary and record.kind != "null"]
        return sorted(kept, key=lambda record: (record.iteration, record.created_at))

    def read(self, name: str) -> Record:
        """Return the record of the checkpoint called *name*.

        Raises:
            NotFoundError: There is none, or it was not finished.
            CorruptError: The record is damaged.
        """
        file = self.folder / (name + SUFFIX)
        try:
            return Record.decode(file.read_bytes(), str(file))
        except FileNotFoundError:
            raise NotFoundError(f"there is no checkpoint {name!r} in {self.folder}") from None

    def path(self, record: Record) -> Path:
        """Return where the files of a checkpoint are: the folder, or what in it the user's code gave."""
        return self.folder.joinpath(record.name, *PurePosixPath(record.inner).parts)

    def check(self, record: Record) -> None:
        """Read every file of a checkpoint.

        Raises:
            CorruptError: One is missing or is not what was committed; the message names it.
        """
        for path, (size, digest) in record.files.items():
            file = self.folder.joinpath(record.name, *path.split("/"))
            if not file.is_file() or file.stat().st_size != size or digest_of_file(file).hex() != digest:
                raise CorruptError(f"{path!r} in {self.folder / record.name} is not what was saved")

    def delete(self, record: Record) -> None:
        """Remove a checkpoint; one that is not there is fine."""
        # The record goes first: a reader never finds one whose files are half gone.
        (self.folder / (record.name + SUFFIX)).unlink(missing_ok=True)
        shutil.rmtree(self.folder / record.name, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what a crash left: staged folders and temporary checkpoints."""
        for place in self.folder.glob(f"{STAGING}*"):
            shutil.rmtree(place, ignore_errors=True)
        for file in self.folder.glob(f"checkpoint_tmp*{SUFFIX}"):
            self.delete(Record(file.name.removesuffix(SUFFIX), "files", 0))

    # Checkpoints as bytes.

    def pack(self, record: Record) -> bytes:
        """Return a checkpoint as an archive: `record.json`, and its files below `files/`."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("record.json", record.encode())
            for path in record.files:
                archive.write(self.folder.joinpath(record.name, *path.split("/")), f"files/{path}")
        return file.getvalue()

    def unpack(self, data: bytes, *, temporary: bool = False) -> Record:
        """Commit the checkpoint that `pack` made, under its own name or a temporary one.

        Raises:
            CorruptError: The bytes are not those of a checkpoint; nothing was made.
        """
        stage = self.stage()
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                record = Record.decode(archive.read("record.json"), "the checkpoint object")
                for path in record.files:
                    target = stage.joinpath(*path.split("/"))
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(f"files/{path}") as source, target.open("xb") as written:
                        shutil.copyfileobj(source, written, 1 << 20)
        except (zipfile.BadZipFile, KeyError) as error:
            raise CorruptError(f"this object is no checkpoint of a trial: {error}") from error
        else:
            for path in record.folders:
                stage.joinpath(*path.split("/")).mkdir(parents=True, exist_ok=True)
            if temporary:
                record = replace(record, name=f"checkpoint_tmp{uuid.uuid4().hex[:8]}", temporary=True)
            if record.kind == "null":
                return self.commit(None, record)
            made = self.commit(stage, replace(record, files={}, folders=()))
            if made.files != record.files:
                self.delete(made)
                raise CorruptError("the files of this checkpoint object are not those that were saved")
            return made
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def find(path: str | os.PathLike[str], within: Path | None = None) -> tuple[CheckpointFolder, Record]:
    """Return the checkpoint that *path* is, or lies in.

    Args:
        path: A checkpoint's folder, or anything below it.
        within: Look no higher than this folder.

    Raises:
        NotFoundError: It is in none.
    """
    place = Path(path).absolute()
    for candidate in (place, *place.parents):
        if candidate == within:
            break
        if candidate.with_name(candidate.name + SUFFIX).is_file() and candidate.name.startswith(
            "checkpoint_"
        ):
            folder = CheckpointFolder(candidate.parent)
            return folder, folder.read(candidate.name)
    raise NotFoundError(f"{str(path)!r} is in no checkpoint: give the path that save() returned")


def _safe(path: str) -> str:
    """Return *path* when a file in a checkpoint's folder can have it, the fields' own files included."""
    check_path(path.removeprefix(f"{INSIDE}/"))
    return path


def _contents(stage: Path) -> tuple[dict[str, tuple[int, str]], tuple[str, ...]]:
    """Make everything in a folder durable; return its files with size and digest, and the empty folders."""
    files: dict[str, tuple[int, str]] = {}
    empty: list[str] = []
    for place, folders, names in os.walk(stage):
        here = Path(place)
        for name in folders:
            if (here / name).is_symlink():
                raise UsageError(f"{name!r} in the checkpoint is a link to a folder: copy what it points to")
        for name in names:
            file = here / name
            path = _safe(file.relative_to(stage).as_posix())
            if not file.is_file():
                raise UsageError(f"{path!r} in the checkpoint is neither a file nor a folder: take it out")
            sync_file(file)
            files[path] = (file.stat().st_size, digest_of_file(file).hex())
        if not folders and not names and here != stage:
            empty.append(here.relative_to(stage).as_posix())
        sync_folder(here)
    return dict(sorted(files.items())), tuple(sorted(empty))


def _failed(action: str, place: Path, error: OSError) -> StoreError:
    if isinstance(error, StoreError):
        return error
    return StoreError(
        f"cannot {action} {str(place)!r}: {error.strerror or error}. Free some space or choose another folder"
    )


class _warned:  # noqa: N801  a context manager, used like a function
    """Log what is wrong with one record, and go on to the next."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, (CorruptError, FormatError, NotFoundError)):
            _log.warning("%s is skipped: %s", self._file, error)
            return True
        return False
