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
    "open_executor",
]

NAMES = ("thread", "process", "ray", "inline")


def open_executor(executor: str | Executor, resources: Mapping[str, float]) -> Executor:
    """Return the executor that a user named or passed.

    Raises:
        UsageError: There is no such executor, or a package that it needs is not installed.
    """
    if isinstance(executor, Executor):
        return executor
    if executor not in NAMES:
        raise UsageError(
            f"there is no executor {executor!r}: there are {', '.join(NAMES)}. "
            "Pass an executor of your own as an object: nbckpt.run(…, executor=MyExecutor())"
        )
    if resources and executor != "ray":
        raise UsageError(f"resources_per_trial goes with executor='ray', not {executor!r}: leave it out")
    if executor == "process":
        from nbckpt.trials.executors.process import ProcessExecutor

        return ProcessExecutor()
    if executor == "ray":
        from nbckpt.trials.executors.ray import RayExecutor

        return RayExecutor(resources)
    return ThreadExecutor() if executor == "thread" else InlineExecutor()
