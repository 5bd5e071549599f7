"""Trials' checkpoints for a listing: found by their names, and not read before they are shown."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.content import Content
from nbckpt.core.plain import folder_tree, read_manifest
from nbckpt.core.tree import INSIDE, Tree
from nbckpt.errors import NbckptError
from nbckpt.store.scan import link_outside
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import PREFIX, SUFFIX
from nbckpt.trials.model import spec_file
from nbckpt.trials.model.metrics import lookup, numbers
from nbckpt.trials.views.formats import shown_value

_TRIAL = re.compile(r"t\d+")
_NUMBERED = re.compile(rf"{PREFIX}\d+")

_log = logging.getLogger("nbckpt")


@dataclass(frozen=True, slots=True)
class TrialCheckpoint:
    """A committed checkpoint of a trial. Only its name was read.

    Attributes:
        trial: The trial's folder.
        name: The name of the checkpoint's folder in the trial's folder.
        moment: When it was committed, as in the key of a store's checkpoint.
    """

    trial: Path
    name: str
    moment: str = ""

    @property
    def ref(self) -> str:
        """The name that people use for it: `EXPERIMENT/t3@10`."""
        return f"{self.trial.parent.name}/{self.trial.name}@{int(self.name.removeprefix(PREFIX))}"

    def read(self, metric: str = "") -> tuple[Manifest, int]:
        """Return the checkpoint's manifest, and its size in bytes.

        The manifest's message is the value of a metric.

        Args:
            metric: Which metric; by default the first that was reported.

        Raises:
            NbckptError: The checkpoint cannot be read, or is gone.
        """
        record = CheckpointFolder(self.trial).read(self.name)
        metric = metric or next(numbers(record.metrics), "")
        value = lookup(record.metrics, metric)
        files = {path: Content(size) for path, (size, _) in record.files.items()}
        manifest = replace(
            read_manifest(self.trial / self.name),
            created_at=record.created_at,
            message="" if value is None else f"{metric} {shown_value(value).text}",
            files={path: content for path, content in files.items() if not path.startswith(f"{INSIDE}/")},
        )
        return manifest, record.size

    def tree(self, metric: str = "") -> Tree:
        """Return the checkpoint as a tree, to write it elsewhere. Its files are read when they are written.

        Raises:
            NbckptError: The checkpoint cannot be read, or is gone.
        """
        return replace(folder_tree(self.trial / self.name), manifest=self.read(metric)[0])


def find(catalog: Catalog, *, newest: bool = False) -> Iterator[TrialCheckpoint]:
    """Yield the checkpoints of all trials, or only the *newest* of each trial.

    The checkpoints of an unreadable trial are left out.
    """
    for experiment in catalog.names():
        for trial in _entries(catalog.folder / experiment):
            if _TRIAL.fullmatch(trial.name) and not link_outside(catalog.folder / experiment, trial.name):
                checkpoints = sorted(_of_trial(Path(trial.path)), key=lambda checkpoint: checkpoint.moment)
                yield from checkpoints[-1:] if newest else checkpoints


def metric_of(experiment: Path) -> str:
    """Return the metric that compares an experiment's trials; empty if there is none or it is unknown."""
    try:
        metric: object = spec_file.read(experiment).spec.metric
    except NbckptError:
        return ""
    return metric if isinstance(metric, str) else ""  # anyone may have written the file


def _of_trial(trial: Path) -> Iterator[TrialCheckpoint]:
    entries = {entry.name: entry for entry in _entries(trial)}
    for name in entries:
        record = entries.get(name + SUFFIX)
        if record is not None and _NUMBERED.fullmatch(name):
            try:  # the file's time, so that no record has to be read: see docs/decisions/0036
                written = datetime.fromtimestamp(record.stat().st_mtime, UTC)
            except (OSError, OverflowError, ValueError):  # removed meanwhile, or an impossible year
                continue
            yield TrialCheckpoint(trial, name, f"{written:%Y%m%dT%H%M%S%f}Z")


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError as error:
        _log.warning("%s is left out: %s", folder, error.strerror or error)
        return []
