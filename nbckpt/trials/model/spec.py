"""Spec: what an experiment is to do. `spec_file.py` writes and reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from nbckpt.core.manifest import now
from nbckpt.errors import UsageError
from nbckpt.sync import SyncConfig
from nbckpt.trials.model.metrics import as_plain, is_number, whole_number
from nbckpt.trials.model.objectives import Objective, listed
from nbckpt.trials.model.retention import RetentionPolicy
from nbckpt.trials.model.stopping import Stop, Stopper
from nbckpt.trials.model.trial import Trial

LOOP = "cell"
"""The executor of trials whose code is not a function: they were opened by `nbckpt.track`."""


class CallbackLike(Protocol):
    """A `Callback`, as the spec that keeps it knows it."""

    def on_experiment_end(self, trials: Sequence[Trial]) -> None:
        """See `Callback.on_experiment_end`."""


class SchedulerLike(Protocol):
    """A `Scheduler`, as the spec that keeps it knows it."""

    metric: str

    def with_metric(self, metric: str, mode: str) -> None:
        """See `Scheduler.with_metric`."""


class SearchLike(Protocol):
    """A `Search`, as the spec that keeps it knows it."""

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """See `Search.suggest`."""


@dataclass(frozen=True)
class Spec:
    """The specification of an experiment.

    Attributes:
        trainable: The function or the Trainable class; None if only the file was read.
        config: The space that configurations are drawn from.
        num_samples: How often configurations are drawn from the space.
        seed: The random seed of the drawing, which makes it repeatable.
        stop: The condition that ends a trial.
        max_concurrent: How many trials run side by side.
        max_failures: How often a failed trial is retried.
        keep: Which checkpoints are kept; None for all.
        checkpoint_every: After how many results a Trainable is saved. A function decides that itself.
        callbacks: The callbacks of the experiment, each a `Callback`.
        executor: The name of the executor.
        resources: The resources of each trial, for executors that use them.
        metric: The metric that compares trials; of several objectives the first.
        mode: Whether `min` or `max` of the metric is best.
        created_at: When the experiment was made, in UTC.
        sync: Where and how to sync the experiment; None if it is not synced.
        origin: Where the checkpoint that trials start from is from, for people; empty if there is none.
        provenance: Whether trials keep what is needed to do them again.
        system_metrics: Whether the load of the machine is kept with the results.
        scheduler: What decides which trials go on, a `Scheduler`; None if all go on.
        search: The `Search` that another process can make again; None if there is none or it cannot.
        points: The configurations to try first. Each gives some of the values that vary.
        others: The objectives beside the first, if there are several.
    """

    trainable: Callable[..., Any] | None
    config: Mapping[str, Any] = field(default_factory=dict)
    num_samples: int = 1
    seed: int = 0
    stop: Stop = None
    max_concurrent: int = 1
    max_failures: int = 0
    keep: RetentionPolicy | None = None
    checkpoint_every: int = 0
    callbacks: tuple[CallbackLike, ...] = ()
    executor: str = "thread"
    resources: Mapping[str, float] = field(default_factory=dict)
    metric: str = ""
    mode: str = ""
    created_at: str = field(default_factory=now)
    sync: SyncConfig | None = None
    origin: str = ""
    provenance: bool = True
    system_metrics: bool = False
    scheduler: SchedulerLike | None = None
    search: SearchLike | None = None
    points: tuple[Mapping[str, Any], ...] = ()
    others: tuple[Objective, ...] = ()

    def __post_init__(self) -> None:
        """Refuse impossible values. Numbers of NumPy and whole floats become ints, as the file has them."""
        for name, least in (
            ("num_samples", 1),
            ("max_concurrent", 1),
            ("max_failures", 0),
            ("checkpoint_every", 0),
        ):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
            if getattr(self, name) < least:
                raise UsageError(f"{name}={getattr(self, name)} is too few: give {least} or more")
        object.__setattr__(self, "seed", as_plain(self.seed))
        if not is_number(self.seed):
            raise UsageError(f"seed={self.seed!r} is not a number")
        if self.mode not in {"", "min", "max"}:
            raise UsageError(f"mode={self.mode!r} is unknown: use 'min' or 'max'")
        Stopper(self.stop)
        if self.scheduler is not None:
            self.scheduler.with_metric(*self._compared_by(self.scheduler))

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """The metrics to improve, each with its mode. Empty if a metric or its mode was not given."""
        return (Objective(self.metric, self.mode), *self.others) if self.metric and self.mode else ()

    @property
    def stopper(self) -> Stopper:
        """What decides after each result whether a trial ends."""
        falling = (known.metric for known in self.objectives if known.mode == "min")
        return Stopper(self.stop, frozenset(falling))

    def mode_of(self, metric: str) -> str:
        """Return whether `min` or `max` of a metric is best; "" if it is not an objective."""
        return next((known.mode for known in self.objectives if known.metric == metric), "")

    def comparison(self) -> dict[str, Any]:
        """Return the arguments `metric` and `mode` of `nbckpt.run`."""
        if not self.others:
            return {"metric": self.metric, "mode": self.mode}
        return {name: [getattr(known, name) for known in self.objectives] for name in ("metric", "mode")}

    def _compared_by(self, scheduler: SchedulerLike) -> tuple[str, str]:
        """Return the metric by which a scheduler compares trials, and its mode; see docs/decisions/0112."""
        if not self.others:
            return self.metric, self.mode
        if not scheduler.metric:
            name = type(scheduler).__name__
            raise UsageError(
                f"{name} compares trials by one metric, and the objectives are {listed(self.objectives)}: "
                f"choose one, {name}(metric={self.metric!r}, mode={self.mode!r})"
            )
        return scheduler.metric, self.mode_of(scheduler.metric)

    @property
    def function_name(self) -> str:
        """The name of the function or the class."""
        return getattr(self.trainable, "__name__", "") or type(self.trainable).__name__
