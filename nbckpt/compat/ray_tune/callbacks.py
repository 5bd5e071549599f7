"""Callbacks with Ray's hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbckpt.compat.ray_tune.results import TrialResult
from nbckpt.errors import UsageError
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model import callback as own
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView

_NEVER_CALLED = {
    "on_step_begin": "on_trial_start",
    "on_step_end": "on_trial_result",
    "on_trial_restore": "on_trial_start",
    "on_trial_save": "on_checkpoint",
}


class Callback:
    """Follows an experiment. Override the hooks that you need.

    *iteration* counts the results of all trials. There are no hooks of steps, saves and restores.
    """

    def setup(self, **info: Any) -> None:
        """Called when the experiment starts or resumes."""

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a trial starts or restarts."""

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Called after each report of a trial."""

    def on_checkpoint(
        self, iteration: int, trials: list[Any], trial: Any, checkpoint: Any, **info: Any
    ) -> None:
        """Called after a trial has saved a checkpoint."""

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a trial is done or stopped."""

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called when a trial has failed."""

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Called when no trial runs."""


def adapted(callback: Any) -> own.Callback:
    """Return a callback for `nbckpt.run`. What is not a callback is refused there.

    Raises:
        UsageError: It has a hook that nbckpt never calls.
    """
    for hook, instead in _NEVER_CALLED.items():
        if isinstance(callback, Callback) and hasattr(callback, hook):
            raise UsageError(f"{type(callback).__name__}.{hook}() would never be called: use {instead}()")
    callback_of_ray: own.Callback = _Adapter(callback) if isinstance(callback, Callback) else callback
    return callback_of_ray


class _Adapter(own.Callback):
    """Calls the hooks of a callback of Ray."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._experiment: ExperimentView | None = None
        self._iteration = 0

    def setup(self, experiment: ExperimentView) -> None:
        self._experiment = experiment
        spec = experiment.spec
        self._callback.setup(stop=spec.stop, num_samples=spec.num_samples)

    def _call(self, hook: str, trial: Trial, *more: Any) -> None:
        trials = self._experiment.trials if self._experiment else ()
        getattr(self._callback, hook)(
            self._iteration, [TrialResult.of(each) for each in trials], TrialResult.of(trial), *more
        )

    def on_trial_start(self, trial: Trial) -> None:
        self._call("on_trial_start", trial)

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        self._iteration += 1
        self._call("on_trial_result", trial, dict(result))

    def on_trial_checkpoint(self, trial: Trial, checkpoint: Record) -> None:
        view = TrialResult.of(trial)
        self._call("on_checkpoint", trial, view.checkpoint_of(checkpoint.name))

    def on_trial_complete(self, trial: Trial) -> None:
        self._call("on_trial_complete", trial)

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        del error
        self._call("on_trial_error", trial)

    def on_experiment_end(self, trials: Sequence[Trial]) -> None:
        self._callback.on_experiment_end([TrialResult.of(trial) for trial in trials])
