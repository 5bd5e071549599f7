"""Search: where the configurations of an experiment come from."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import Any

from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView

_log = logging.getLogger("nbckpt")


class Search(ABC):
    """Comes up with configurations, as long as it likes; the experiment's `num_samples` is the most it gets.

    Its methods are called one at a time, in the threads that drive the trials. When one raises, the
    search is over; the trials that there are go on, and the experiment's notes tell.
    """

    def setup(self, experiment: ExperimentView) -> None:
        """The experiment begins, or goes on; it may have trials already."""
        del experiment

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


class SafeSearch:
    """What an experiment asks its search, if it has one; it goes on without one that fails.

    Attributes:
        open: Whether new trials may come of it.
        notes: What failed, a sentence each.
    """

    def __init__(self, search: Search | None = None) -> None:
        self.open = search is not None
        self.notes: list[str] = []
        self._search = search
        self._lock = threading.Lock()

    def resume(self) -> None:
        """Open it again, if it did not fail."""
        self.open = self._search is not None

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
        return "" if self._search is None else self._call("reported", trial) or ""

    def ended(self, trial: Trial) -> None:
        """See `Search.ended`."""
        self._call("ended", trial)

    def _call(self, method: str, argument: Any) -> Any:
        with self._lock:
            if self._search is None:
                return None
            try:
                return getattr(self._search, method)(argument)
            except Exception as error:  # noqa: BLE001  the trials go on without a failing search
                _log.warning("the search's %s failed", method, exc_info=error)
                self.notes.append(
                    f"the search is over since {method} failed: {type(error).__name__}: {error}"
                )
                self._search, self.open = None, False
                return None
