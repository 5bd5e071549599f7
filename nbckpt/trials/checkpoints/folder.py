"""A trial's checkpoints on disk: a folder of the user's files, and beside it the record that commits it.

    checkpoint_000010/        the user's files, without any file of nbckpt
    checkpoint_000010.json    the record, written last: without it the folder is not a checkpoint

A new checkpoint is staged in a hidden folder beside the others, and then renamed. The record of a checkpoint
from an object in memory says `temporary`. A null checkpoint, which restarts a trial from its beginning, is a
record without a folder.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError
from nbckpt.store import STAGING
from nbckpt.store.files import (
    commit,
    discard,
    exists,
    explained,
    only_files,
    rename,
    stage_folder,
    sweep,
    write_file,
)
from nbckpt.store.fsync import sync_folder
from nbckpt.store.scan import OUTSIDE, link_outside
from nbckpt.trials.checkpoints.contents import check_files, contents
from nbckpt.trials.checkpoints.packing import check_packed, pack, unpack
from nbckpt.trials.checkpoints.record import PREFIX, SUFFIX, TEMPORARY, Record

_FORMER = f"{STAGING}-former-"
COMMITS_S = 10.0
"""After how many seconds a folder without a record counts as left behind."""
_ADVICE = "Free some space or choose another folder"

_log = logging.getLogger("nbckpt")


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
        with explained("make", self.folder, _ADVICE):
            return stage_folder(self.folder)

    @contextmanager
    def staged(self) -> Iterator[Path]:
        """Lend a new empty folder for the block; remove it unless the block commits it."""
        stage = self.stage()
        try:
            yield stage
        finally:
            discard(stage)

    def commit(self, stage: Path | None, record: Record) -> Record:
        """Make the staged folder the checkpoint *record*; see `publish`. Return the record with its files.

        Raises:
            UsageError: The folder holds a link that leads outside or to a folder, or a special file.
            StoreError: The disk failed.
        """
        if stage is not None:
            with explained("write", self.folder / record.name, _ADVICE):
                files, folders = contents(stage)
            record = replace(record, files=files, folders=folders)
        return self.publish(stage, record)

    def publish(self, stage: Path | None, record: Record) -> Record:
        """Make the staged folder the checkpoint *record*, whose files are the staged ones. Return the record.

        A published checkpoint survives a crash of the machine, and replaces a checkpoint with the same name.
        After an error everything is unchanged, including the staged folder.

        Raises:
            StoreError: The disk failed.
        """
        with explained("write", self.folder / record.name, _ADVICE):
            self._replace(None if record.kind == "null" else stage, record)
        return record

    def _replace(self, stage: Path | None, record: Record) -> None:
        """Replace the folder and the record that have the name of *record*.

        At every moment the former or the new checkpoint is in place, or the former one is beside it under
        hidden names, from which `_bring_back` restores it.
        """
        folder, file = self.folder / record.name, self.folder / (record.name + SUFFIX)
        former, former_record = self._former(record.name)
        self._bring_back(record.name)
        is_new = not file.exists()
        try:
            if stage is not None:
                if not is_new:
                    rename(file, former_record)
                if folder.exists():
                    rename(folder, former)
                commit(stage, folder)
            # The record goes last: a crash above this line leaves a folder that is not a checkpoint.
            write_file(file, record.encode())
        except BaseException:
            with suppress(OSError):
                if is_new or former_record.exists():
                    file.unlink(missing_ok=True)
                if stage is not None and not stage.exists():
                    rename(folder, stage)
                self._bring_back(record.name)
            raise
        self._forget(record.name)

    def _bring_back(self, name: str) -> None:
        """Restore a checkpoint whose replacement a crash interrupted; remove one that was replaced."""
        folder, file = self.folder / name, self.folder / (name + SUFFIX)
        former, former_record = self._former(name)
        if former_record.exists() and not file.exists():
            if former.exists():
                discard(folder)
                rename(former, folder)
            rename(former_record, file)
            sync_folder(self.folder)
        self._forget(name)

    def _forget(self, name: str) -> None:
        former, former_record = self._former(name)
        discard(former_record)
        discard(former)

    def _former(self, name: str) -> tuple[Path, Path]:
        """Return the hidden places of a checkpoint's folder and record during their replacement."""
        return self.folder / f"{_FORMER}{name}", self.folder / f"{_FORMER}{name}{SUFFIX}"

    def records(self) -> list[Record]:
        """Return the committed checkpoints, the oldest iteration first. Temporary ones are left out.

        A damaged record is skipped with a warning in the log, and so is a folder without a record.
        """
        records, damages = self.scan()
        for damage in damages:
            _log.warning("skipped: %s", damage)
        return records

    def scan(self) -> tuple[list[Record], list[str]]:
        """Return the committed checkpoints, and a sentence about each checkpoint that cannot be read."""
        records: list[Record] = []
        damages: list[str] = []
        names: set[str] = set()
        with explained("read", self.folder), suppress(FileNotFoundError, NotADirectoryError):
            names = {entry.name for entry in self.folder.iterdir()}
        for name in sorted(names):
            try:
                if name.startswith(PREFIX) and name.endswith(SUFFIX):
                    records.append(self.read(name.removesuffix(SUFFIX)))
                elif name.startswith(PREFIX) and name + SUFFIX not in names and _is_left(self.folder / name):
                    _log.warning("skipped: %s was not finished", self.folder / name)
            except (CorruptError, FormatError, StoreError) as error:
                if name.removeprefix(PREFIX).removesuffix(SUFFIX).isdecimal():
                    damages.append(str(error))
                else:  # it may be the user's file
                    _log.warning("skipped: %s", error)
            except NotFoundError:  # removed in the meantime
                continue
        lasting = [record for record in records if not record.temporary and record.kind != "null"]
        return sorted(lasting, key=lambda record: (record.iteration, record.created_at)), damages

    def read(self, name: str) -> Record:
        """Return the record of the checkpoint *name*.

        Raises:
            NotFoundError: There is no such checkpoint, or it was not finished.
            CorruptError: The record is damaged, or belongs to another checkpoint.
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
        """Return the path that the user's code gave: a checkpoint's folder, or a path inside it."""
        return self.folder.joinpath(record.name, *PurePosixPath(record.inner).parts)

    def check(self, record: Record) -> None:
        """Read every file of a checkpoint.

        Raises:
            CorruptError: A file is missing or differs from the committed one; the message names the file.
        """
        check_files(self.folder / record.name, record, self.folder)

    def delete(self, record: Record) -> None:
        """Remove a checkpoint. It may be missing.

        Raises:
            StoreError: The disk failed; the checkpoint is whole.
        """
        file = self.folder / (record.name + SUFFIX)
        with explained("remove", file, _ADVICE):
            # The record goes first: a reader never finds a record whose files are partly gone.
            file.unlink(missing_ok=True)
        discard(self.folder / record.name)

    def newest_whole(self, newest: str = "") -> tuple[Record | None, list[str]]:
        """Return the newest complete checkpoint, and a note for each checkpoint that was passed over.

        Args:
            newest: The checkpoint that is wanted most. If it is lost, remote storage may bring it back.

        Raises:
            StoreError: The remote storage cannot be reached.
        """
        notes = self.recover(newest) if newest else []
        for record in reversed(self.records()):
            try:
                self.check(record)
            except CorruptError as error:
                notes.append(f"{error}; going on from an older checkpoint")
                _log.warning("%s", notes[-1])
            else:
                return record, notes
        return None, notes

    def recover(self, newest: str) -> list[str]:
        """Download lost checkpoints if *newest* is not whole and remote storage has checkpoints too.

        Returns:
            A sentence about each checkpoint that could not be downloaded.

        Raises:
            StoreError: The remote storage cannot be reached.
        """
        del newest
        return []

    def sweep(self) -> None:
        """Remove staged, unfinished and temporary checkpoints, and restore those that a crash hid.

        Raises:
            StoreError: The disk failed; sweeping again may help.
        """
        with explained("clean", self.folder, _ADVICE):
            for hidden in list(self.folder.glob(f"{_FORMER}*")):
                self._bring_back(hidden.name.removeprefix(_FORMER).removesuffix(SUFFIX))
            sweep(self.folder, older_s=0)
            # Only names that nbckpt gives: `checkpoint_best` may be the user's folder.
            entries = self.folder.glob(f"{PREFIX}*")
            numbered = [entry for entry in entries if entry.name.removeprefix(PREFIX).isdecimal()]
            for entry in numbered:
                if not exists(entry.with_name(entry.name + SUFFIX)):
                    discard(entry)
            for entry in self.folder.glob(f"{TEMPORARY}*"):
                self.delete(Record(entry.name.removesuffix(SUFFIX), "files", 0))

    def pack(self, record: Record) -> bytes:
        """Check a checkpoint's files. Return the checkpoint as bytes, for `unpack`.

        Raises:
            CorruptError: Its files differ from those that were saved.
        """
        self.check(record)
        return pack(self.folder / record.name, record)

    def unpack(self, data: bytes, *, temporary: bool = False) -> Record:
        """Commit a checkpoint from the bytes of `pack`, under its own name or a temporary name.

        Raises:
            CorruptError: The bytes are not a checkpoint; nothing was made.
            StoreError: The disk failed; nothing was made.
        """
        check_packed(data)
        with self.staged() as stage:
            with explained("write", stage, _ADVICE):
                record = unpack(data, stage)
            if temporary:
                name = f"{TEMPORARY}{uuid.uuid4().hex[:8]}_{record.step:06d}"
                record = replace(record, name=name, temporary=True)
            return self.commit(stage, record)


def find(path: str | os.PathLike[str]) -> tuple[CheckpointFolder, Record]:
    """Return the checkpoint whose folder is *path*, or contains it.

    Raises:
        NotFoundError: No checkpoint contains the path.
        CorruptError: Its record is damaged.
    """
    inside = Path(path).absolute()
    for candidate in (inside, *inside.parents):
        if candidate.name.startswith(PREFIX) and candidate.with_name(candidate.name + SUFFIX).is_file():
            folder = CheckpointFolder(candidate.parent)
            return folder, folder.read(candidate.name)
    raise NotFoundError(f"{str(path)!r} is in no checkpoint: give the path that save() returned")


def _is_left(folder: Path) -> bool:
    """Return whether a folder without a record is left from a crash: a trial that runs may commit it."""
    with suppress(OSError):
        status = folder.stat()
        return time.time() - max(status.st_mtime, status.st_ctime) > COMMITS_S  # a rename sets st_ctime
    return False
