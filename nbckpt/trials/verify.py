"""verify: reads the files of experiments, and reports what is damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nbckpt.errors import CorruptError, FormatError, NbckptError, NotFoundError
from nbckpt.provenance.trial import read_attempts
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.origin import FOLDER, origin_of
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model import spec_file
from nbckpt.trials.model.listing import read_trials
from nbckpt.trials.model.trial import Trial


@dataclass
class VerifiedTrials:
    """The result of a verification of experiments.

    Attributes:
        checkpoints: The number of checkpoints that were read.
        media: The number of files of media that were read.
        size: The size of all this in bytes.
        damages: For each damaged experiment, trial or checkpoint: its name and the damage.
    """

    checkpoints: int = 0
    media: int = 0
    size: int = 0
    damages: list[tuple[str, str]] = field(default_factory=list)
    _read: set[Path] = field(default_factory=set)

    def __repr__(self) -> str:
        read = f"checkpoints={self.checkpoints}, media={self.media}, size={self.size}"
        return f"VerifiedTrials({read}, damages={len(self.damages)})"


def verify_trials(catalog: Catalog, refs: Sequence[str]) -> VerifiedTrials:
    """Read every file of experiments, of trials, or of trials' checkpoints. Nothing is unpickled or changed.

    Raises:
        NotFoundError: One of them does not exist.
        UsageError: An experiment has no such trial.
    """
    verified, names = VerifiedTrials(), catalog.names()
    for ref in refs:
        if ref in names:
            verified.damages += _damage_of_spec(catalog, ref)
            _verify_origin(verified, catalog.folder / ref)
            for trial in read_trials(catalog.folder / ref, {}):
                _verify_trial(verified, trial)
        elif "@" in ref:
            trial, record = catalog.checkpoint(ref)
            _verify_record(verified, trial.checkpoints, _label(trial), record)
        else:
            _verify_trial(verified, catalog.trial(ref)[1])
    return verified


def _damage_of_spec(catalog: Catalog, name: str) -> Iterator[tuple[str, str]]:
    try:
        spec_file.read(catalog.folder / name)
    except (CorruptError, FormatError) as error:
        yield name, str(error)


def _verify_trial(verified: VerifiedTrials, trial: Trial) -> None:
    verified.damages += _damage_of_provenance(trial)
    records, damages = trial.checkpoints.scan()
    verified.damages += [(_label(trial), damage) for damage in (trial.damage, *damages) if damage]
    for record in records:
        _verify_record(verified, trial.checkpoints, _label(trial), record)
    _verify_media(verified, trial)


def _verify_origin(verified: VerifiedTrials, experiment: Path) -> None:
    """Read the checkpoint that an experiment's trials start from, if there is one."""
    label = f"{experiment.name}/{FOLDER}"
    try:
        checkpoints = origin_of(experiment)
        records, damages = checkpoints.scan()
    except CorruptError as error:
        verified.damages.append((label, str(error)))
        return
    verified.damages += [(label, damage) for damage in damages]
    for record in records:
        _verify_record(verified, checkpoints, label, record)


def _verify_media(verified: VerifiedTrials, trial: Trial) -> None:
    """Read the media of a trial. A file that several results or trials share is read once."""
    for media in trial.media:
        if media.path not in verified._read:
            verified._read.add(media.path)
            try:
                verified.size += len(media.read())
                verified.media += 1
            except (NbckptError, OSError) as error:
                verified.damages.append((_label(trial), str(error)))


def _damage_of_provenance(trial: Trial) -> Iterator[tuple[str, str]]:
    try:
        for attempt in read_attempts(trial.folder):
            attempt.check()
    except NotFoundError:  # it has none
        return
    except NbckptError as error:
        yield _label(trial), str(error)


def _verify_record(
    verified: VerifiedTrials, checkpoints: CheckpointFolder, label: str, record: Record
) -> None:
    try:
        checkpoints.check(record)
    except (NbckptError, OSError) as error:
        if not _is_current(checkpoints, record):
            return
        verified.damages.append((f"{label}@{record.step}", str(error)))
    verified.checkpoints += 1
    verified.size += record.size


def _is_current(checkpoints: CheckpointFolder, record: Record) -> bool:
    """Tell whether a checkpoint is still there. A running trial may have removed or replaced it meanwhile."""
    with suppress(NotFoundError):
        return checkpoints.read(record.name) == record
    return False


def _label(trial: Trial) -> str:
    return f"{trial.folder.parent.name}/{trial.id}"
