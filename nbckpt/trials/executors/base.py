"""Executors: where trials run. All executors share one small interface, so the engine treats them alike."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbckpt.errors import TrialError
from nbckpt.sync import SyncConfig
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model.metrics import OnResult
from nbckpt.trials.training.trainable import Trainable

MOST_AT_ONCE = 8
"""How many trials run side by side by default, at most."""

Waits = Callable[[str], bool]
"""Polled with the missing resources while a trial waits. Return False to give up."""


class WorkerLostError(TrialError):
    """The process or node of the trial is gone: the process was killed, or the node was lost."""


class WorkerEndedError(WorkerLostError):
    """The worker was asked to end, as a kernel asks its processes when it shuts down. Not a failure."""


class WorkerTimeUpError(WorkerLostError):
    """The worker's time or its place is taken. The trial goes on in another worker. Not a failure."""


@dataclass(frozen=True)
class Job:
    """The job of a worker: the trial to run.

    Attributes:
        trainable: The class.
        config: The configuration.
        folder: The trial's folder, on the disk of the machine that runs the experiment.
        trial: The trial's short name.
        name: The names of the experiment and the trial.
        waits: Called while the trial waits for resources. An executor that never waits ignores it.
        sync: Whether, how often and where to sync the files that a trial on another machine writes beside
            its checkpoints.
        warns: Takes problems outside the trial.
        leaves: Called when the worker will be lost soon: the next result is to come with a checkpoint.
        resources: The resources that the trial needs: `CPU`, `GPU` and those that the executor knows.
        is_followed: Whether other trials wait now, so that `start` will be called again soon.
    """

    trainable: type[Trainable]
    config: Mapping[str, Any]
    folder: Path
    trial: str
    name: str
    waits: Waits = lambda _: True
    sync: SyncConfig = field(default_factory=SyncConfig)
    warns: Callable[[Exception], None] = lambda _: None
    resources: Mapping[str, float] = field(default_factory=dict)
    leaves: Callable[[], None] = lambda: None
    is_followed: bool = False


class Worker(ABC):
    """A trainable that runs on an executor. One thread controls it; another thread may call `kill`."""

    @abstractmethod
    def restore(self, checkpoint: Record) -> None:
        """Restore a checkpoint from the trial's folder. Called before `run`.

        Raises:
            TrialError: The user's code failed.
        """

    @abstractmethod
    def run(self, on_result: OnResult) -> None:
        """Train, and push each result, until *on_result* returns False or a result is the last.

        *on_result* may be called in another thread while this one waits. During the call the trainable is
        idle: it can be saved.

        Raises:
            TrialError: The user's code failed; its exception is the cause.
            WorkerLostError: The worker is gone.
        """

    @abstractmethod
    def save(self) -> Record | None:
        """Save a checkpoint in the trial's folder. Return None if there is nothing to save.

        Raises:
            TrialError: The user's code failed.
            StoreError: The disk failed.
        """

    def ask_for_checkpoint(self) -> None:  # noqa: B027  not all executors can
        """Tell a function that somebody wants a checkpoint with its next result. Any thread may call this.

        An executor that cannot do this may omit it: `save` saves a Trainable class all the same.
        """

    @abstractmethod
    def stop(self) -> None:
        """End the trainable: run its `finally` blocks and its `cleanup`, and wait for them for a while."""

    @abstractmethod
    def kill(self) -> None:
        """End the worker at once if that is possible. `run` raises `WorkerLostError`."""


class UnstartedWorker(Worker):
    """The worker of a trial that was given up while it waited for resources. Nothing runs."""

    def restore(self, checkpoint: Record) -> None:
        """See `Worker.restore`."""
        raise WorkerLostError("the trial was not started")

    def run(self, on_result: OnResult) -> None:
        """See `Worker.run`."""
        raise WorkerLostError("the trial was not started")

    def save(self) -> Record | None:
        """See `Worker.save`."""
        return None

    def stop(self) -> None:
        """See `Worker.stop`."""

    def kill(self) -> None:
        """See `Worker.kill`."""


class Executor(ABC):
    """Starts workers. Every correct executor passes the suite `nbckpt.testing.ExecutorTests`.

    Attributes:
        name: Its name for users.
        concurrent: Whether trials may run side by side, each with its own worker thread.
        reserves: Whether it reserves the resources of each trial; else a user who asks for some is refused.
    """

    name: str
    concurrent = True
    reserves = False

    def check(self, resources: Mapping[str, float]) -> None:  # noqa: B027  most executors take all that they know
        """Refuse resources that no trial can ever have. Called before anything starts.

        Raises:
            UsageError: The executor can never provide them.
        """

    def most_at_once(self, resources: Mapping[str, float]) -> int:
        """Return how many trials run side by side unless the user says how many."""
        return min(MOST_AT_ONCE, os.cpu_count() or 1)

    def idle(self) -> None:  # noqa: B027  most executors keep nothing
        """Release the resources that are kept for further trials. Called when no trial runs.

        A later `start` works as before.
        """

    @abstractmethod
    def start(self, job: Job) -> Worker:
        """Make the trainable where it is to run. If `job.waits` returns False, make nothing.

        Raises:
            TrialError: The user's `setup` failed. Outside this process, the worker's first call may raise it.
            UsageError: No machine can ever run the job.
            WorkerLostError: No process or node can run the job now.
            CodecError: The job cannot be sent to another process.
        """
