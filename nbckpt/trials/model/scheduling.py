"""Scheduling: what a scheduler decided about a trial so far. It is a fold over the trial's journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from nbckpt.trials.model.journal import Event

GENERATION = "generation "
"""How the reasons begin of a scheduler whose rungs are generations: rung 0 is generation 1."""
_GO_ON = frozenset({"promote", "exploit"})
"""The decisions after which a trial is not held."""
_MOVES = frozenset({"queue", "start", "end", "error"})
"""The events after which a trial is not held."""
_MOST_RUNGS = 256
"""Of how many rungs the values are kept: the highest. Generations may be many."""


class Takeover(NamedTuple):
    """What a trial takes over before it starts again: see docs/decisions/0108.

    Attributes:
        donor: The trial from which it takes a checkpoint.
        checkpoint: The name of that checkpoint.
        config: Its configuration from then on.
    """

    donor: str
    checkpoint: str
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Scheduling:
    """What a scheduler decided about a trial; see docs/decisions/0105.

    Attributes:
        rungs: The metric that it compared at each rung; None if it was not a finite number.
        promoted: How many rungs it let the trial leave.
        held: Whether it paused the trial and has not let the trial go on since.
        reason: Why it decided what it decided last.
        do: What it decided last; empty before that.
        at: The number of results that the trial had then.
        value: The metric of the last decision that has one.
        takeover: What the trial takes over before it starts again; None for nothing.
        donor: The checkpoint that it took over last, as `t0@8`; empty for none.
    """

    rungs: Mapping[int, float | None] = field(default_factory=dict)
    promoted: int = 0
    held: bool = False
    reason: str = ""
    do: str = ""
    at: int = 0
    value: float | None = None
    takeover: Takeover | None = None
    donor: str = ""

    @property
    def has_generations(self) -> bool:
        """Whether the rungs of its scheduler are generations."""
        return self.reason.startswith(GENERATION)

    def followed_by(self, event: Event, iteration: int) -> Scheduling:
        """Return this after one more event of the journal, when the trial has *iteration* results."""
        kind = event.get("event")
        if kind == "decision":
            return self._decided(event, iteration)
        if kind == "pause":  # journals that have no `held` are ASHA's, which pauses at rungs only
            return replace(self, held=event.get("held", "rung" in event))
        if kind == "checkpoint" and self.takeover is not None and "donor" in event:
            return replace(self, takeover=None, donor=event["donor"])
        return replace(self, held=False) if self.held and kind in _MOVES else self

    def _decided(self, event: Event, iteration: int) -> Scheduling:
        do, rung, rungs, promoted = event["do"], event.get("rung"), self.rungs, self.promoted
        if rung is not None:
            if "value" in event and do != "exploit":
                # The first counts: the report is repeated if the trial restarts before it.
                rungs = {rung: event["value"], **rungs}
                if len(rungs) > _MOST_RUNGS:
                    del rungs[min(rungs)]
            if do == "continue" or do in _GO_ON:
                promoted = max(promoted, rung + 1)
        return Scheduling(
            rungs,
            promoted,
            self.held and do not in _GO_ON,
            event["reason"],
            do,
            iteration,
            event.get("value", self.value),
            _takeover(event) if do == "exploit" else None,
            self.donor,
        )


def _takeover(event: Event) -> Takeover | None:
    if not event.keys() >= {"donor", "checkpoint", "config"}:
        return None
    return Takeover(event["donor"], event["checkpoint"], event["config"])
