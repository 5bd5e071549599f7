"""Executors of other packages, which register by an entry point. See docs/decisions/0111."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from nbckpt.errors import NbckptError, UsageError
from nbckpt.suggestion import suggestion
from nbckpt.trials.executors.base import Executor

GROUP = "nbckpt.executors"
"""The group of entry points. Each names an executor, and refers to a class or a function that makes it."""


def open_other(name: str, options: Mapping[str, Any], ours: Sequence[str]) -> Executor:
    """Return an executor that another package registered. Only that package is imported.

    Args:
        name: The executor's name.
        options: Its options.
        ours: The names of nbckpt's own executors.

    Raises:
        UsageError: There is no such executor, or it cannot be made.
    """
    registered = {point.name: point for point in entry_points(group=GROUP)}
    if name not in registered:
        known = list(dict.fromkeys([*ours, *sorted(registered)]))
        raise UsageError(
            f"there is no executor {name!r}: there are {', '.join(known)}. {suggestion(name, known)}"
            "Pass an executor of your own as an object: nbckpt.run(…, executor=MyExecutor())"
        )
    return _made(registered[name], options)


def _made(point: EntryPoint, options: Mapping[str, Any]) -> Executor:
    package = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
    try:
        executor = point.load()(**options)
    except NbckptError:
        raise
    except Exception as error:
        raise UsageError(
            f"the executor {point.name!r} of {package} cannot be made: {type(error).__name__}: {error}. "
            "Check its options, repair the package, or use another executor"
        ) from error
    if not isinstance(executor, Executor):
        raise UsageError(
            f"the entry point {point.name!r} of {package} makes a {type(executor).__name__}, not an "
            "Executor: it must name a subclass of nbckpt.trials.Executor, or a function that returns one"
        )
    return executor
