"""The experiments in one folder, and the names by which people ask for them and for what is in them."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.trials import spec as spec_file
from nbckpt.trials.checkpoints import Record
from nbckpt.trials.experiment import Experiment
from nbckpt.trials.trial import Trial


@dataclass(frozen=True)
class Library:
    """The experiments below *folder*."""

    folder: Path

    def names(self) -> list[str]:
        """Return the names of the experiments, the newest last."""
        if not self.folder.is_dir():
            return []
        files = [(it / spec_file.FILE) for it in self.folder.iterdir() if not it.name.startswith(".")]
        there = [(file.parent.stat().st_ctime, file.parent.name) for file in files if file.is_file()]
        return [name for _, name in sorted(there)]

    def open(self, name: str = "") -> Experiment:
        """Return an experiment by its name, by default the newest.

        Raises:
            NotFoundError: There is none.
        """
        names = self.names()
        if not names or (name and name not in names):
            known = f"there are {', '.join(names[-8:])}" if names else "start one with %ckpt run"
            raise NotFoundError(f"there is no experiment{f' {name!r}' if name else ''}: {known}")
        return Experiment.read(self.folder / (name or names[-1]))

    def newest_whole(self) -> Experiment:
        """Return the newest experiment that can be read.

        Raises:
            NotFoundError: There is no experiment.
            CorruptError: None can be read.
        """
        for name in reversed(self.names()):
            with suppress(CorruptError, FormatError, StoreError):
                return self.open(name)
        return self.open()

    def trial(self, ref: str) -> tuple[Experiment, Trial]:
        """Return the trial that `t3` means in the newest experiment, or `EXPERIMENT/t3`.

        Raises:
            NotFoundError: There is no such experiment.
            UsageError: It has no such trial.
        """
        name, _, trial = ref.rpartition("/")
        experiment = self.open(name)
        return experiment, experiment.trial(trial)

    def checkpoint(self, ref: str) -> tuple[Trial, Record]:
        """Return the checkpoint that `t3@10`, or `t3` for its newest, means.

        Raises:
            NotFoundError: There is no such experiment or checkpoint.
            UsageError: There is no such trial, or the step is no number.
        """
        name, _, step = ref.partition("@")
        _, trial = self.trial(name)
        records = trial.checkpoints.records()
        if step and not step.isdigit():
            raise UsageError(f"{ref!r} is no checkpoint of a trial: write {name}@10 for the one of step 10")
        found = [it for it in records if not step or it.step == int(step)]
        if not found:
            steps = ", ".join(str(it.step) for it in records) or "none"
            raise NotFoundError(
                f"{name} has no checkpoint{f' of step {step}' if step else ''}: there are {steps}"
            )
        return trial, found[-1]

    def remove_checkpoint(self, ref: str, *, dry_run: bool = False) -> int:
        """Remove one checkpoint of a trial for good, and return the bytes that it takes.

        Raises:
            NotFoundError: There is none.
            UsageError: The trial runs, or would go on from it.
        """
        trial, record = self.checkpoint(ref)
        experiment = self.open(trial.folder.parent.name)
        if not trial.finished and (experiment.running or experiment.runs_elsewhere()):
            raise UsageError(
                f"{ref!r} is of a trial that runs: stop it first, with %ckpt stop {ref.partition('@')[0]}"
            )
        if not trial.finished and record.name == trial.checkpoint:
            raise UsageError(f"{ref!r} is what the trial goes on from: resume it to its end or stop it first")
        if not dry_run:
            trial.checkpoints.delete(record)
        return record.size

    def remove(self, name: str, *, dry_run: bool = False) -> int:
        """Remove an experiment with all its checkpoints, and return the bytes that it takes.

        Raises:
            NotFoundError: There is none.
            UsageError: It runs.
        """
        experiment = self.open(name)
        if experiment.running or experiment.runs_elsewhere():
            raise UsageError(f"{name!r} runs: stop it first, with %ckpt stop {name}")
        size = sum(it.stat().st_size for it in experiment.folder.rglob("*") if it.is_file())
        if not dry_run:
            # The spec goes first: what a crash leaves is no experiment.
            (experiment.folder / spec_file.FILE).unlink()
            shutil.rmtree(experiment.folder)
            (self.folder / f".{name}.lock").unlink(missing_ok=True)
        return size
