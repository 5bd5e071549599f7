"""Decision: what a scheduler decided about a trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Decision:
    """What a trial shall do.

    Attributes:
        do: To continue, to pause until the scheduler lets the trial go on, or to stop for good. `promote`
            lets a paused trial go on.
        reason: Why, in a sentence for people.
        rung: The rung at which this was decided, from 0; None if it was not at a rung. A stop at a rung gives
            the trial up; any other stop ends it as done.
        value: The metric there; None if it is not a finite number.
    """

    do: Literal["continue", "pause", "stop", "promote"]
    reason: str
    rung: int | None = None
    value: float | None = None
