"""Search: the source of an experiment's configurations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView


class Search(ABC):
    """Suggests configurations until it has no more; the experiment's `num_samples` is the upper limit.

    Its methods are called one at a time, in worker threads. If a method raises an exception, the search is
    over. The existing trials continue, and the experiment's notes say so.

    Attributes:
        notes: Problems, one sentence each, which the experiment's notes show.
    """

    notes: Sequence[str] = ()

    def setup(self, experiment: ExperimentView) -> None:
        """Prepare for an experiment that starts or resumes; it may have trials already."""
        del experiment

    @abstractmethod
    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Return the configuration of a new trial, or None if there are enough trials."""

    def reported(self, trial: Trial) -> str:
        """Take note of a trial's report. Return the reason to end the trial, or ""."""
        del trial
        return ""

    def ended(self, trial: Trial) -> None:
        """Take note that a trial ended, successfully or not."""
        del trial
