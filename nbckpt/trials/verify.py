"""verify: reads the files of experiments, and reports what is damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from nbckpt.errors import CorruptError, FormatError, NbckptError, NotFoundError
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model import spec as spec_file
from nbckpt.trials.model.trial import Trial, read_trials


@dataclass
class VerifiedTrials:
    """The result of a verification of experiments.

    Attributes:
        checkpoints: The number of checkpoints that were read.
        size: Their size in bytes.
        damages: For each damaged experiment, trial or checkpoint: its name and the damage.
    """

    checkpoints: int = 0
    size: int = 0
    damages: list[tuple[str, str]] = field(default_factory=list)

    def __repr__(self) -> str:
        read = f"checkpoints={self.checkpoints}, size={self.size}"
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
            for trial in read_trials(catalog.folder / ref, {}):
                _verify_trial(verified, trial)
        elif "@" in ref:
            trial, record = catalog.checkpoint(ref)
            _verify_record(verified, trial, record)
        else:
            _verify_trial(verified, catalog.trial(ref)[1])
    return verified


def _damage_of_spec(catalog: Catalog, name: str) -> Iterator[tuple[str, str]]:
    try:
        spec_file.read(catalog.folder / name)
    except (CorruptError, FormatError) as error:
        yield name, str(error)


def _verify_trial(verified: VerifiedTrials, trial: Trial) -> None:
    records, damages = trial.checkpoints.scan()
    verified.damages += [(_label(trial), damage) for damage in (trial.damage, *damages) if damage]
    for record in records:
        _verify_record(verified, trial, record)


def _verify_record(verified: VerifiedTrials, trial: Trial, record: Record) -> None:
    try:
        trial.checkpoints.check(record)
    except (NbckptError, OSError) as error:
        if not _is_current(trial.checkpoints, record):
            return
        verified.damages.append((f"{_label(trial)}@{record.step}", str(error)))
    verified.checkpoints += 1
    verified.size += record.size


def _is_current(checkpoints: CheckpointFolder, record: Record) -> bool:
    """Tell whether a checkpoint is still there. A running trial may have removed or replaced it meanwhile."""
    with suppress(NotFoundError):
        return checkpoints.read(record.name) == record
    return False


def _label(trial: Trial) -> str:
    return f"{trial.folder.parent.name}/{trial.id}"
