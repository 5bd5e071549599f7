"""View: what callbacks, searches, tables and curves know of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Trial

ControlSignal = Literal["", "pause", "stop"]
"""What a running trial was asked to do."""


class ExperimentView(Protocol):
    """An experiment, to be looked at from any thread."""

    @property
    def name(self) -> str:
        """The name, which is that of its folder."""

    @property
    def folder(self) -> Path:
        """The folder that keeps it."""

    @property
    def spec(self) -> Spec:
        """What it is to do."""

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials, in the order in which they were made."""

    @property
    def notes(self) -> list[str]:
        """What went wrong beside the trials, a sentence each."""

    @property
    def running(self) -> bool:
        """Whether it runs in this process, or waits to."""

    def trial(self, name: str | Trial) -> Trial:
        """Return a trial by its short name.

        Raises:
            UsageError: There is none.
        """

    def runs_elsewhere(self) -> bool:
        """Tell whether another process runs it."""

    def asked(self, trial: Trial) -> ControlSignal | Literal["checkpoint"]:
        """Return what a running trial was asked to do next: pause, stop, checkpoint, or nothing."""

    def touch(self) -> None:
        """Note that something changed, so that whoever shows the experiment looks again."""
