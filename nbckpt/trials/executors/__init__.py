"""Executors: kernel threads, processes, a Ray or a Slurm cluster; and inline, if threads cannot start."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.trials.executors.base import (
    Executor,
    Job,
    Worker,
    WorkerEndedError,
    WorkerLostError,
    WorkerTimeUpError,
)
from nbckpt.trials.executors.local import InlineExecutor, ThreadExecutor
from nbckpt.trials.model.metrics import is_number

__all__ = [
    "NAMES",
    "Executor",
    "InlineExecutor",
    "Job",
    "ThreadExecutor",
    "Worker",
    "WorkerEndedError",
    "WorkerLostError",
    "WorkerTimeUpError",
    "open_executor",
]

NAMES = ("thread", "process", "ray", "slurm", "inline")


def open_executor(executor: str | Executor, resources: Mapping[str, float]) -> Executor:
    """Return the executor that a user named or passed.

    Raises:
        UsageError: There is no such executor, a package that it needs is not installed, or it cannot
            provide the resources.
    """
    for name, amount in resources.items():
        if not is_number(amount):
            raise UsageError(f"{amount!r} of {name} is not a number: write gpus=1, for example")
    opened = _open(executor, resources)
    if resources and not opened.reserves:
        raise UsageError(
            "gpus, cpus and resources_per_trial go with executor='process', 'ray' or 'slurm', not "
            f"{opened.name!r}: leave them out, or use one of these"
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
    if not isinstance(executor, str):
        raise UsageError(f"executor={executor!r} is not an executor: give a name such as 'thread'")
    name, *words = executor.split() or [""]
    options = dict(map(_option, words))
    if name == "slurm":
        from nbckpt.trials.executors.slurm import SlurmExecutor

        return SlurmExecutor(**options)
    if name not in NAMES:
        from nbckpt.trials.executors.others import open_other

        return open_other(name, options, NAMES)
    if words:
        raise UsageError(f"the executor {name} takes no options: leave out {' '.join(words)!r}")
    if executor == "process":
        from nbckpt.trials.executors.process import ProcessExecutor

        return ProcessExecutor()
    if executor == "ray":
        from nbckpt.trials.executors.ray import RayExecutor

        return RayExecutor(resources)
    return ThreadExecutor() if executor == "thread" else InlineExecutor()


def _option(word: str) -> tuple[str, Any]:
    """Return the name and the value of an option `k=v`. A value that is not a Python literal is a text."""
    name, equals, text = word.partition("=")
    if not (equals and name.isidentifier()):
        raise UsageError(
            f"{word!r} is not an option of an executor. Write NAME=VALUE, for example partition=gpu"
        )
    try:
        return name, ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return name, text
