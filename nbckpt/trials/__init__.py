"""Trials: run a function many times, watch it, stop it, resume it. See `nbckpt.run`."""

from nbckpt.trials.callbacks import Callback
from nbckpt.trials.checkpoints import CheckpointFolder, Record
from nbckpt.trials.durable import DurableTrainable, durable
from nbckpt.trials.executors import Executor, Worker, WorkerLostError
from nbckpt.trials.experiment import Experiment
from nbckpt.trials.function import FunctionRunner, wrap_function
from nbckpt.trials.keeping import Keep
from nbckpt.trials.library import Library
from nbckpt.trials.remote import NotDurableError
from nbckpt.trials.reporter import StatusReporter
from nbckpt.trials.search import Search
from nbckpt.trials.session import StopTrial
from nbckpt.trials.trainable import Trainable
from nbckpt.trials.trial import Status, Trial

__all__ = [
    "Callback",
    "CheckpointFolder",
    "DurableTrainable",
    "Executor",
    "Experiment",
    "FunctionRunner",
    "Keep",
    "Library",
    "NotDurableError",
    "Record",
    "Search",
    "Status",
    "StatusReporter",
    "StopTrial",
    "Trainable",
    "Trial",
    "Worker",
    "WorkerLostError",
    "durable",
    "wrap_function",
]
