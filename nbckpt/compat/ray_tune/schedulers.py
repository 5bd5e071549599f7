"""Schedulers by Ray's names. Without one, trials run in the order in which they were made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from nbckpt.compat.arguments import refused_names
from nbckpt.errors import UsageError
from nbckpt.trials.model.drawing import leaves
from nbckpt.trials.model.metrics import ITERATION
from nbckpt.trials.schedulers import ASHA, PBT, MedianStopping


class FIFOScheduler:
    """Runs trials in order, which is what nbckpt does."""

    ADVICE: ClassVar[str] = (
        "use ASHAScheduler, MedianStoppingRule or PopulationBasedTraining, or end trials with stop="
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
        reduction_factor: float = 4,
        brackets: int = 1,
    ) -> None:
        if brackets != 1:
            raise UsageError(f"brackets={brackets} is not available here: there is one bracket")
        names = {"time_attr": time_attr, "metric": metric or "", "mode": mode or ""}
        super().__init__(max_t, grace_period, reduction_factor, rule="stop", **names)


class MedianStoppingRule(MedianStopping):
    """Stops trials that are worse than the median of the others, as Ray's does.

    Args:
        time_attr: The metric that says how long a trial has trained.
        metric: The metric that is compared; by default that of `tune.run`.
        mode: Whether `min` or `max` of it is best.
        grace_period: No trial stops before it has trained that long.
        min_samples_required: No trial stops before that many others have trained as long.
        min_time_slice: Has no effect: trials do not take turns here.
        hard_stop: Trials stop; they do not pause.

    Raises:
        UsageError: An argument is impossible, or asks for pauses.
    """

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        grace_period: float = 60.0,
        min_samples_required: int = 3,
        min_time_slice: int = 0,
        hard_stop: bool = True,  # noqa: FBT001, FBT002  Ray's signature
    ) -> None:
        del min_time_slice
        if not hard_stop:
            raise UsageError("hard_stop=False is not available here: trials stop. ASHA can pause them")
        super().__init__(
            *(grace_period, min_samples_required),
            time_attr=time_attr,
            metric=metric or "",
            mode=mode or "",
        )


class PopulationBasedTraining(PBT):
    """Population based training, as Ray's.

    Args:
        time_attr: The metric that says how long a trial has trained.
        metric: The metric that is compared; by default that of `tune.run`.
        mode: Whether `min` or `max` of it is best.
        perturbation_interval: How much training makes a generation.
        burn_in_period: There is none.
        hyperparam_mutations: The values that change: ranges, lists or functions, also in nested dicts.
        quantile_fraction: Which share of the population goes on from which other share.
        resample_probability: The chance that a value is drawn again.
        perturbation_factors: What numbers are multiplied by.
        custom_explore_fn: There is none: the values change by the other arguments.
        log_config: Has no effect: the journals keep every change.
        require_attrs: Has no effect: a report without the metric counts as the worst.
        synch: Trials do not wait for each other.

    Raises:
        UsageError: An argument is impossible, missing or not available.
    """

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        burn_in_period: float = 0.0,
        hyperparam_mutations: Mapping[str, Any] | None = None,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: tuple[float, float] = (1.2, 0.8),
        custom_explore_fn: Callable[..., Any] | None = None,
        log_config: bool = True,  # noqa: FBT001, FBT002  Ray's signature
        require_attrs: bool = True,  # noqa: FBT001, FBT002
        synch: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        del log_config, require_attrs
        if not hyperparam_mutations:
            raise UsageError("hyperparam_mutations is missing: give what changes, {'lr': [0.1, 0.01]}")
        for name, value in {"burn_in_period": burn_in_period, "synch": synch}.items():
            if value:
                raise UsageError(f"{name}={value} is not available here: leave it out")
        if custom_explore_fn is not None:
            raise UsageError("custom_explore_fn is not available here: give functions as mutations")
        super().__init__(
            perturbation_interval,
            mutations={"/".join(path): values for path, values in leaves(hyperparam_mutations)},
            quantile=quantile_fraction,
            resample=resample_probability,
            factors=perturbation_factors,
            time_attr=time_attr,
            metric=metric or "",
            mode=mode or "",
        )


AsyncHyperBandScheduler = ASHAScheduler


__getattr__ = refused_names(
    __name__,
    dict.fromkeys(
        (
            *("HyperBandScheduler", "HyperBandForBOHB", "PB2"),
            "PopulationBasedTrainingReplay",
            *("ResourceChangingScheduler", "create_scheduler"),
        ),
        FIFOScheduler.ADVICE,
    ),
)
