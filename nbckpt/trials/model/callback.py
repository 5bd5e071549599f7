"""Callback: code of the user or of another tracker that follows an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView


class Callback:
    """Follows an experiment. Override the methods that you need.

    The methods of one callback are called one at a time, in worker threads, so a slow callback delays the
    trials. A callback that raises an exception is not called again. The trials continue, and the
    experiment's notes say so.

    Examples:
        >>> class Steps(nbckpt.trials.Callback):
        ...     def on_trial_result(self, trial, result):
        ...         print(trial.id, result["loss"])
        >>> nbckpt.run(lambda config: {"loss": 0.5}, callbacks=[Steps()]).wait()
        t0 0.5
        True
    """

    def setup(self, experiment: ExperimentView) -> None:
        """Called when the experiment starts or resumes."""

    def on_trial_start(self, trial: Trial) -> None:
        """Called when a trial starts or restarts."""

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """Called after each report of a trial."""

    def on_trial_checkpoint(self, trial: Trial, checkpoint: Record) -> None:
        """Called after a trial has saved a checkpoint."""

    def on_trial_complete(self, trial: Trial) -> None:
        """Called when a trial is done or stopped."""

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        """Called when a trial has failed. Its status says whether it will be retried."""

    def on_experiment_end(self, trials: Sequence[Trial]) -> None:
        """Called when no trial runs."""


class BackgroundCallback(Callback):
    """A callback that works in the background, beside its calls.

    Several threads may call its methods at once and at any moment. The calls for one trial come one after
    the other. No call for a trial comes during `setup` and `on_experiment_end`.
    """

    def trouble(self) -> Sequence[str]:
        """Return sentences for the experiment's notes."""
        return ()

    def cancel(self) -> None:
        """Cancel the work, because nobody needs it now."""
