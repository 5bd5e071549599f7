"""Executors: kernel threads, processes, a Ray cluster; and inline, if threads cannot start."""

from __future__ import annotations

from collections.abc import Mapping

from nbckpt.errors import UsageError
from nbckpt.trials.executors.base import Executor, Job, Worker, WorkerEndedError, WorkerLostError
from nbckpt.trials.executors.local import InlineExecutor, ThreadExecutor

__all__ = [
    "NAMES",
    "Executor",
    "InlineExecutor",
    "Job",
    "ThreadExecutor",
    "Worker",
    "WorkerEndedError",
    "WorkerLostError",
    "most_at_once",
    "open_executor",
]

NAMES = ("thread", "process", "ray", "inline")


def open_executor(executor: str | Executor, resources: Mapping[str, float]) -> Executor:
    """Return the executor that a user named or passed.

    Raises:
        UsageError: There is no such executor, a package that it needs is not installed, or it cannot
            provide the resources.
    """
    opened = _open(executor, resources)
    if resources and not opened.reserves:
        raise UsageError(
            f"gpus, cpus and resources_per_trial go with executor='process' or 'ray', not {opened.name!r}: "
            "leave them out, or use one of these"
        )
    opened.check(resources)
    return opened


def most_at_once(executor: str | Executor, resources: Mapping[str, float]) -> int:
    """Return how many trials run side by side unless the user says how many.

    Raises:
        UsageError: See `open_executor`.
    """
    return open_executor(executor, resources).most_at_once(resources)


def _open(executor: str | Executor, resources: Mapping[str, float]) -> Executor:
    if isinstance(executor, Executor):
        return executor
    if executor not in NAMES:
        raise UsageError(
            f"there is no executor {executor!r}: there are {', '.join(NAMES)}. "
            "Pass an executor of your own as an object: nbckpt.run(…, executor=MyExecutor())"
        )
    if executor == "process":
        from nbckpt.trials.executors.process import ProcessExecutor

        return ProcessExecutor()
    if executor == "ray":
        from nbckpt.trials.executors.ray import RayExecutor

        return RayExecutor(resources)
    return ThreadExecutor() if executor == "thread" else InlineExecutor()
