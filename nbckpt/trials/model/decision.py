"""Decision: what a scheduler decided about a trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Decision:
    """What a trial shall do.

    Attributes:
        do: To continue; to pause until the scheduler lets the trial go on; to stop, which gives the trial up;
            or to end, because it has trained enough. `promote` lets a paused trial go on.
        reason: Why, in a sentence for people.
        rung: The rung at which this was decided, from 0; None if it was not at a rung.
        value: The metric there; None if it is not a finite number.
    """

    do: Literal["continue", "pause", "stop", "end", "promote"]
    reason: str
    rung: int | None = None
    value: float | None = None
