"""View: an experiment as callbacks, searches, tables and plots see it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Trial


class Internals(Protocol):
    """What only nbckpt's own modules need of an experiment. Any thread may use it."""

    @property
    def version(self) -> int:
        """A number that grows with every change."""

    @property
    def unfinished(self) -> int:
        """The number of trials that run or will run here and that nobody asked to pause or to stop."""

    @property
    def ending(self) -> bool:
        """Whether no trial runs, and only the callbacks still work."""

    def asked(self, name: str) -> str:
        """Return what a running trial was asked to do next: pause, stop, checkpoint, or "" for nothing."""

    def lost(self, names: Sequence[str]) -> list[str]:
        """Return which of these trials nobody runs, neither this process nor another one."""

    def pause(self) -> None:
        """Pause the trials that this process runs."""

    def touch(self) -> None:
        """Count a change, so that every view of the experiment is refreshed."""


class ExperimentView(Protocol):
    """A readable experiment. Any thread may read it."""

    @property
    def name(self) -> str:
        """The name, which is the name of its folder."""

    @property
    def folder(self) -> Path:
        """The folder that holds it."""

    @property
    def spec(self) -> Spec:
        """Its specification."""

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials, in the order in which they were made."""

    @property
    def notes(self) -> list[str]:
        """Problems outside the trials, one sentence each."""

    @property
    def running(self) -> bool:
        """Whether it runs in this process, or waits to run."""

    def trial(self, name: str | Trial) -> Trial:
        """Return a trial by its short name.

        Raises:
            UsageError: There is no such trial.
        """

    def runs_elsewhere(self) -> bool:
        """Return whether another process runs the experiment."""

    @property
    def _internals(self) -> Internals:
        """See `internals`."""


def internals(experiment: ExperimentView) -> Internals:
    """Return what users of an experiment do not see. See docs/decisions/0073."""
    return experiment._internals
