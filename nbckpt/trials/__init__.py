"""Trials: run a function many times, watch it, stop it, resume it. See `nbckpt.run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbckpt.lazy import attach

if TYPE_CHECKING:
    from nbckpt.trials import executors as executors
    from nbckpt.trials.catalog import Catalog as Catalog
    from nbckpt.trials.checkpoints.durable import NotDurableError as NotDurableError
    from nbckpt.trials.checkpoints.folder import CheckpointFolder as CheckpointFolder
    from nbckpt.trials.checkpoints.record import Record as Record
    from nbckpt.trials.comparing import compare as compare
    from nbckpt.trials.engine.experiment import Experiment as Experiment
    from nbckpt.trials.engine.open_trial import OpenTrial as OpenTrial
    from nbckpt.trials.engine.upload import SyncerCallback as SyncerCallback
    from nbckpt.trials.executors import Executor as Executor
    from nbckpt.trials.executors import Worker as Worker
    from nbckpt.trials.executors import WorkerLostError as WorkerLostError
    from nbckpt.trials.model.annotation import Annotation as Annotation
    from nbckpt.trials.model.callback import Callback as Callback
    from nbckpt.trials.model.decision import Decision as Decision
    from nbckpt.trials.model.metrics import OnResult as OnResult
    from nbckpt.trials.model.retention import RetentionPolicy as RetentionPolicy
    from nbckpt.trials.model.trial import Status as Status
    from nbckpt.trials.model.trial import Trial as Trial
    from nbckpt.trials.model.view import ExperimentView as ExperimentView
    from nbckpt.trials.schedulers import ASHA as ASHA
    from nbckpt.trials.schedulers import PBT as PBT
    from nbckpt.trials.schedulers import MedianStopping as MedianStopping
    from nbckpt.trials.schedulers import OptunaPruner as OptunaPruner
    from nbckpt.trials.schedulers import Scheduler as Scheduler
    from nbckpt.trials.search import OptunaSampler as OptunaSampler
    from nbckpt.trials.search import Search as Search
    from nbckpt.trials.training.durable import DurableTrainable as DurableTrainable
    from nbckpt.trials.training.durable import durable as durable
    from nbckpt.trials.training.function import FunctionRunner as FunctionRunner
    from nbckpt.trials.training.function import wrap_function as wrap_function
    from nbckpt.trials.training.parameters import with_parameters as with_parameters
    from nbckpt.trials.training.reporter import StatusReporter as StatusReporter
    from nbckpt.trials.training.session import StopTrial as StopTrial
    from nbckpt.trials.training.session import checkpoint_dir as checkpoint_dir
    from nbckpt.trials.training.trainable import Trainable as Trainable

_HOMES = {
    "ASHA": "nbckpt.trials.schedulers",
    "PBT": "nbckpt.trials.schedulers",
    "Decision": "nbckpt.trials.model.decision",
    "MedianStopping": "nbckpt.trials.schedulers",
    "OptunaPruner": "nbckpt.trials.schedulers",
    "Scheduler": "nbckpt.trials.schedulers",
    "Annotation": "nbckpt.trials.model.annotation",
    "ExperimentView": "nbckpt.trials.model.view",
    "OnResult": "nbckpt.trials.model.metrics",
    "Callback": "nbckpt.trials.model.callback",
    "CheckpointFolder": "nbckpt.trials.checkpoints.folder",
    "Record": "nbckpt.trials.checkpoints.record",
    "DurableTrainable": "nbckpt.trials.training.durable",
    "SyncerCallback": "nbckpt.trials.engine.upload",
    "checkpoint_dir": "nbckpt.trials.training.session",
    "durable": "nbckpt.trials.training.durable",
    "Executor": "nbckpt.trials.executors",
    "Worker": "nbckpt.trials.executors",
    "WorkerLostError": "nbckpt.trials.executors",
    "Experiment": "nbckpt.trials.engine.experiment",
    "OpenTrial": "nbckpt.trials.engine.open_trial",
    "FunctionRunner": "nbckpt.trials.training.function",
    "with_parameters": "nbckpt.trials.training.parameters",
    "wrap_function": "nbckpt.trials.training.function",
    "RetentionPolicy": "nbckpt.trials.model.retention",
    "Catalog": "nbckpt.trials.catalog",
    "NotDurableError": "nbckpt.trials.checkpoints.durable",
    "StatusReporter": "nbckpt.trials.training.reporter",
    "OptunaSampler": "nbckpt.trials.search",
    "Search": "nbckpt.trials.search",
    "StopTrial": "nbckpt.trials.training.session",
    "Trainable": "nbckpt.trials.training.trainable",
    "compare": "nbckpt.trials.comparing",
    "Status": "nbckpt.trials.model.trial",
    "Trial": "nbckpt.trials.model.trial",
}

if not TYPE_CHECKING:  # with it, a type checker would accept every name
    __getattr__, __dir__, __all__ = attach(__name__, _HOMES, namespaces=("executors",))
