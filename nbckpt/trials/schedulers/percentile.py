"""Percentile: Optuna's median and percentile pruners, decided on sorted values. See docs/decisions/0154."""

from __future__ import annotations

import math
from array import array
from bisect import insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from nbckpt.trials.model import optuna

_LEAST = {"n_startup_trials": 0, "n_warmup_steps": 0, "interval_steps": 1, "n_min_trials": 1}
"""The whole options, and the smallest number that each can be."""
_MEDIAN = 50.0
_FEW = 8
"""A column is sorted again if more than one part in this many of its values is new."""


class Percentile:
    """Decides as Optuna's `MedianPruner` and `PercentilePruner` do, without a look at every trial.

    Args:
        mode: Whether `min` or `max` is best.
        options: All options of the pruner.

    Attributes:
        is_auto: See `Halving`.
        needs_values: See `Halving`: the values of complete trials count.
    """

    is_auto = False
    needs_values = True

    def __init__(self, mode: str, options: Mapping[str, Any]) -> None:
        percentile = options.get("percentile", _MEDIAN)
        self._part = (percentile if mode == "min" else 100 - percentile) / 100
        self._best = min if mode == "min" else max
        self._is_worse = float.__gt__ if mode == "min" else float.__lt__
        self._options = dict(options)
        self._courses: defaultdict[int, _Course] = defaultdict(_Course)
        self._complete = 0
        self._columns: defaultdict[int, array[float]] = defaultdict(_floats)
        self._new: defaultdict[int, array[float]] = defaultdict(_floats)

    @classmethod
    def of(cls, mode: str, pruner: str, options: Mapping[str, Any]) -> Self | None:
        """Return it for these pruners of Optuna; None for others, and for options of unusual types."""
        kind, whole = optuna.arguments("Pruner", pruner, options)
        is_usual = kind in {"MedianPruner", "PercentilePruner"} and all(
            type(value) in {int, float}
            if option == "percentile"
            else type(value) is int and value >= _LEAST.get(option, math.inf)
            for option, value in whole.items()
        )
        return cls(mode, whole) if is_usual else None

    def add(self, number: int, values: Mapping[int, float], rungs: Mapping[int, float | None]) -> None:
        """Add the trial of a number, with its values by step. These pruners have no rungs."""
        del rungs
        for step, value in values.items():
            self.report(number, step, value)

    def report(self, number: int, step: int, value: float) -> bool:
        """Report a value. Return False if the step is not new, or the trial is complete."""
        course = self._courses[number]
        if course.is_complete or step <= course.last(1):
            return False
        course.best = self._best(course.best, value) if course.steps else value
        course.steps.append(step)
        course.values.append(value)
        return True

    def is_pruned(self, number: int) -> bool:
        """Return whether a trial stops: its best value is worse than the percentile at its newest step."""
        options, course = self._options, self._courses[number]
        step, warmup, interval = course.last(1), options["n_warmup_steps"], options["interval_steps"]
        if self._complete < max(options["n_startup_trials"], 1) or step < warmup:
            return False
        if course.last(2) >= (step - warmup) // interval * interval + warmup:  # asked in this interval
            return False
        column = self.column(step)
        if len(column) < options["n_min_trials"]:
            return False
        return self._is_worse(course.best, _quantile(column, self._part))

    def rungs(self, number: int) -> int:
        """Return 0: these pruners have no rungs."""
        del number
        return 0

    def complete(self, number: int, value: float, last_step: int) -> None:
        """Take in that a trial is complete. Its values count from now on."""
        del value, last_step
        course = self._courses[number]
        if not course.is_complete:
            for step, reported in zip(course.steps, course.values, strict=True):
                self._new[int(step)].append(reported)
            self._complete += 1
            course.end()

    def column(self, step: int) -> array[float]:
        """Return the sorted values of the complete trials at a step."""
        column, new = self._columns[step], self._new.pop(step, ())
        if len(new) * _FEW > len(column):  # after a restart: to insert each takes longer
            column = self._columns[step] = array("d", sorted([*column, *new]))
        else:
            for value in new:
                insort(column, value)
        return column


@dataclass(slots=True)
class _Course:
    """The values of one trial.

    Attributes:
        steps: The steps, in order. Whole numbers as floats, since a float may be above all machine integers.
        values: The values at these steps.
        best: The best value.
        is_complete: Whether the trial is complete; then its values are in the columns alone.
    """

    steps: array[float] = field(default_factory=lambda: _floats())
    values: array[float] = field(default_factory=lambda: _floats())
    best: float = math.nan
    is_complete: bool = False

    def last(self, at: int) -> int:
        """Return the newest step for 1, the one before for 2; -1 if there is none."""
        return int(self.steps[-at]) if len(self.steps) >= at else -1

    def end(self) -> None:
        """Take in that the trial is complete."""
        self.steps, self.values, self.is_complete = _floats(), _floats(), True


def _quantile(values: Sequence[float], part: float) -> float:
    """Return a quantile of sorted values, rounded as NumPy does for `method="linear"`."""
    place = (len(values) - 1) * part
    at = math.floor(place)
    low, high, rest = values[at], values[min(at + 1, len(values) - 1)], place - at
    return high - (high - low) * (1 - rest) if rest >= 0.5 else low + (high - low) * rest


def _floats() -> array[float]:
    return array("d")
