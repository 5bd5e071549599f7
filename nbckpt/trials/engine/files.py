"""Files: an experiment's specification and its trials, as the files in its folder have them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nbckpt.core.trust import open_signer
from nbckpt.errors import NbckptError, UsageError
from nbckpt.trials.model import journal, params, spec_file, summary_file
from nbckpt.trials.model.drawing import recalled
from nbckpt.trials.model.listing import read_trials
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Status, Trial, state_of

_ENDED = {Status.PAUSED, Status.TERMINATED, Status.ERROR}


class ExperimentFiles:
    """The specification and the trials of one experiment. One thread at a time may change them.

    Attributes:
        folder: The experiment's folder.
        spec: Its specification.
        trials: The trials by their short names, in the order in which they were made.
        version: A number that grows with every change.
    """

    def __init__(self, folder: Path, spec: Spec) -> None:
        self.folder = folder
        self.spec = spec
        self.trials: dict[str, Trial] = {}
        self.version = 0
        self._spec_at: Any = None

    def _read_again(self, mine: Collection[str], lost: Callable[[Sequence[str]], Collection[str]]) -> None:
        """Take in what changed on the disk, except trials that are *mine* to write.

        A trial whose journal was read gets a summary, if it has ended or is *lost*: nobody runs it.

        Raises:
            CorruptError: The experiment's file is damaged.
            StoreError: The disk failed.
        """
        stamp = journal.stamp(self.folder / spec_file.FILE)
        if stamp is None and not spec_file.is_there(self.folder):
            return
        if stamp != self._spec_at and not mine:
            spec = spec_file.read(self.folder).spec
            if spec.created_at != self.spec.created_at:  # another experiment with this name
                self.trials.clear()
            self.spec, self._spec_at = spec, stamp
        read = []
        for trial in read_trials(self.folder, self.trials, mine, summaries=True):
            if self.trials.get(trial.id) is not trial:  # new, or written to since
                read.append(trial)
                self._recall(trial)
                vars(state_of(self.trials.setdefault(trial.id, trial))).update(vars(state_of(trial)))
                self.version += 1
        idle = lost([trial.id for trial in read if trial.status not in _ENDED])
        for trial in read:
            if trial.status in _ENDED or trial.id in idle:
                summary_file.write(trial)

    def write_spec(self, spec: Spec) -> None:
        """Replace the experiment's spec. The caller has claimed the experiment."""
        is_known = self.spec.trainable is not None
        self.spec = spec
        spec_file.write(self.folder, spec, open_signer())
        self._spec_at = journal.stamp(self.folder / spec_file.FILE)
        if not is_known:
            self.recall_configs()

    def recall_configs(self) -> None:
        """Give trials that were read from the disk the values that JSON cannot express."""
        for trial in list(self.trials.values()):
            self._recall(trial)

    def _recall(self, trial: Trial) -> None:
        state = state_of(trial)
        is_changed = bool(state.scheduling.donor)
        picks = dict if is_changed else partial(_picks, trial)
        state.config = recalled(self.spec.config, state.config, is_changed=is_changed, picks=picks)
        if takeover := state.scheduling.takeover:
            config = recalled(self.spec.config, takeover.config, is_changed=True)
            takeover = takeover._replace(config=config)
            state.scheduling = replace(state.scheduling, takeover=takeover)

    def add(self, *configs: Mapping[str, Any]) -> list[Trial]:
        """Make a new trial of each configuration, all in one step. None of them runs yet."""
        first = int(self.new_id()[1:])
        trials = [Trial(self.folder / f"t{number}", config) for number, config in enumerate(configs, first)]
        params.write({trial.folder: trial.config for trial in trials}, self.spec.config)
        self.trials |= {trial.id: trial for trial in trials}
        return trials

    def new_id(self) -> str:
        """Return the short name of the next trial."""
        # Not the number of trials: after the loss of a machine, some of them may be missing.
        newest = next(reversed(self.trials), "t-1")
        return f"t{int(newest[1:]) + 1}"

    def trial(self, name: str) -> Trial:
        """Return a trial by its short name.

        Raises:
            UsageError: There is no such trial.
        """
        if name not in self.trials:
            known = ", ".join(list(self.trials)[:8]) or "none yet"
            raise UsageError(f"{self.folder.name!r} has no trial {name!r}: there are {known}")
        return self.trials[name]


def _picks(trial: Trial) -> Mapping[str, int]:
    try:
        return params.picks(trial.folder)
    except NbckptError:  # the trial's row tells of the damage when its journal is read
        return {}
