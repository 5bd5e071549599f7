"""Halving: Optuna's successive halving and Hyperband, decided on sorted rungs. See docs/decisions/0152."""

from __future__ import annotations

import math
from array import array
from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, Self
from zlib import crc32

from nbckpt.trials.model import optuna
from nbckpt.trials.schedulers.rungs import without_gaps

_LEAST = {
    "min_resource": 1,
    "max_resource": 1,
    "reduction_factor": 2,
    "min_early_stopping_rate": 0,
    "bootstrap_count": 0,
}
"""The options, and the smallest number that each can be."""
_AUTO = {"SuccessiveHalvingPruner": "min_resource", "HyperbandPruner": "max_resource"}
"""The option of each pruner that may be `auto`."""


class Halving:
    """Decides as Optuna's `SuccessiveHalvingPruner` and `HyperbandPruner` do, without a look at every trial.

    Args:
        mode: Whether `min` or `max` is best.
        name: The study's name. Hyperband draws the bracket of a trial by this name and the trial's number.
        auto: The option that may be `auto`.
        options: All options of the pruner.

    Attributes:
        is_auto: Whether it waits for the first complete trial to tell that option, and prunes nothing so far.
        needs_values: Whether it needs the values of trials that have ended.
    """

    needs_values = False

    def __init__(self, mode: str, name: str, auto: str, options: Mapping[str, Any]) -> None:
        self._sign = 1 if mode == "min" else -1
        self._name, self._options, self._auto = name, dict(options), auto
        self.is_auto = options[auto] == "auto"
        self._newest: dict[int, tuple[int, float]] = {}
        self._reached: dict[int, list[float]] = {}
        self._rungs: defaultdict[tuple[int, int], array[float]] = defaultdict(_floats)
        self._bounds = self._brackets()

    @classmethod
    def of(cls, mode: str, name: str, pruner: str, options: Mapping[str, Any]) -> Self | None:
        """Return it for these pruners of Optuna; None for others, and for options that Optuna may refuse."""
        kind, whole = optuna.arguments("Pruner", pruner, options)
        auto = _AUTO.get(kind, "")
        is_usual = auto and all(
            (type(value) is int and value >= _LEAST.get(option, math.inf))
            or (option == auto and value == "auto")
            for option, value in whole.items()
        )
        return cls(mode, name, auto, whole) if is_usual else None

    def add(self, number: int, values: Mapping[int, float], rungs: Mapping[int, float | None]) -> None:
        """Add the trial of a number, with its values by step and those at its rungs."""
        if values:
            step = max(values)
            self._newest[number] = step, self._badness(values[step])
        for value in without_gaps(rungs).values():
            self._enter(number, self._badness(value))

    def report(self, number: int, step: int, value: float) -> bool:
        """Report a value. Return False if the step is not new."""
        if step <= self._newest.get(number, (-1, 0.0))[0]:
            return False
        self._newest[number] = step, self._badness(value)
        return True

    def is_pruned(self, number: int) -> bool:
        """Return whether a trial stops after its newest report. It enters all rungs up to there before."""
        bracket, (step, badness) = self._bracket(number), self._newest[number]
        if self.is_auto or bracket is None:
            return False
        factor, least = self._options["reduction_factor"], self._options["min_resource"]
        rate = bracket + self._options.get("min_early_stopping_rate", 0)
        while step >= least * factor ** (rate + self.rungs(number)):
            rung = self._enter(number, badness)
            best = max(len(rung) // factor, 1)
            if len(rung) <= self._options["bootstrap_count"] or badness > rung[best - 1]:
                return True
        return False

    def rungs(self, number: int) -> int:
        """Return how many rungs a trial has reached."""
        return len(self._reached.get(number, ()))

    def complete(self, number: int, value: float, last_step: int) -> None:
        """Take in that a trial is complete. The first one says what `auto` means, also after a restart."""
        del number, value
        if self.is_auto and last_step >= 0:
            resource = last_step + 1 if self._auto == "max_resource" else max(last_step // 100, 1)
            self._options[self._auto], self.is_auto = resource, False
            self._bounds = self._brackets()
            reached, self._reached = self._reached, {}
            self._rungs.clear()
            for trial, values in reached.items():
                for badness in values:
                    self._enter(trial, badness)

    def _enter(self, number: int, badness: float) -> array[float]:
        """Take a trial into its next rung. Return all values there, the best first."""
        reached = self._reached.setdefault(number, [])
        rung = self._rungs[self._bracket(number) or 0, len(reached)]
        insort(rung, badness)
        reached.append(badness)
        return rung

    def _badness(self, value: float | None) -> float:
        return math.inf if value is None else self._sign * value

    def _bracket(self, number: int) -> int | None:
        """Return the bracket of a trial; None if there is none, or none yet."""
        if not self._bounds:
            return None
        drawn = crc32(f"{self._name}_{number}".encode()) % self._bounds[-1]
        return next(bracket for bracket, bound in enumerate(self._bounds) if drawn < bound)

    def _brackets(self) -> list[int]:
        """Return where each bracket ends in the numbers that are drawn: see `HyperbandPruner`."""
        if self._auto != "max_resource":
            return [1]
        return [] if self.is_auto else [*accumulate(_budgets(**self._options))]


def _budgets(
    min_resource: int, max_resource: int, reduction_factor: int, bootstrap_count: int
) -> Iterator[int]:
    """Yield the weight of each bracket of Hyperband."""
    del bootstrap_count
    number = math.floor(math.log(max_resource / min_resource, reduction_factor)) + 1
    for left in reversed(range(number)):
        yield math.ceil(number * reduction_factor**left / (left + 1))


def _floats() -> array[float]:
    return array("d")
