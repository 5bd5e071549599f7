"""Trials in this process: in kernel threads; or inline, if threads cannot start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.executors.base import Executor, Job, Worker
from nbckpt.trials.model.metrics import OnResult
from nbckpt.trials.training.function import FunctionRunner
from nbckpt.trials.training.trainable import Trainable, failure


class LocalWorker(Worker):
    """A trainable in this process.

    Args:
        trainable: The trainable.
        folder: The trial's folder.
        in_thread: Whether a function has its own thread, or runs in the worker thread.
    """

    def __init__(self, trainable: Trainable, folder: Path, *, in_thread: bool) -> None:
        self._trainable = trainable
        self._checkpoints = CheckpointFolder(folder)
        self._in_thread = in_thread

    def listen(self, listen: Callable[[], object]) -> None:
        """Have *listen* called before a function polls whether a checkpoint is asked for."""
        if isinstance(self._trainable, FunctionRunner):
            self._trainable.request.listen = listen

    def restore(self, checkpoint: Record) -> None:
        """See `Worker.restore`."""
        self._trainable.restore(self._checkpoints.folder / checkpoint.name)

    def run(self, on_result: OnResult) -> None:
        """See `Worker.run`."""
        self._trainable.push_results(on_result, in_thread=self._in_thread)

    def save(self) -> Record | None:
        """See `Worker.save`."""
        return save(self._trainable, self._checkpoints)

    def ask_for_checkpoint(self) -> None:
        """See `Worker.ask_for_checkpoint`."""
        self._trainable.ask_for_checkpoint()

    def stop(self) -> None:
        """See `Worker.stop`."""
        self._trainable.stop()

    def kill(self) -> None:
        """See `Worker.kill`: a thread cannot be ended before its next report."""


class ThreadExecutor(Executor):
    """Trials in kernel threads: they see the kernel's memory and share its interpreter."""

    name = "thread"

    def start(self, job: Job) -> Worker:
        """See `Executor.start`."""
        return LocalWorker(make(job), job.folder, in_thread=True)


class InlineExecutor(Executor):
    """Trials one after the other in the calling thread, which waits. For systems without threads."""

    name = "inline"
    concurrent = False

    def start(self, job: Job) -> LocalWorker:
        """See `Executor.start`."""
        return LocalWorker(make(job), job.folder, in_thread=False)


def make(job: Job) -> Trainable:
    """Make a job's trainable.

    Raises:
        TrialError: The user's `setup` failed.
    """
    try:
        return job.trainable(job.config, job.folder, trial_name=job.name, trial_id=job.trial)
    except Exception as error:
        raise failure(error) from error


def save(trainable: Trainable, checkpoints: CheckpointFolder) -> Record | None:
    """Save a trainable. Return the record of the checkpoint, or None if there was nothing to save."""
    path = Path(trainable.save())
    record = checkpoints.read(path.name)
    if record.kind == "null":
        checkpoints.delete(record)
        return None
    return record
