"""Explore: another value for a hyperparameter, near the former one or drawn again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.trials.model.metrics import is_number
from nbckpt.trials.model.space import (
    Choice,
    Domain,
    Grid,
    Integer,
    Rounded,
    SampleFrom,
    Uniform,
    index_of,
    round_to,
)

Range = Grid | Domain


class Called(Domain):
    """Values that a function of the user's draws. The function has its own random numbers.

    Args:
        function: The function, without arguments.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def draw(self, random: Random) -> Any:
        """See `Domain.draw`."""
        del random
        return self.function()


def range_of(key: str, values: Any) -> Range:
    """Return the range of a hyperparameter: a range, a list of values, or a function that draws one.

    Raises:
        UsageError: It is none of these.
    """
    if isinstance(values, (Grid, Domain)) and not isinstance(values, SampleFrom):
        return values
    if callable(values):
        return Called(values)
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)) and values:
        return Choice(tuple(values))
    raise UsageError(
        f"mutations[{key!r}]={values!r} is not a range: give uniform(0, 1) or another one, a list of values, "
        "or a function that draws a value"
    )


def explored(
    value: Any, values: Range, source: Random, resample: float = 0.25, factors: Sequence[float] = (1.2, 0.8)
) -> Any:
    """Return another value of a range: drawn again with a chance of *resample*, else near *value*.

    A number is multiplied by one of the *factors* and stays in its range. A whole number whose values a
    function draws stays one. In a list, the value moves to a neighbour, and may stay at an end. What is
    neither, or would become infinite, is drawn again.
    """
    if source.random() < resample:
        return _drawn(values, source)
    if isinstance(values, (Choice, Grid)):
        return _neighbour(value, values.values, source)
    new = _multiplied(value, source.choice(list(factors)))
    return _drawn(values, source) if new is None else within(value, new, values)


def _multiplied(value: Any, factor: float) -> float | None:
    """Return the product, or None if there is none that is finite."""
    try:
        return value * factor if is_number(value) and math.isfinite(value * factor) else None
    except OverflowError:  # an integer that is too large for a float
        return None


def _drawn(values: Range, source: Random) -> Any:
    return source.choice(values.values) if isinstance(values, Grid) else values.draw(source)


def _neighbour(value: Any, values: Sequence[Any], source: Random) -> Any:
    at = index_of(values, value)
    if at < 0:
        return source.choice(values)
    return values[min(max(at + source.choice((-1, 1)), 0), len(values) - 1)]


def within(old: float, new: float, values: Domain) -> Any:
    """Return the value of a range that is nearest to *new*. One that has steps moves by a step, if it can."""
    if isinstance(values, Rounded):
        return round_to(within(old, _step(old, new, values.step), values.domain), values.step)
    if isinstance(values, Integer):
        return min(max(_step(old, new, 1), values.low), values.high - 1)
    if isinstance(values, Uniform):
        return min(max(new, values.low), values.high)
    if isinstance(values, Called) and isinstance(old, int):
        return _step(old, new, 1) or old  # a size that is 0 never changes again
    return new


def _step(old: float, new: float, step: float) -> Any:
    """Return the multiple of *step* nearest to *new*; the next one if that is the old value."""
    near = round_to(new, step)
    if near == round_to(old, step) and new != old:
        near = round_to(near + math.copysign(step, new - old), step)
    return near
