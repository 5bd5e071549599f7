"""Guarded: a search and a scheduler that may fail. The experiment then goes on without them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from nbckpt.errors import StoreError
from nbckpt.render import error_text
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.trial import Status, Trial, is_held, rungs_of, state_of
from nbckpt.trials.model.view import ExperimentView

_UNSAVED = (
    "trials without a checkpoint cannot be paused: at a rung they go on or stop. Report one when "
    "nbckpt.should_checkpoint() says so"
)
_GOES_ON = (
    "trials without a checkpoint cannot take over others, nor be taken over: they go on as they are. Report "
    "one when nbckpt.should_checkpoint() says so"
)

_log = logging.getLogger("nbckpt")


class Guarded:
    """Calls methods of an object, one at a time, until one fails.

    Attributes:
        source: The object; None if there is none or it failed.
        notes: The failures and what the object itself noted, one sentence each.
        open: Whether it may start trials: it has not failed, and nobody closed it.
    """

    kind: ClassVar[str]

    def __init__(self, source: object | None = None) -> None:
        self.source: Any = source
        self._failures: list[str] = []
        self._is_closed = False
        self._lock = threading.Lock()

    @property
    def notes(self) -> list[str]:
        """See the class."""
        return [*self._failures, *getattr(self.source, "notes", ())]

    @property
    def open(self) -> bool:
        """See the class."""
        return self.source is not None and not self._is_closed

    def close(self) -> None:
        """Start no trials until `reopen`."""
        self._is_closed = True

    def reopen(self) -> None:
        """Undo `close`."""
        self._is_closed = False

    def setup(self, experiment: ExperimentView) -> None:
        """See `Search.setup` and `Scheduler.setup`."""
        self._call("setup", experiment)

    def ended(self, trial: Trial) -> None:
        """See `Search.ended` and `Scheduler.ended`."""
        self._call("ended", trial)

    def _call(self, method: str, *arguments: Any) -> Any:
        with self._lock:
            if self.source is None:
                return None
            try:
                return getattr(self.source, method)(*arguments)
            except Exception as error:  # noqa: BLE001  the trials continue without it
                _log.warning("the %s's %s failed", self.kind, method, exc_info=error)
                self._failures.append(f"the {self.kind} is over since {method} failed: {error_text(error)}")
                self.source = None
                return None


class SafeSearch(Guarded):
    """An experiment's search, if it has one. While it is open, it may suggest new trials."""

    kind = "search"

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """See `Search.suggest`. The search is closed when it has no more."""
        config = self._call("suggest", trial_id)
        if config is not None and not isinstance(config, Mapping):
            self._failures.append(f"the search is over since suggest returned {config!r}, and not a dict")
            config = None
        if config is None:
            self.close()
            return None
        return dict(config)

    def reported(self, trial: Trial) -> str:
        """See `Search.reported`."""
        return str(self._call("reported", trial) or "")  # a search of the user's may return True


class SafeScheduler(Guarded):
    """An experiment's scheduler, if it has one. Without one, all trials go on.

    Attributes:
        held: The trials that it paused, by their names. They may go on while it is open.
        others_wait: Returns whether trials wait for their first turn.
        interrupted: The names of the trials that a crash interrupted, and that start again.
    """

    kind = "scheduler"
    others_wait: Callable[[], bool] = staticmethod(lambda: False)

    def __init__(self, scheduler: object | None = None) -> None:
        super().__init__(scheduler)
        self.held: dict[str, Trial] = {}
        self.interrupted: set[str] = set()

    def setup(self, experiment: ExperimentView) -> None:
        """See `Scheduler.setup`. Trials that were held before are held again."""
        super().setup(experiment)
        if self.source is not None:
            self.held = {trial.id: trial for trial in experiment.trials if is_held(trial)}

    def reported(self, trial: Trial) -> Decision | None:
        """See `Scheduler.reported`. Whether a trial yields is decided here."""
        decision: Decision | None = self._call("reported", trial)
        if decision is None or not (decision.do == "yield" or (decision.do == "pause" and self.takes_turns)):
            return decision
        # While it is closed, nobody would let the trial go on again.
        is_paused = self.open and (decision.do == "pause" or bool(self.held) or self.others_wait())
        return replace(decision, do="pause" if is_paused else "continue")

    @property
    def takes_turns(self) -> bool:
        """See `Scheduler`."""
        return self.source is not None and bool(self.source.takes_turns)

    def unsaved(self, trial: Trial, decision: Decision) -> Decision:
        """See `Scheduler.unsaved`."""
        note = _GOES_ON if self.takes_turns else _UNSAVED
        if note not in self._failures:
            self._failures.append(note)
        return self._call("unsaved", trial, decision) or Decision("continue", decision.reason)

    def wants_checkpoint(self, trial: Trial) -> bool:
        """See `Scheduler.wants_checkpoint`."""
        return bool(self._call("wants_checkpoint", trial))

    def resume(self, trial: Trial, recorder: TrialRecorder) -> None:
        """Let a trial go on because the user says so, and record that.

        Raises:
            StoreError: The disk failed.
        """
        was_held = self.held.pop(trial.id, None)  # first: then no worker lets it go on beside this
        rungs = rungs_of(trial)
        overrules = is_held(trial) or rungs > state_of(trial).scheduling.promoted
        if trial.status == Status.PAUSED and overrules:
            try:
                recorder.decided(Decision("promote", "resumed by the user", rungs - 1 if rungs else None))
            except StoreError:
                if was_held is not None:
                    self.held[trial.id] = was_held
                raise
            self._call("resumed", trial)

    def hold(self, trial: Trial) -> None:
        """Note that the scheduler has paused a trial, and that its worker has ended."""
        self.held[trial.id] = trial

    def promote(self, *, last: bool = False) -> Trial | None:
        """Return the held trial that goes on next, or None. Its journal has the decision already.

        If its journal cannot be written, the returned trial has failed with the cause.

        Args:
            last: Whether nothing else is left to train.
        """
        picked: tuple[Trial, Decision] | None = None
        if self.open and self.held:
            picked = self._call("last_trial" if last else "next_trial", self.held)
        if picked is None:
            return None
        trial, decision = picked
        if self.held.pop(trial.id, None) is None:  # it runs already, or has ended
            return None
        with TrialRecorder(trial) as recorder:
            try:
                recorder.decided(decision)
                recorder.queue()
            except StoreError as error:
                recorder.lose(str(error))
        return trial
