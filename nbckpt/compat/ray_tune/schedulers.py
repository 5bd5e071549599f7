"""Schedulers by Ray's names. Trials run in the order in which they were made."""

from __future__ import annotations

from typing import ClassVar

from nbckpt.compat.arguments import refused_names


class FIFOScheduler:
    """Runs trials in order, which is what nbckpt does."""

    ADVICE: ClassVar[str] = (
        "leave it out, and end trials with stop=, or give search_alg an Optuna study with a pruner"
    )


__getattr__ = refused_names(
    __name__,
    dict.fromkeys(
        (
            *("ASHAScheduler", "AsyncHyperBandScheduler", "HyperBandScheduler", "HyperBandForBOHB", "PB2"),
            *("MedianStoppingRule", "PopulationBasedTraining", "PopulationBasedTrainingReplay"),
            *("ResourceChangingScheduler", "create_scheduler"),
        ),
        FIFOScheduler.ADVICE,
    ),
)
