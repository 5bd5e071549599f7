"""Calling: a user's function is called in its style, and its results are reported."""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Literal

from nbckpt.errors import TrialError, UsageError
from nbckpt.trials.training.reporter import StatusReporter

DEFAULT_METRIC = "_metric"
"""The name of the metric if the function returns or yields a plain number."""

Function = Callable[..., Any]
Style = Literal["checkpoint_dir", "plain", "reporter"]


def style_of(function: Function) -> Style:
    """Return how a function is called.

    Raises:
        UsageError: It takes other arguments than a trial's function; the message names them.
    """
    if not callable(function):
        raise UsageError(f"{function!r} is not a function: give one that takes a config")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        raise UsageError(
            f"{function!r} has no signature that can be read. Wrap it: `def train(config): …`"
        ) from None
    named: tuple[Style, ...] = ("checkpoint_dir", "reporter")
    for style in named:
        if style in signature.parameters and _takes(signature, {style: None}):
            return style
    if _takes(signature, {}):
        return "plain"
    names = ", ".join(signature.parameters) or "nothing"
    raise UsageError(
        f"{getattr(function, '__name__', function)!s} takes ({names}): a trial's function takes (config), "
        "(config, checkpoint_dir=None) or (config, reporter)"
    )


def _takes(signature: inspect.Signature, given: dict[str, Any]) -> bool:
    try:
        signature.bind({}, **given)
    except TypeError:
        return False
    return True


def call(function: Function, style: Style, config: dict[str, Any], reporter: StatusReporter) -> None:
    """Call a function, and report its results: those that it yields, and the one that it returns."""
    if style == "plain":
        returned = function(config)
    elif style == "reporter":
        returned = function(config, reporter=reporter)
    else:
        path = reporter.get_checkpoint()
        returned = function(config, checkpoint_dir=None if path is None else str(path))
    if isinstance(returned, AsyncGeneratorType):
        returned = _report_each(returned, reporter)
    if inspect.iscoroutine(returned):
        returned = _result_of(returned)
    if isinstance(returned, GeneratorType):
        returned = _report_all(returned, reporter)
    _report(returned, reporter)


def _report(returned: Any, reporter: StatusReporter) -> None:
    if returned is not None:
        reporter.report(_metrics(returned), None)


def _report_all(items: Generator[Any, None, Any], reporter: StatusReporter) -> Any:
    """Report each item of a generator, and return its result."""
    try:
        while True:
            try:
                item = next(items)
            except StopIteration as end:
                return end.value
            _report(item, reporter)
    finally:
        items.close()


async def _report_each(items: AsyncIterator[Any], reporter: StatusReporter) -> None:
    async for item in items:
        _report(item, reporter)


def _result_of(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end: in another thread if this one has an event loop, as a kernel has."""
    import asyncio  # here, since the process of a trial starts sooner without it
    from concurrent.futures import ThreadPoolExecutor

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    is_interrupted, cancels = threading.Event(), []

    async def run() -> Any:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        cancels.append(partial(loop.call_soon_threadsafe, task.cancel))
        return coroutine.close() if is_interrupted.is_set() else await coroutine

    with ThreadPoolExecutor(1, "nbckpt-function") as pool:
        try:
            return pool.submit(copy_context().run, asyncio.run, run()).result()
        except KeyboardInterrupt:
            is_interrupted.set()
            with suppress(RuntimeError):  # the coroutine itself raised it, and its loop has ended
                for cancel in cancels:
                    cancel()
            raise


def _metrics(returned: Any) -> dict[str, Any]:
    """Return the value that a function returned or yielded, as metrics."""
    if isinstance(returned, Mapping):
        return dict(returned)
    if isinstance(returned, (int, float)) or hasattr(returned, "__float__"):
        return {DEFAULT_METRIC: returned}
    raise TrialError(
        f"a trial's function returns or yields a number, a dict of metrics or nothing, "
        f"not {type(returned).__name__}"
    )
