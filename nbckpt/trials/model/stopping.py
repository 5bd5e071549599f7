"""Stopping: the condition that ends a trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nbckpt.errors import TrialError, UsageError
from nbckpt.render import error_text
from nbckpt.trials.model.metrics import as_float, as_plain, is_number, lookup
from nbckpt.trials.model.trial import Trial

Stop = Mapping[str, float] | Callable[[str, Mapping[str, Any]], bool] | float | None
"""Metrics with thresholds, a function of a trial's id and a result, seconds of training, or never."""


@dataclass(frozen=True)
class Stopper:
    """Decides after each result whether the trial ends.

    Attributes:
        stop: The condition.
        falling: The objectives whose `min` is best. A threshold of these metrics is reached from above, and
            that of any other metric from below.
    """

    stop: Stop
    falling: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse a value that is not a condition."""
        stop = self.stop
        if isinstance(stop, Mapping):
            wrong = [name for name, limit in stop.items() if not _is_number(limit)]
            if wrong:
                raise UsageError(f"stop[{wrong[0]!r}] is {stop[wrong[0]]!r}: give a number to reach")
        elif not (stop is None or callable(stop) or (_is_number(stop) and stop > 0)):
            raise UsageError(
                f"stop={stop!r} is not a condition: give a dict of metrics and the values to reach, a "
                "function of (trial_id, result), or seconds"
            )

    def reason(self, trial: Trial, result: Mapping[str, Any]) -> str:
        """Return the reason to end the trial, or "".

        Raises:
            TrialError: The user's function failed; its exception is the cause.
        """
        stop = self.stop
        if stop is None:
            return ""
        if callable(stop):
            try:
                return "stop() said so" if stop(trial.id, result) else ""
            except Exception as error:
                raise TrialError(f"stop() failed: {error_text(error)}") from error
        if not isinstance(stop, Mapping):
            return f"trained for {as_float(stop):g} s" if trial.elapsed_s >= stop else ""
        for name, limit in stop.items():
            value = as_plain(lookup(result, name))  # also a scalar of NumPy or torch
            if _is_number(value) and (value <= limit if self._falls(name) else value >= limit):
                return f"{name} reached {as_float(as_plain(limit)):g}"
        return ""

    def _falls(self, name: str) -> bool:
        return name in self.falling

    def __str__(self) -> str:
        stop = self.stop
        if not isinstance(stop, Mapping):
            return "stop() says so" if callable(stop) else f"it has trained for {as_float(stop):g} s"
        reach = ((name, "<=" if self._falls(name) else ">=", limit) for name, limit in stop.items())
        return " or ".join(f"{name} {sign} {as_float(as_plain(limit)):g}" for name, sign, limit in reach)

    def unknown(self, trial: Trial) -> list[str]:
        """Return the metrics of the condition that the trial has never reported."""
        if not isinstance(self.stop, Mapping):
            return []
        return [name for name in self.stop if trial.newest(name) is None]


def _is_number(value: Any) -> bool:
    number = as_plain(value)
    return is_number(number) and not math.isnan(as_float(number))
