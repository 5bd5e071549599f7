"""Find the checkpoint that trials start from, and copy it into the experiment: `nbckpt.run(restore=…)`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import NotFoundError, UsageError
from nbckpt.settings import Settings
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.checkpoints.copying import copy_into
from nbckpt.trials.checkpoints.folder import CheckpointFolder, find
from nbckpt.trials.checkpoints.origin import NAME, origin_of
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.training.stager import CheckpointStager

Restorable = Checkpoint | str | os.PathLike[str]
"""What trials can start from: a Checkpoint, a path, a URL, `EXP/t3@10`, or a name in the store."""

_TRIAL = re.compile(r"([^/@]+/)?t[0-9]{1,18}(@[0-9]{1,18})?")


class Origin(NamedTuple):
    """A checkpoint that was found: an object or the path of a file, or a record in a trial's folder.

    *label* says where it is from, for people.
    """

    label: str
    given: Checkpoint | Path | tuple[CheckpointFolder, Record]


def find_origin(restore: Restorable | None, experiments: Path) -> Origin | None:
    """Find the checkpoint that a user names; None if the user names none.

    Raises:
        NotFoundError: There is no such checkpoint.
        CorruptError: A trial's checkpoint is damaged.
        UsageError: *restore* is not a checkpoint.
    """
    if restore is None:
        return None
    if isinstance(restore, Checkpoint):
        return Origin(repr(restore), restore)
    try:
        text = os.fspath(restore)
    except TypeError:
        raise UsageError(
            f"restore={restore!r} is not a checkpoint: give a Checkpoint, a path, a URL, EXPERIMENT/t3@10, "
            "or a name in the store"
        ) from None
    if "://" in text:
        checkpoint = Checkpoint.from_uri(text)
        return Origin(repr(checkpoint), checkpoint)
    path = Path(text).expanduser().absolute()
    if path.exists():
        return _at(path)
    if _TRIAL.fullmatch(text):
        trial, record = Catalog(experiments).checkpoint(text)
        return _whole(trial.checkpoints, record)
    if isinstance(restore, os.PathLike) or path.parent != Path.cwd():
        raise NotFoundError(f"there is no checkpoint at {text!r}")
    checkpoint = Checkpoint.from_store(Settings.load().store, text)
    return Origin(repr(checkpoint), checkpoint)


def _at(path: Path) -> Origin:
    """Return what is at a path: a trial's checkpoint, a folder or a file."""
    try:
        return _whole(*find(path))
    except NotFoundError:
        return Origin(str(path), Checkpoint.from_directory(path) if path.is_dir() else path)


def _whole(folder: CheckpointFolder, record: Record) -> Origin:
    """Return a trial's checkpoint after a check of its files."""
    if record.kind == "null":
        raise NotFoundError(f"{record.name} in {folder.folder} holds nothing to start from")
    folder.check(record)
    return Origin(f"{folder.folder.parent.name}/{folder.folder.name}@{record.step}", (folder, record))


def keep_origin(origin: Origin, experiment: Path) -> None:
    """Copy a checkpoint into an experiment's folder, whole or not at all. It replaces a former origin.

    Its counts are left out, because the results of a new trial begin at 1.

    Raises:
        NbckptError: The checkpoint cannot be read, or the disk failed.
    """
    own, empty = origin_of(experiment), Record(NAME, "files", 0)
    if not isinstance(origin.given, tuple):
        stager = CheckpointStager(own)
        stager.take(origin.given)
        stager.save(empty)
        return
    copy_into(own, empty, *origin.given)
