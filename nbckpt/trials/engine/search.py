"""Search: the source of an experiment's configurations."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import Any

from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView

_log = logging.getLogger("nbckpt")


class Search(ABC):
    """Suggests configurations until it has no more; the experiment's `num_samples` is the upper limit.

    Its methods are called one at a time, in worker threads. If a method raises an exception, the search is
    over. The existing trials continue, and the experiment's notes say so.
    """

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


class SafeSearch:
    """An experiment's search, if it has one. The experiment continues without a search that fails.

    Attributes:
        source: The search; None if there is none or it failed.
        open: Whether the search may suggest new trials.
        notes: The failures, one sentence each.
    """

    def __init__(self, search: Search | None = None) -> None:
        self.open = search is not None
        self.notes: list[str] = []
        self.source = search
        self._lock = threading.Lock()

    def resume(self) -> None:
        """Open the search again, unless it failed."""
        self.open = self.source is not None

    def setup(self, experiment: ExperimentView) -> None:
        """See `Search.setup`."""
        self._call("setup", experiment)

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """See `Search.suggest`."""
        config: dict[str, Any] | None = self._call("suggest", trial_id)
        self.open = config is not None
        return config

    def reported(self, trial: Trial) -> str:
        """See `Search.reported`."""
        return self._call("reported", trial) or ""

    def ended(self, trial: Trial) -> None:
        """See `Search.ended`."""
        self._call("ended", trial)

    def _call(self, method: str, argument: Any) -> Any:
        with self._lock:
            if self.source is None:
                return None
            try:
                return getattr(self.source, method)(argument)
            except Exception as error:  # noqa: BLE001  the trials continue without a failing search
                _log.warning("the search's %s failed", method, exc_info=error)
                self.notes.append(
                    f"the search is over since {method} failed: {type(error).__name__}: {error}"
                )
                self.source, self.open = None, False
                return None
