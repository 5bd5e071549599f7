"""Stoppers by Ray's names: objects that decide whether a trial ends."""

from __future__ import annotations

from collections import Counter
from typing import Any

from nbckpt.compat.arguments import refused_names


class Stopper:
    """Decides whether a trial ends. Once `stop_all` is true, every trial ends with its next result."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Tell whether the trial ends."""
        # Not an ABC: a script written for Ray subclasses it.
        raise NotImplementedError(f"{type(self).__name__} must define __call__()")

    def stop_all(self) -> bool:
        """Tell whether all trials end."""
        return False


class MaximumIterationStopper(Stopper):
    """Ends each trial after a number of results."""

    def __init__(self, max_iter: int) -> None:
        self._most = max_iter
        self._seen: Counter[str] = Counter()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """See `Stopper`."""
        self._seen[trial_id] += 1
        return self._seen[trial_id] >= self._most


__getattr__ = refused_names(
    __name__,
    dict.fromkeys(
        (
            "CombinedStopper",
            "ExperimentPlateauStopper",
            "FunctionStopper",
            "TimeoutStopper",
            "TrialPlateauStopper",
        ),
        "give stop a dict of metrics, a function of (trial_id, result), or a list of them",
    ),
)
