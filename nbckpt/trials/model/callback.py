"""Callback: code of the user's, or of another tracker, that follows an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView


class Callback:
    """Follows an experiment; override what you need.

    The methods of one callback are called one at a time, in the threads that drive the trials, so a slow
    one holds up the trials. One that raises is not called again; the trials go on, and the experiment's
    notes tell.
    """

    def setup(self, experiment: ExperimentView) -> None:
        """The experiment begins, or goes on."""

    def on_trial_start(self, trial: Trial) -> None:
        """A trial begins, or begins anew."""

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """A trial reported."""

    def on_trial_checkpoint(self, trial: Trial, checkpoint: Record) -> None:
        """A trial saved a checkpoint."""

    def on_trial_complete(self, trial: Trial) -> None:
        """A trial ended well, or was stopped."""

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        """A trial failed; its status tells whether it is tried again."""

    def on_experiment_end(self, trials: Sequence[Trial]) -> None:
        """No trial runs any more."""


class BackgroundCallback(Callback):
    """A callback whose work goes on beside its calls.

    Its methods may be called at any moment, by several threads at once. Those of one trial come one after
    the other, and none of a trial's comes during `setup` and `on_experiment_end`.
    """

    def trouble(self) -> Sequence[str]:
        """Return what the experiment's notes are to tell, a sentence each."""
        return ()

    def cancel(self) -> None:
        """End the work: nobody wants it any more."""
