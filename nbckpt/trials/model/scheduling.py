"""Scheduling: what a scheduler decided about a trial so far. It is a fold over the trial's journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nbckpt.trials.model.journal import Event

_MOVES = frozenset({"queue", "start", "end", "error"})
"""The events after which a trial is not held."""


@dataclass(frozen=True)
class Scheduling:
    """What a scheduler decided about a trial; see docs/decisions/0105.

    Attributes:
        rungs: The metric that it compared at each rung; None if it was not a finite number.
        promoted: How many rungs it let the trial leave.
        held: Whether it paused the trial and has not let the trial go on since.
        reason: Why it decided what it decided last.
    """

    rungs: Mapping[int, float | None] = field(default_factory=dict)
    promoted: int = 0
    held: bool = False
    reason: str = ""

    def followed_by(self, event: Event) -> Scheduling:
        """Return this after one more event of the journal."""
        kind = event.get("event")
        if kind == "decision":
            return self._decided(event)
        if kind == "pause":  # journals that have no `held` are ASHA's, which pauses at rungs only
            return replace(self, held=event.get("held", "rung" in event))
        return replace(self, held=False) if self.held and kind in _MOVES else self

    def _decided(self, event: Event) -> Scheduling:
        do, rung, rungs, promoted = event["do"], event.get("rung"), self.rungs, self.promoted
        if rung is not None:
            if "value" in event:  # the first counts: the report is repeated if the trial restarts before it
                rungs = {rung: event["value"], **rungs}
            if do in {"continue", "promote"}:
                promoted = max(promoted, rung + 1)
        return Scheduling(rungs, promoted, self.held and do != "promote", event["reason"])
