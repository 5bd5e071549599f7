"""MedianStopping: it stops trials that are worse than the median of the others."""

from __future__ import annotations

import math
from array import array
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.metrics import ITERATION
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.schedulers.base import Scheduler, lasting_results

_MOST_SKIPPED = 100
"""How many steps between two reports get the average of the earlier one. A report can claim any time."""


_Put = Callable[["array[float]", float], object]


class MedianStopping(Scheduler):
    """The median stopping rule of Google Vizier (Golovin et al. 2017, section 3.2).

    A trial stops if its best value so far is worse than the median of the other trials' averages. The average
    of a trial is that of all its values up to the same step. The trials that have reached this step count,
    whether they train, rest or have ended; in the paper only those that have ended do. Nothing is paused, so
    no checkpoint is needed.

    Args:
        grace_period: No trial stops before it has trained that long.
        min_samples: No trial stops before that many others have reached the step.
        every: How much training makes a step. With seconds as *time_attr*, for example 60.
        time_attr: The metric that says how long a trial has trained, which must grow.
        metric: The metric that is compared; by default that of the experiment.
        mode: Whether `min` or `max` of it is best; by default that of the experiment.

    Raises:
        UsageError: An argument is impossible.

    Examples:
        >>> def train(config):
        ...     for step in range(4):
        ...         nbckpt.report(loss=config["lr"])
        >>> median = nbckpt.trials.MedianStopping(metric="loss", mode="min")
        >>> nbckpt.run(train, {"lr": nbckpt.grid_search([0.1, 0.2, 0.3, 0.4])}, scheduler=median).wait()
        True
    """

    def __init__(
        self,
        grace_period: float = 1,
        min_samples: int = 3,
        *,
        every: float = 1,
        time_attr: str = ITERATION,
        metric: str = "",
        mode: str = "",
    ) -> None:
        super().__init__(metric, mode, time_attr)
        if min_samples < 1:
            raise UsageError(f"min_samples={min_samples} is too few: give 1 or more")
        if not every > 0:
            raise UsageError(f"every={every} is impossible: give a number above 0")
        self.grace_period, self.min_samples, self.every = grace_period, min_samples, every
        self._courses: dict[str, _Course] = {}
        self._averages: defaultdict[int, array[float]] = defaultdict(_floats)

    def setup(self, experiment: ExperimentView) -> None:
        """See `Scheduler.setup`. The journals tell all earlier reports that do not come again."""
        self._courses, self._averages = {}, defaultdict(_floats)
        for trial in experiment.trials:
            self._take_in(trial.id, lasting_results(trial), _append)
        for step, averages in self._averages.items():  # once: to insert each takes longer
            self._averages[step] = array("d", sorted(averages))

    def reported(self, trial: Trial) -> Decision | None:
        """See `Scheduler.reported`."""
        done = self.trained(trial.metrics)
        others = self._averages.get(int(done // self.every), ())
        number, middle = len(others), _median(others) if others else math.inf  # before it is among them
        if not self._take_in(trial.id, (trial.metrics,)):
            return None
        if done < self.grace_period or number < self.min_samples:
            return None
        best = self._courses[trial.id].best
        if best <= middle:
            return None
        return Decision(
            "stop",
            f"the best {self.metric} so far, {self._shown(best)}, is worse than {self._shown(middle)}, "
            f"the median of {number} other trials at {self.time_attr} {done:g}",
        )

    def _take_in(self, trial: str, results: Iterable[Mapping[str, Any]], put: _Put = insort) -> bool:
        """Take in reports, and *put* the averages. Return False if the trial has reached all steps before."""
        course = self._courses.setdefault(trial, _Course())
        former = last = course.step
        for metrics in results:
            step = int(self.trained(metrics) // self.every)
            if step <= last:
                continue
            if step > last + 1 and last >= 0:
                for skipped in range(max(last + 1, step - _MOST_SKIPPED), step):
                    put(self._averages[skipped], course.average)
            put(self._averages[step], course.take_in(self.badness(self.value(metrics))))
            last = step
        course.step = last
        return last > former

    def _shown(self, badness: float) -> str:
        return "not a finite number" if badness == math.inf else f"{self.badness(badness):g}"


@dataclass(slots=True)
class _Course:
    """The values of one trial so far, each so that smaller is better.

    Attributes:
        step: The last step that it reported.
        best: Its best value.
        total: The sum of its values.
        count: How many there were. Values that are not finite numbers are left out.
        average: Their average so far; infinite if there was none.
    """

    step: int = -1
    best: float = math.inf
    total: float = 0.0
    count: int = 0
    average: float = math.inf

    def take_in(self, badness: float) -> float:
        """Take in a value. Return the average so far."""
        if badness < math.inf:
            if badness < self.best:
                self.best = badness
            self.total += badness
            self.count += 1
            self.average = self.total / self.count
        return self.average


def _floats() -> array[float]:
    return array("d")


def _append(averages: array[float], average: float) -> None:
    averages.append(average)


def _median(values: Sequence[float]) -> float:
    """Return the median of sorted values."""
    low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
    return low if low == high else (low + high) / 2
