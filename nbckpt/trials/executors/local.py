"""Trials in this process: in kernel threads; or inline, if threads cannot start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.executors.base import Executor, Handle, Job, Worker
from nbckpt.trials.model.metrics import DONE
from nbckpt.trials.training.function import FunctionRunner
from nbckpt.trials.training.trainable import Trainable


class LocalWorker(Worker):
    """A trainable in this process; its worker thread trains it."""

    def __init__(self, trainable: Trainable, folder: Path) -> None:
        self._trainable = trainable
        self._checkpoints = CheckpointFolder(folder)

    def restore(self, checkpoint: Record) -> None:
        """See `Worker.restore`."""
        self._trainable.restore(self._checkpoints.folder / checkpoint.name)

    def run(self, handle: Handle) -> None:
        """See `Worker.run`."""
        going = True
        while going:
            result = self._trainable.train()
            going = handle(result) and not result.get(DONE)

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


class FunctionWorker(LocalWorker):
    """A function in this process; its reports call the worker's code directly.

    Args:
        runner: The trainable.
        folder: The trial's folder.
        in_thread: Whether the function has its own thread, or runs in the worker thread.
    """

    def __init__(self, runner: FunctionRunner, folder: Path, *, in_thread: bool) -> None:
        super().__init__(runner, folder)
        self._runner = runner
        self._in_thread = in_thread

    def listen(self, listen: Callable[[], object]) -> None:
        """Have *listen* called before the function polls whether a checkpoint is asked for."""
        self._runner.request.listen = listen

    def run(self, handle: Handle) -> None:
        """See `Worker.run`."""
        self._runner.run_inline(handle, in_thread=self._in_thread)


class ThreadExecutor(Executor):
    """Trials in kernel threads: they see the kernel's memory and share its interpreter."""

    name = "thread"

    def start(self, job: Job) -> Worker:
        """See `Executor.start`."""
        return _worker(job, in_thread=True)


class InlineExecutor(Executor):
    """Trials one after the other in the calling thread, which waits. For systems without threads."""

    name = "inline"
    concurrent = False

    def start(self, job: Job) -> Worker:
        """See `Executor.start`."""
        return _worker(job, in_thread=False)


def _worker(job: Job, *, in_thread: bool) -> Worker:
    trainable = make(job)
    if isinstance(trainable, FunctionRunner):
        return FunctionWorker(trainable, job.folder, in_thread=in_thread)
    return LocalWorker(trainable, job.folder)


def make(job: Job) -> Trainable:
    """Make a job's trainable.

    Raises:
        TrialError: The user's `setup` failed.
    """
    from nbckpt.trials.training.trainable import failure

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
