"""Parameters: objects that every trial gets beside its configuration, such as a data set."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.trials.training.trainable import Trainable


def with_parameters(trainable: Any, /, **parameters: Any) -> Any:
    """Return a function or Trainable class with some parameters given, for objects beside the configuration.

    `with_parameters(train, data=frame)` calls `train(config, data=frame)`. A Trainable class gets the
    parameters in `setup(config, data=frame)`. Trials in one process share the objects.

    Raises:
        UsageError: *trainable* has no parameter of this name, cannot be called, or does not tell what it
            takes.

    Examples:
        >>> def train(config, data):
        ...     nbckpt.report(rows=len(data))
        >>> trials = nbckpt.run(nbckpt.trials.with_parameters(train, data=[1, 2, 3]))
        >>> trials.wait(), trials.trials[0].metric("rows")
        (True, [3])
    """
    is_class = isinstance(trainable, type) and issubclass(trainable, Trainable)
    called: Callable[..., Any] = trainable.setup if is_class else trainable
    name = getattr(trainable, "__name__", "") or type(trainable).__name__
    takes = _parameters_of(called, name)
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values())
    if (unknown := parameters.keys() - takes.keys()) and not takes_any:
        where = f"{name}.setup" if is_class else name
        raise UsageError(f"{where}() has no parameter {sorted(unknown)[0]!r}: it has {', '.join(takes)}")
    if is_class:
        setup = functools.partialmethod(called, **parameters)
        return type(
            name, (trainable,), {"setup": setup, "__module__": __name__, "__doc__": trainable.__doc__}
        )
    bound: Any = functools.partial(called, **parameters)
    bound.__name__ = name  # not update_wrapper: with it, the signature would still have the parameters
    return bound


def _parameters_of(called: Any, name: str) -> Mapping[str, inspect.Parameter]:
    if not callable(called):
        raise UsageError(f"with_parameters() takes a function or a Trainable class, not {called!r:.100}")
    try:
        return inspect.signature(called).parameters
    except (TypeError, ValueError):
        raise UsageError(
            f"{name}() has no signature that can be read. Wrap it: `def train(config, data): …`"
        ) from None
