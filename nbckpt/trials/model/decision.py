"""Decision: what a scheduler decided about a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Decision:
    """What a trial shall do.

    Attributes:
        do: To continue; to pause until the scheduler lets the trial go on; to stop, which gives the trial up;
            or to end, because it has trained enough. `yield` is a pause if another trial waits for its turn,
            otherwise the trial continues. `promote` lets a paused trial go on; `exploit` does so from a
            checkpoint of another trial and with another configuration.
        reason: Why, in a sentence for people.
        rung: The rung at which this was decided, from 0; None if it was not at a rung.
        value: The metric there; None if it is not a finite number. For `exploit`, the other trial's.
        donor: For `exploit`, the name of the other trial.
        checkpoint: For `exploit`, the name of its newest checkpoint.
        config: For `exploit`, the new configuration.

    Examples:
        >>> nbckpt.trials.Decision("stop", "the loss grows").do
        'stop'
    """

    do: Literal["continue", "pause", "yield", "stop", "end", "promote", "exploit"]
    reason: str
    rung: int | None = None
    value: float | None = None
    donor: str = ""
    checkpoint: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
