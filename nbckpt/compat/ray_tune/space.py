"""Search spaces by Ray's names. Each draws what Ray's draws."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from nbckpt.trials.model import space as own
from nbckpt.trials.model.space import choice, grid_search, lograndint, loguniform, randint, uniform
from nbckpt.trials.model.space import normal as randn

__all__ = [
    "choice",
    "grid_search",
    "lograndint",
    "loguniform",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "sample_from",
    "uniform",
]


def sample_from(func: Callable[..., Any]) -> own.SampleFrom:
    """Compute a value from the others, `sample_from(lambda spec: spec.config.width * 2)`, or from nothing."""
    takes_spec = bool(inspect.signature(func).parameters)
    return own.sample_from(func if takes_spec else partial(_without_spec, func))


def _without_spec(func: Callable[[], Any], spec: own.Drawing) -> Any:
    del spec
    return func()


def quniform(lower: float, upper: float, q: float) -> own.Rounded:
    """Draw a multiple of *q* from *lower* to *upper*."""
    return own.quniform(lower, upper, q)


def qloguniform(lower: float, upper: float, q: float) -> own.Rounded:
    """Draw a multiple of *q* from *lower* to *upper*; every order of magnitude has the same chance."""
    return own.multiples(loguniform(lower, upper), lower, upper, q)


def qrandint(lower: int, upper: int, q: int = 1) -> own.Rounded:
    """Draw a multiple of *q* from *lower* to *upper*, both included."""
    return own.multiples(randint(lower, upper + 1), lower, upper, q)


def qlograndint(lower: int, upper: int, q: int = 1) -> own.Rounded:
    """Draw a multiple of *q* from *lower* to *upper*; every order of magnitude has the same chance."""
    return own.multiples(lograndint(lower, upper + 1), lower, upper, q)


def qrandn(mean: float, sd: float, q: float) -> own.Rounded:
    """Draw a normally distributed number, rounded to a multiple of *q*."""
    return own.rounded(randn(mean, sd), q)
