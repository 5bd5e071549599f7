"""What ends a whole experiment: `time_budget_s` and `fail_fast`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.trials.model.callback import Callback
from nbckpt.trials.model.metrics import is_number
from nbckpt.trials.model.trial import Status, Trial
from nbckpt.trials.model.view import ExperimentView


class _Stops(Callback):
    """A callback that can stop the experiment that it follows."""

    _experiment: Any = None  # an experiment, which callbacks know as a view

    def setup(self, experiment: ExperimentView) -> None:
        """See `Callback.setup`."""
        self._experiment = experiment

    def _stop(self) -> None:
        self._experiment.stop()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name in self._KEPT}

    _KEPT = frozenset[str]()


class TimeBudget(_Stops):
    """Stops all trials with the first event after a time. A resumed experiment has the whole time again.

    Args:
        seconds: How long the experiment may run.
        clock: Returns monotonic seconds.
    """

    _KEPT = frozenset({"seconds"})
    _clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock

    def setup(self, experiment: ExperimentView) -> None:
        """See `Callback.setup`."""
        super().setup(experiment)
        self._began = self._clock()

    def on_trial_start(self, trial: Trial) -> None:
        """See `Callback.on_trial_start`."""
        self._look()

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """See `Callback.on_trial_result`."""
        self._look()

    def _look(self) -> None:
        if self._clock() - self._began >= self.seconds:
            self._stop()


class FailFast(_Stops):
    """Stops all trials when one has failed.

    Args:
        raises: Whether `tune.run` is to raise the error of the trial.

    Attributes:
        error: The first failure of this run; None if there was none.
    """

    _KEPT = frozenset({"raises"})
    error: BaseException | None = None

    def __init__(self, *, raises: bool) -> None:
        self.raises = raises

    def on_trial_error(self, trial: Trial, error: BaseException) -> None:
        """See `Callback.on_trial_error`."""
        if trial.status == Status.ERROR:
            self.error = self.error or error
            self._stop()


def control(given: Mapping[str, Any]) -> list[Callback]:
    """Return the callbacks for `time_budget_s` and `fail_fast`.

    Raises:
        UsageError: A value is impossible.
    """
    budget, fail_fast = given.get("time_budget_s"), given.get("fail_fast", False)
    if isinstance(budget, timedelta):
        budget = budget.total_seconds()
    if budget is not None and not (is_number(budget) and budget > 0):
        raise UsageError(f"time_budget_s={budget!r}: give seconds above 0, or a timedelta")
    if fail_fast not in {False, True, "raise"}:
        raise UsageError(f"fail_fast={fail_fast!r} is unknown: use True, False or 'raise'")
    if fail_fast and given.get("max_failures"):
        raise UsageError("fail_fast needs max_failures=0: a trial that is retried has not failed yet")
    return ([] if budget is None else [TimeBudget(budget)]) + (
        [FailFast(raises=fail_fast == "raise")] if fail_fast else []
    )
