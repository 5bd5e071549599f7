"""Schedulers by Ray's names. Without one, trials run in the order in which they were made."""

from __future__ import annotations

from typing import ClassVar

from nbckpt.compat.arguments import refused_names
from nbckpt.errors import UsageError
from nbckpt.trials.model.metrics import ITERATION
from nbckpt.trials.schedulers import ASHA


class FIFOScheduler:
    """Runs trials in order, which is what nbckpt does."""

    ADVICE: ClassVar[str] = (
        "use ASHAScheduler, end trials with stop=, or give search_alg an Optuna study with a pruner"
    )


class ASHAScheduler(ASHA):
    """Stops trials at rungs, as Ray's does. `nbckpt.trials.ASHA` can pause them, and continue the best.

    Args:
        time_attr: The metric that says how long a trial has trained.
        metric: The metric that is compared; by default that of `tune.run`.
        mode: Whether `min` or `max` of it is best.
        max_t: Every trial ends here.
        grace_period: Where the first rung is.
        reduction_factor: With 4, a quarter of the trials goes on at each rung.
        brackets: There is one bracket.

    Raises:
        UsageError: An argument is impossible, or asks for several brackets.
    """

    def __init__(
        self,
        time_attr: str = ITERATION,
        metric: str | None = None,
        mode: str | None = None,
        max_t: float = 100,
        grace_period: float = 1,
        reduction_factor: int = 4,
        brackets: int = 1,
    ) -> None:
        if brackets != 1:
            raise UsageError(f"brackets={brackets} is not available here: there is one bracket")
        names = {"time_attr": time_attr, "metric": metric or "", "mode": mode or ""}
        super().__init__(max_t, grace_period, reduction_factor, rule="stop", **names)


AsyncHyperBandScheduler = ASHAScheduler


__getattr__ = refused_names(
    __name__,
    dict.fromkeys(
        (
            *("HyperBandScheduler", "HyperBandForBOHB", "PB2"),
            *("MedianStoppingRule", "PopulationBasedTraining", "PopulationBasedTrainingReplay"),
            *("ResourceChangingScheduler", "create_scheduler"),
        ),
        FIFOScheduler.ADVICE,
    ),
)
