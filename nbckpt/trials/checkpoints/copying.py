"""Copying: make a checkpoint of one folder a checkpoint of another."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from nbckpt.errors import CorruptError
from nbckpt.store.files import explained
from nbckpt.store.scan import OUTSIDE, link_outside
from nbckpt.trials.checkpoints.contents import check_files
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.checkpoints.remote import RemoteFolder


def copy_into(own: CheckpointFolder, target: Record, source: CheckpointFolder, record: Record) -> Record:
    """Copy a checkpoint into *own*, with the name and the counts of *target*. Return its new record.

    It replaces a checkpoint of that name, also on remote storage. After an error the former one is whole.
    Others may write to *source* or remove its checkpoints meanwhile: the copy is whole, or there is none.

    Raises:
        CorruptError: The files of the checkpoint differ from those that were saved, or are gone.
        StoreError: The disk or the remote storage failed.
    """
    contents = {name: getattr(record, name) for name in ("kind", "inner", "files", "folders")}
    with own.staged() as stage:
        with explained("copy", source.folder / record.name, "Free some space"):
            _copy(source, record, stage)
        # The copy, not the source: what is checked is what the trial will load.
        check_files(stage, record, source.folder)
        made = own.publish(stage, replace(target, **contents))
    if isinstance(own, RemoteFolder):
        own.upload(made)
    return made


def _copy(source: CheckpointFolder, record: Record, stage: Path) -> None:
    """Copy the files that a record names, and no others."""
    for path in record.files:
        file, copied = source.folder / record.name / path, stage / path
        if link_outside(source.folder, f"{record.name}/{path}"):
            raise CorruptError(f"{path!r} of {record.name} in {source.folder} is not read: {OUTSIDE}")
        copied.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copy(file, copied)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, shutil.SpecialFileError):
            raise CorruptError(
                f"{path!r} of {record.name} in {source.folder} is not what was saved: it is gone"
            ) from None
    for path in record.folders:
        (stage / path).mkdir(parents=True, exist_ok=True)
