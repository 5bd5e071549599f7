"""Executors: where trials run. One small interface, and everything above it is the same for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbckpt.errors import TrialError
from nbckpt.sync import SyncConfig
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.training.trainable import Trainable

Handle = Callable[[dict[str, Any]], bool]
"""Given each result; tells whether the trial is to go on."""

Waits = Callable[[str], bool]
"""Called again and again, with what is missing, while a trial waits to begin; False when it is not to."""


class WorkerLostError(TrialError):
    """What the trial ran in is gone: a process was killed, a node was lost."""


class WorkerEndedError(WorkerLostError):
    """The worker was asked to end, as a kernel asks all its processes when it shuts down: no failure."""


@dataclass(frozen=True)
class Job:
    """What a worker is to run.

    Attributes:
        trainable: The class.
        config: The configuration.
        folder: The trial's folder, on the disk of the one who asks.
        trial: The trial's short name.
        name: The experiment's and the trial's.
        waits: Called while it waits for room; an executor that never waits has no use for it.
        sync: Whether, how often and where to the files are brought that a trial writes beside its
            checkpoints, where it runs on another machine.
        warns: Told what went wrong beside the trial.
    """

    trainable: type[Trainable]
    config: Mapping[str, Any]
    folder: Path
    trial: str
    name: str
    waits: Waits = lambda _: True
    sync: SyncConfig = field(default_factory=SyncConfig)
    warns: Callable[[Exception], None] = lambda _: None


class Worker(ABC):
    """A trainable that runs somewhere. One thread drives it; `kill` may come from another."""

    @abstractmethod
    def restore(self, checkpoint: Record) -> None:
        """Go on from a checkpoint in the trial's folder; called before `run`.

        Raises:
            TrialError: The user's code failed.
        """

    @abstractmethod
    def run(self, handle: Handle) -> None:
        """Train, and give each result to *handle*, until that says no or a result says `done`.

        *handle* may be called in another thread, while this one waits. Inside the call the trainable is
        at rest: it can be saved.

        Raises:
            TrialError: The user's code failed; its own exception is the cause.
            WorkerLostError: The worker is gone.
        """

    @abstractmethod
    def save(self) -> Record | None:
        """Save a checkpoint in the trial's folder; None where there is nothing to go on from.

        Raises:
            TrialError: The user's code failed.
            StoreError: The disk failed.
        """

    def ask_for_checkpoint(self) -> None:  # noqa: B027  not all can
        """Let a function know that somebody asked for a checkpoint, for its next result; from any thread.

        An executor that cannot do so may leave it out: a Trainable class is saved by `save` all the same.
        """

    @abstractmethod
    def stop(self) -> None:
        """End the trainable: its `finally` blocks and its `cleanup` run. Waits for that, for a while."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once, wherever it is, as far as that is possible; `run` raises `WorkerLostError`."""


class Executor(ABC):
    """Starts workers.

    Attributes:
        name: What users call it.
        concurrent: Whether trials may run side by side, each driven by a thread.
    """

    name: str
    concurrent = True

    @abstractmethod
    def start(self, job: Job) -> Worker:
        """Make the trainable, somewhere; nothing is made where `job.waits` says no.

        Raises:
            TrialError: The user's `setup` failed; elsewhere, the worker's first call may tell.
            UsageError: There is nothing that it could ever run on.
            WorkerLostError: There is nowhere to run it.
            CodecError: It cannot be sent there.
        """
