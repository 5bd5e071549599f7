"""Search: where the configurations of an experiment come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from nbckpt.trials.trial import Trial


class Search(ABC):
    """Comes up with configurations, as long as it likes. Its methods are called from the trials' threads."""

    @abstractmethod
    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Return the configuration of a new trial, or None when there are enough."""

    def reported(self, trial: Trial) -> str:
        """A trial reported; return why it should end, or nothing."""
        del trial
        return ""

    def ended(self, trial: Trial) -> None:
        """Take note that a trial ended, well or not."""
        del trial

    def close(self) -> None:
        """Come up with nothing more: the experiment is being paused or stopped."""
        return
