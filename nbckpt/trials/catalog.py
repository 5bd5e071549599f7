"""Catalog: the experiments in one folder, and the names of experiments, trials and their checkpoints."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nbckpt.core.trust import Signer
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store.files import exists
from nbckpt.store.locks import Timeout
from nbckpt.store.scan import link_outside, size_of
from nbckpt.suggestion import suggestion
from nbckpt.trials.checkpoints.origin import FOLDER, origin_of
from nbckpt.trials.checkpoints.record import SUFFIX, Record
from nbckpt.trials.engine.claim import at_rest
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model import spec_file
from nbckpt.trials.model.listing import read_trials
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.trust import sign_checkpoints
from nbckpt.trials.trash import Removal, label_of, take_away

_LOCK_S = 1.0
_STEP = re.compile("[0-9]{1,18}")
_TRIAL = re.compile("t[0-9]+")

_log = logging.getLogger("nbckpt")


@dataclass(frozen=True)
class Catalog:
    """The experiments below *folder*.

    Examples:
        >>> with nbckpt.track("baseline") as run:
        ...     run.report(loss=0.5)
        >>> nbckpt.trials.Catalog(Path(".nbckpt/experiments")).open("baseline").trials[0].metric("loss")
        [0.5]
    """

    folder: Path

    def names(self) -> list[str]:
        """Return the names of the experiments, that which began last at the end. A link outside is left out.

        Raises:
            StoreError: The folder cannot be read.
        """
        try:
            entries = list(self.folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(f"cannot read {str(self.folder)!r}: {error.strerror or error}") from error
        dated = []
        for entry in entries:
            with suppress(OSError):  # an unreadable folder
                spec = f"{entry.name}/{spec_file.FILE}"
                if entry.name.startswith(".") or link_outside(self.folder, spec):
                    continue
                if (self.folder / spec).is_file():
                    dated.append((spec_file.began(entry), entry.name))
        return [name for _, name in sorted(dated)]

    def open(self, name: str = "") -> Experiment:
        """Return an experiment by its name; by default the newest.

        Raises:
            NotFoundError: There is no such experiment.
        """
        names = self.names()
        if not names or (name and name not in names):
            raise NotFoundError(no_experiment(name, names))
        return Experiment.read(self.folder / (name or names[-1]))

    def newest_whole(self) -> Experiment:
        """Return the newest experiment that can be read.

        Raises:
            NotFoundError: There is no experiment.
            CorruptError: No experiment can be read.
        """
        for name in reversed(self.names()):
            with suppress(CorruptError, FormatError, StoreError):
                return self.open(name)
        return self.open()

    def trial(self, ref: str) -> tuple[Experiment, Trial]:
        """Return the trial for `EXPERIMENT/t3`, or for `t3` in the newest experiment.

        Raises:
            NotFoundError: The experiment does not exist. A word of another form than `t3` counts as its name.
            UsageError: The experiment has no such trial.
        """
        name, _, trial = ref.rpartition("/")
        if not name and not _TRIAL.fullmatch(trial):
            if trial in self.names():
                raise NotFoundError(f"{trial} is an experiment. Name one of its trials, such as {trial}/t0")
            raise NotFoundError(no_experiment(trial, self.names()))
        experiment = self.open(name)
        return experiment, experiment.trial(trial)

    def checkpoint(self, ref: str) -> tuple[Trial, Record]:
        """Return the checkpoint for `t3@10`, or the newest checkpoint for `t3`.

        Raises:
            NotFoundError: There is no such experiment or checkpoint.
            UsageError: There is no such trial, or the step is not a number.
        """
        name, _, step = ref.partition("@")
        trial = self._trial_with_checkpoints(name)
        records = trial.checkpoints.records()
        if step and not _STEP.fullmatch(step):
            raise UsageError(
                f"{ref!r} is not a checkpoint of a trial: write {name}@10 for the checkpoint of step 10"
            )
        wanted = [record for record in records if not step or record.step == int(step)]
        if not wanted:
            steps = ", ".join(str(record.step) for record in records) or "none"
            raise NotFoundError(
                f"{name} has no checkpoint{f' of step {step}' if step else ''}: there are {steps}"
            )
        return trial, wanted[-1]

    def _trial_with_checkpoints(self, ref: str) -> Trial:
        """Return a trial. With its experiment's name, the experiment's file may be damaged."""
        try:
            return self.trial(ref)[1]
        except (CorruptError, FormatError):
            name, _, id_ = ref.rpartition("/")
            for trial in read_trials(self.folder / name, {}) if name else ():
                if trial.id == id_:
                    return trial
            raise

    def trust(self, ref: str, signer: Signer) -> list[str]:
        """Sign an experiment with its trials' checkpoints, one trial's checkpoints, or one checkpoint.

        Return the names of everything that was signed. Nothing is loaded.

        Raises:
            NotFoundError: The experiment or checkpoint does not exist.
            UsageError: The experiment runs, or has no such trial.
            CorruptError: A file is damaged; earlier signatures stay.
        """
        if whole := ref in self.names():
            trials, step = self.open(ref).trials, None
        else:
            step = self.checkpoint(ref)[1] if "@" in ref else None
            trials = (self.trial(ref.partition("@")[0])[1],)
        folder = self.folder / ref if whole else trials[0].folder.parent
        with self.at_rest(folder.name):
            signed = [folder.name] if whole and spec_file.sign(folder, signer) else []
            if whole:
                origin = origin_of(folder)
                signed += [f"{ref}/{FOLDER}" for _ in sign_checkpoints(origin, origin.records(), signer)]
            for trial in trials:
                records = [step] if step else trial.checkpoints.records()
                names = sign_checkpoints(trial.checkpoints, records, signer)
                signed += [label_of(f"{folder.name}/{trial.id}/{name}") for name in names]
        return signed

    def remove(self, *refs: str) -> Removal:
        """Remove experiments and checkpoints of trials. `undo` brings them back, until `gc`.

        Raises:
            NotFoundError: One of them does not exist; nothing was removed.
            UsageError: One of them runs, or a trial would resume from it; nothing was removed.
            StoreError: The disk failed; nothing was removed.
        """
        with ExitStack() as held:
            paths = list(dict.fromkeys(path for ref in refs for path in self._paths(ref)))
            whole = [path for path in paths if "/" not in path]
            for name in whole:
                held.enter_context(self.at_rest(name))
            return take_away(
                self.folder, [path for path in paths if path in whole or path.split("/")[0] not in whole]
            )

    def size_of(self, ref: str) -> int:
        """Return the size of an experiment or of a trial's checkpoint, in bytes.

        Raises:
            NotFoundError: It does not exist.
            UsageError: It cannot be removed now, see `remove`.
        """
        paths = self._paths(ref)
        if paths == [ref]:
            with self.at_rest(ref):
                pass
        return sum(size_of(self.folder / path) for path in paths)

    def _paths(self, ref: str) -> list[str]:
        """Return the paths of an experiment, or of a trial's checkpoint that can be removed."""
        if ref in self.names():
            return [ref]
        if "@" not in ref:
            self.open(ref)  # raises an error that names the existing experiments
        trial, record = self.checkpoint(ref)
        experiment = self.open(trial.folder.parent.name)
        trial = Trial.read(trial.folder)  # a summary does not decide what is deleted
        if not trial.finished and (experiment.running or experiment.runs_elsewhere()):
            raise UsageError(
                f"{ref.partition('@')[0]} is running. Stop it first: %ckpt stop {ref.partition('@')[0]}"
            )
        if not trial.finished and record.name == trial.checkpoint_name:
            raise UsageError(f"a trial resumes from {ref!r}. Stop the trial first, or resume it to its end")
        folder = f"{experiment.name}/{trial.id}/{record.name}"
        if link := link_outside(self.folder, folder):
            raise UsageError(f"{ref!r} is not removed: {link} leads outside. Remove the link instead")
        return [path for path in (folder, f"{folder}{SUFFIX}") if exists(self.folder / path)]

    @contextmanager
    def at_rest(self, name: str) -> Iterator[None]:
        """Hold the lock of an experiment during the block, so that no process starts to run it.

        Raises:
            UsageError: The experiment runs.
        """
        with ExitStack() as held:
            try:
                # A process that only checks the lock holds it for a moment.
                held.enter_context(at_rest(self.folder / name, _LOCK_S))
            except Timeout:
                raise UsageError(f"{name} is running. Stop it first: %ckpt stop {name}") from None
            except StoreError:
                pass  # a read-only folder: nobody runs the experiment, and removing it fails with the cause
            yield


def no_experiment(name: str, names: Sequence[str], where: str = "") -> str:
    """Return a sentence about a missing experiment: the names that there are, and the closest one."""
    missing = f"there is no experiment{f' {name!r}' if name else ''}{f' in {where}' if where else ''}"
    if not names:
        return f"{missing}: {'it has none' if where else 'start one with %ckpt run'}"
    return f"{missing}: there are {', '.join(names[-8:])}. {suggestion(name, names)}".rstrip(". ")
