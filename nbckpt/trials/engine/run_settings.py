"""RunSettings: what all trials of an experiment share while they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nbckpt.sync import SyncConfig
from nbckpt.trials.engine.callbacks import Callbacks
from nbckpt.trials.engine.guarded import SafeScheduler, SafeSearch
from nbckpt.trials.executors import Executor
from nbckpt.trials.model.retention import RetentionPolicy
from nbckpt.trials.model.stopping import Stopper
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.training.trainable import Trainable


class Versioned(Protocol):
    """An experiment whose views are refreshed when its version grows."""

    version: int


@dataclass(frozen=True)
class RunSettings:
    """The settings that every trial of an experiment shares."""

    trainable: type[Trainable]
    executor: Executor
    stopper: Stopper
    keep: RetentionPolicy | None
    checkpoint_every: int
    max_failures: int
    callbacks: Callbacks
    search: SafeSearch
    experiment: Versioned
    sync: SyncConfig = field(default_factory=SyncConfig)
    origin: str = ""
    provenance: bool = True
    system_metrics: bool = False
    scheduler: SafeScheduler = field(default_factory=SafeScheduler)
    resources: Mapping[str, float] = field(default_factory=dict)

    @property
    def judges(self) -> bool:
        """Whether anything but the trainable can end a trial, so that each result needs a `verdict`."""
        return not (self.stopper.stop is None and self.search.source is self.scheduler.source is None)

    def tell_end(self, trial: Trial) -> None:
        """Tell the search and the scheduler that a trial ended, successfully or not."""
        self.search.ended(trial)
        self.scheduler.ended(trial)
