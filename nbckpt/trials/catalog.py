"""The experiments in one folder, and the names by which people ask for them and for what is in them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nbckpt.core.trust import Signer
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store.locks import Timeout, file_lock
from nbckpt.store.scan import link_outside, size_of
from nbckpt.trials.checkpoints.record import SUFFIX, Record
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model import spec as spec_file
from nbckpt.trials.model.trial import Trial, read_trials
from nbckpt.trials.model.trust import sign_checkpoints
from nbckpt.trials.trash import Removal, label_of, take_away

_LOCK_S = 1.0
_STEP = re.compile("[0-9]{1,18}")

_log = logging.getLogger("nbckpt")


@dataclass(frozen=True)
class Catalog:
    """The experiments below *folder*."""

    folder: Path

    def names(self) -> list[str]:
        """Return the names of the experiments, the newest last; a link that leads outside is left out.

        Raises:
            StoreError: The folder cannot be read.
        """
        try:
            places = list(self.folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(f"cannot read {str(self.folder)!r}: {error.strerror or error}") from error
        there = []
        for place in places:
            with suppress(OSError):  # a folder that may not be read
                spec = f"{place.name}/{spec_file.FILE}"
                if place.name.startswith(".") or link_outside(self.folder, spec):
                    continue
                if (self.folder / spec).is_file():
                    there.append((place.stat().st_ctime, place.name))
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
        trial = self._trial_with_checkpoints(name)
        records = trial.checkpoints.records()
        if step and not _STEP.fullmatch(step):
            raise UsageError(f"{ref!r} is not a checkpoint of a trial: write {name}@10 for that of step 10")
        found = [it for it in records if not step or it.step == int(step)]
        if not found:
            steps = ", ".join(str(it.step) for it in records) or "none"
            raise NotFoundError(
                f"{name} has no checkpoint{f' of step {step}' if step else ''}: there are {steps}"
            )
        return trial, found[-1]

    def _trial_with_checkpoints(self, ref: str) -> Trial:
        """Return a trial; also one of an experiment whose own file is damaged, by the name of both."""
        try:
            return self.trial(ref)[1]
        except (CorruptError, FormatError):
            name, _, id_ = ref.rpartition("/")
            for trial in read_trials(self.folder / name, {}) if name else ():
                if trial.id == id_:
                    return trial
            raise

    def trust(self, ref: str, signer: Signer) -> list[str]:
        """Sign an experiment with its trials' checkpoints, those of a trial, or one; return what was signed.

        Nothing of it is loaded.

        Raises:
            NotFoundError: It is not there.
            UsageError: The experiment runs, or has no such trial.
            CorruptError: It is damaged; what was signed before stays so.
        """
        if whole := ref in self.names():
            trials, step = self.open(ref).trials, None
        else:
            step = self.checkpoint(ref)[1] if "@" in ref else None
            trials = (self.trial(ref.partition("@")[0])[1],)
        folder = self.folder / ref if whole else trials[0].folder.parent
        with self._at_rest(folder.name):
            signed = [folder.name] if whole and spec_file.sign(folder, signer) else []
            for trial in trials:
                records = [step] if step else trial.checkpoints.records()
                names = sign_checkpoints(trial.checkpoints, records, signer)
                signed += [label_of(f"{folder.name}/{trial.id}/{name}") for name in names]
        return signed

    def remove(self, *refs: str) -> Removal:
        """Take experiments, and checkpoints of trials, away; `undo` brings them back until `gc`.

        Raises:
            NotFoundError: One is not there; nothing was removed.
            UsageError: One runs, or a trial would go on from it; nothing was removed.
            StoreError: The disk failed; nothing was removed.
        """
        with ExitStack() as held:
            paths = list(dict.fromkeys(path for ref in refs for path in self._paths(ref)))
            whole = [path for path in paths if "/" not in path]
            for name in whole:
                held.enter_context(self._at_rest(name))
            return take_away(
                self.folder, [it for it in paths if it in whole or it.split("/")[0] not in whole]
            )

    def size_of(self, ref: str) -> int:
        """Return the bytes that an experiment or a checkpoint of a trial takes.

        Raises:
            NotFoundError: It is not there.
            UsageError: It could not be removed now, see `remove`.
        """
        paths = self._paths(ref)
        if paths == [ref]:
            with self._at_rest(ref):
                pass
        return sum(size_of(self.folder / path) for path in paths)

    def _paths(self, ref: str) -> list[str]:
        """Return the paths that belong to an experiment or to a checkpoint of a trial that can be removed."""
        if ref in self.names():
            return [ref]
        if "@" not in ref:
            self.open(ref)  # which says what there is
        trial, record = self.checkpoint(ref)
        experiment = self.open(trial.folder.parent.name)
        if not trial.finished and (experiment.running or experiment.runs_elsewhere()):
            raise UsageError(
                f"{ref.partition('@')[0]} is running. Stop it first: %ckpt stop {ref.partition('@')[0]}"
            )
        if not trial.finished and record.name == trial.checkpoint:
            raise UsageError(f"{ref!r} is what the trial goes on from: resume it to its end or stop it first")
        folder = f"{experiment.name}/{trial.id}/{record.name}"
        if link := link_outside(self.folder, folder):
            raise UsageError(f"{ref!r} is not removed: {link} leads outside. Remove the link instead")
        return [path for path in (folder, f"{folder}{SUFFIX}") if os.path.lexists(self.folder / path)]

    @contextmanager
    def _at_rest(self, name: str) -> Iterator[None]:
        """Hold the lock of an experiment during the block, so that nobody begins to run it.

        Raises:
            UsageError: It runs.
        """
        lock = file_lock(self.folder / f".{name}.lock")
        try:
            lock.acquire(timeout=_LOCK_S)  # whoever only looks whether it runs holds it for a moment
        except Timeout:
            raise UsageError(f"{name} is running. Stop it first: %ckpt stop {name}") from None
        except (
            OSError
        ):  # a folder that may only be read: nobody runs it, and removing it fails with the cause
            pass
        try:
            yield
        finally:
            lock.release()
