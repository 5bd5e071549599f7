"""Scheduler: decides after each report whether a trial goes on, and which paused trial goes on next."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.metrics import ITERATION, lookup
from nbckpt.trials.model.trial import Status, Trial
from nbckpt.trials.model.view import ExperimentView


class Scheduler(ABC):
    """Decides which trials go on.

    Its methods are called one at a time, in worker threads. If a method raises an exception, the scheduler
    makes no further decisions: the trials go on, and the experiment's notes say so. Each decision is an event
    in the trial's journal before it takes effect, and `setup` meets it again after a restart.

    Args:
        metric: The metric that is compared; by default that of the experiment.
        mode: Whether `min` or `max` of it is best; by default that of the experiment.
        time_attr: The metric that says how long a trial has trained, which must grow.

    Attributes:
        metric: The metric that is compared.
        mode: Whether `min` or `max` of it is best.
        time_attr: See above.
        takes_turns: Whether trials that wait for their first turn come before those that were paused.
    """

    takes_turns = False

    def __init__(self, metric: str = "", mode: str = "", time_attr: str = ITERATION) -> None:
        if mode not in {"", "min", "max"}:
            raise UsageError(f"mode={mode!r} is unknown: use 'min' or 'max'")
        self.metric, self.mode, self.time_attr = metric, mode, time_attr

    def with_metric(self, metric: str, mode: str) -> None:
        """Compare this metric, unless the scheduler has one of its own.

        Raises:
            UsageError: Neither says which metric to compare, or which of its values is best.
        """
        self.metric, self.mode = self.metric or metric, self.mode or mode
        if not (self.metric and self.mode):
            raise UsageError(
                f"which trials are better? {type(self).__name__} needs metric='loss' and mode='min', or "
                "another metric and 'max'"
            )

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse a search space with which the scheduler cannot work.

        Raises:
            UsageError: The message says what it needs.
        """
        del config

    @abstractmethod
    def setup(self, experiment: ExperimentView) -> None:
        """Prepare for an experiment that starts or resumes. Its trials know what was decided before."""

    @abstractmethod
    def reported(self, trial: Trial) -> Decision | None:
        """Return what a trial that just reported shall do; None to go on without a decision."""

    def wants_checkpoint(self, trial: Trial) -> bool:
        """Return whether the next report of a trial may lead to a pause, which needs a checkpoint."""
        del trial
        return False

    def next_trial(self, held: Mapping[str, Trial]) -> tuple[Trial, Decision] | None:
        """Return which of the trials that were *held* goes on next, and why; None if none does."""
        del held
        return None

    def last_trial(self, held: Mapping[str, Trial]) -> tuple[Trial, Decision] | None:
        """Return which of the *held* trials goes on if nothing else is left to train; None if none does."""
        del held
        return None

    def resumed(self, trial: Trial) -> None:
        """Take note that the user lets a paused trial go on, whatever the scheduler thinks of it."""
        del trial

    def unsaved(self, trial: Trial, decision: Decision) -> Decision:
        """Return what a trial shall do that was to pause and has no checkpoint to go on from."""
        del trial
        return Decision("continue", decision.reason, decision.rung, decision.value)

    def ended(self, trial: Trial) -> None:
        """Take note that a trial ended, successfully or not, or was stopped."""
        del trial

    def value(self, metrics: Mapping[str, Any]) -> float | None:
        """Return the metric that is compared, from a report; None if it is not a finite number."""
        return _finite(lookup(metrics, self.metric))

    def trained(self, metrics: Mapping[str, Any]) -> float:
        """Return how long a trial has trained, from a report; 0 if the report does not say it."""
        return _finite(lookup(metrics, self.time_attr)) or 0.0

    def badness(self, value: float | None) -> float:
        """Return a value of the metric so that smaller is better; infinite for None."""
        if value is None:
            return math.inf
        return value if self.mode == "min" else -value


def lasting(trial: Trial) -> int:
    """Return after how many results a trial goes on. Later ones come again, and are judged then."""
    if trial.finished:
        return trial.iteration
    if trial.status == Status.PAUSED:
        return trial.checkpoint_iteration
    # A crash may have come before the journal had the newest checkpoint, from which the trial starts.
    saved = max([trial.checkpoint_iteration, *(record.iteration for record in trial.checkpoints.records())])
    # It may have come before the last result was judged, too: then the scheduler is asked again.
    return saved - (saved == trial.iteration)


def lasting_results(trial: Trial) -> list[dict[str, Any]]:
    """Return the results of a trial that do not come again, in order: see `lasting`."""
    if not trial.iteration:
        return []
    most = lasting(trial)
    return [metrics for metrics in trial.results if metrics[ITERATION] <= most]


def _finite(value: Any) -> float | None:
    kind = type(value)
    if kind is float:  # first, because nearly all are
        return value if math.isfinite(value) else None
    if kind is not int and (not isinstance(value, (int, float)) or isinstance(value, bool)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer that is too large for a float
        return None
