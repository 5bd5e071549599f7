"""Trials: run a function many times, watch it, stop it, resume it. See `nbckpt.run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbckpt.lazy import getter

if TYPE_CHECKING:
    from nbckpt.trials.callbacks import Callback as Callback
    from nbckpt.trials.checkpoints import CheckpointFolder as CheckpointFolder
    from nbckpt.trials.checkpoints import Record as Record
    from nbckpt.trials.durable import DurableTrainable as DurableTrainable
    from nbckpt.trials.executors import Executor as Executor
    from nbckpt.trials.executors import Worker as Worker
    from nbckpt.trials.executors import WorkerLostError as WorkerLostError
    from nbckpt.trials.experiment import Experiment as Experiment
    from nbckpt.trials.function import FunctionRunner as FunctionRunner
    from nbckpt.trials.function import wrap_function as wrap_function
    from nbckpt.trials.keeping import Keep as Keep
    from nbckpt.trials.library import Library as Library
    from nbckpt.trials.remote import NotDurableError as NotDurableError
    from nbckpt.trials.reporter import StatusReporter as StatusReporter
    from nbckpt.trials.search import Search as Search
    from nbckpt.trials.session import StopTrial as StopTrial
    from nbckpt.trials.trainable import Trainable as Trainable
    from nbckpt.trials.trial import Status as Status
    from nbckpt.trials.trial import Trial as Trial

_HOMES = {
    "Callback": "nbckpt.trials.callbacks",
    "CheckpointFolder": "nbckpt.trials.checkpoints",
    "Record": "nbckpt.trials.checkpoints",
    "DurableTrainable": "nbckpt.trials.durable",
    "Executor": "nbckpt.trials.executors",
    "Worker": "nbckpt.trials.executors",
    "WorkerLostError": "nbckpt.trials.executors",
    "Experiment": "nbckpt.trials.experiment",
    "FunctionRunner": "nbckpt.trials.function",
    "wrap_function": "nbckpt.trials.function",
    "Keep": "nbckpt.trials.keeping",
    "Library": "nbckpt.trials.library",
    "NotDurableError": "nbckpt.trials.remote",
    "StatusReporter": "nbckpt.trials.reporter",
    "Search": "nbckpt.trials.search",
    "StopTrial": "nbckpt.trials.session",
    "Trainable": "nbckpt.trials.trainable",
    "Status": "nbckpt.trials.trial",
    "Trial": "nbckpt.trials.trial",
}

__all__ = [*_HOMES]
__getattr__ = getter(__name__, _HOMES)
