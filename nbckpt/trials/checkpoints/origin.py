"""The origin of an experiment: the checkpoint that its trials start from.

    <experiment>/origin/checkpoint_000000/        a copy of the user's checkpoint, as in a trial's folder
    <experiment>/origin/checkpoint_000000.json    its record

A trial without a checkpoint of its own gets a copy of the origin as a temporary checkpoint, so every executor
restores it like any other checkpoint.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from nbckpt.errors import CorruptError
from nbckpt.store.files import discard
from nbckpt.store.scan import OUTSIDE, link_outside
from nbckpt.trials.checkpoints.copying import copy_into
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import SUFFIX, TEMPORARY, Record, name_of

FOLDER = "origin"
NAME = name_of(0)


def origin_of(experiment: Path) -> CheckpointFolder:
    """Return the folder that holds an experiment's origin, if it has one.

    Raises:
        CorruptError: The folder is a link that leads outside.
    """
    if link_outside(experiment, FOLDER):
        raise CorruptError(f"{experiment / FOLDER} is not read: {OUTSIDE}")
    return CheckpointFolder(experiment / FOLDER)


@contextmanager
def lent(trial: Path) -> Iterator[Record]:
    """Copy the origin into a trial's folder, as a temporary checkpoint, for the block.

    The user's code may write into the copy; the origin stays as it is.

    Raises:
        NotFoundError: The experiment has no origin.
        CorruptError: The origin's files differ from those that were saved.
        StoreError: The disk failed.
    """
    origin, own = origin_of(trial.parent), CheckpointFolder(trial)
    record = origin.read(NAME)
    name = f"{TEMPORARY}{uuid.uuid4().hex[:8]}_{record.step:06d}"
    made = copy_into(own, replace(record, name=name, temporary=True), origin, record)
    try:
        yield made
    finally:
        discard(own.folder / (name + SUFFIX))
        discard(own.folder / name)
