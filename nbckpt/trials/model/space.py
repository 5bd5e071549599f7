"""Search spaces: the kinds of values, such as grids and distributions. Pickles name this module."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from nbckpt.core.environment import is_same
from nbckpt.errors import UsageError


@dataclass(frozen=True)
class Grid:
    """All of these values, in separate configurations."""

    values: tuple[Any, ...]


class Domain:
    """A distribution. Every sample draws a new value from it."""

    def draw(self, random: random.Random) -> Any:
        """Return a value."""
        # Not an ABC: users subclass it.
        raise NotImplementedError(f"{type(self).__name__} must define draw()")


@dataclass(frozen=True)
class Choice(Domain):
    """One of these values."""

    values: tuple[Any, ...]

    def draw(self, random: random.Random) -> Any:
        """See `Domain.draw`."""
        return random.choice(self.values)


@dataclass(frozen=True)
class Uniform(Domain):
    """A number from *low* to *high*. With *log*, every order of magnitude has the same chance."""

    low: float
    high: float
    log: bool = False

    def draw(self, random: random.Random) -> float:
        """See `Domain.draw`."""
        if not self.log:
            return random.uniform(self.low, self.high)
        drawn = math.exp(random.uniform(math.log(self.low), math.log(self.high)))
        return min(max(drawn, self.low), self.high)


@dataclass(frozen=True)
class Integer(Domain):
    """A whole number from *low* to below *high*. With *log*, every order of magnitude has the same chance."""

    low: int
    high: int
    log: bool = False

    def draw(self, random: random.Random) -> int:
        """See `Domain.draw`."""
        if not self.log:
            return random.randrange(self.low, self.high)
        drawn = math.exp(random.uniform(math.log(self.low), math.log(self.high)))
        return min(max(int(drawn), self.low), self.high - 1)


@dataclass(frozen=True)
class Normal(Domain):
    """A normally distributed number."""

    mean: float
    sd: float

    def draw(self, random: random.Random) -> float:
        """See `Domain.draw`."""
        return random.normalvariate(self.mean, self.sd)


@dataclass(frozen=True)
class Rounded(Domain):
    """A number of *domain*, rounded to a multiple of *step*."""

    domain: Domain
    step: float

    def draw(self, random: random.Random) -> Any:
        """See `Domain.draw`."""
        return round_to(self.domain.draw(random), self.step)


@dataclass(frozen=True)
class SampleFrom(Domain):
    """A value that a function computes from the other values of the configuration."""

    function: Callable[[Drawing], Any]


class Drawing:
    """What a function of `sample_from` gets.

    Attributes:
        config: The configuration that is being drawn.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = DrawnConfig(config, self)


class DrawnConfig(Mapping[str, Any]):
    """A configuration whose keys are attributes too: `spec.config.lr`.

    A value that another function computes is computed when it is first read.
    """

    def __init__(self, values: dict[str, Any], drawing: Drawing) -> None:
        self._values = values
        self._drawing = drawing

    def __getitem__(self, key: str) -> Any:
        value = self._values[key]
        if isinstance(value, SampleFrom):
            self._values[key] = _BUSY
            self._values[key] = value = value.function(self._drawing)
        if value is _BUSY:
            raise UsageError(f"sample_from for {key!r} needs its own value: compute it from other values")
        return DrawnConfig(value, self._drawing) if isinstance(value, dict) else value

    def __getattr__(self, name: str) -> Any:
        if name in self._values:
            return self[name]
        raise AttributeError(f"the configuration has no value {name!r}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


_BUSY = object()
"""Stands for a value while it is computed."""


def grid_search(values: Iterable[Any]) -> Grid:
    """Try all *values*, in every combination with the other grids.

    Raises:
        UsageError: There are no values.

    Examples:
        >>> nbckpt.grid_search([0.1, 0.3])
        Grid(values=(0.1, 0.3))
    """
    return Grid(_some(values, "grid_search"))


def choice(values: Sequence[Any]) -> Choice:
    """Draw one of *values*.

    Raises:
        UsageError: There are no values.

    Examples:
        >>> nbckpt.choice(["adam", "sgd"]).draw(random.Random(1))
        'adam'
    """
    return Choice(_some(values, "choice"))


def uniform(low: float, high: float) -> Uniform:
    """Draw a number from *low* to *high*.

    Raises:
        UsageError: *low* is greater than *high*.

    Examples:
        >>> 0 <= nbckpt.uniform(0, 1).draw(random.Random(1)) <= 1
        True
    """
    return _between(low, high, log=False)


def loguniform(low: float, high: float) -> Uniform:
    """Draw a number from *low* to *high*; every order of magnitude has the same chance.

    Raises:
        UsageError: *low* is greater than *high*, or not positive.

    Examples:
        >>> 1e-5 <= nbckpt.loguniform(1e-5, 1e-1).draw(random.Random(1)) <= 1e-1
        True
    """
    return _between(low, high, log=True)


def randint(low: int, high: int) -> Integer:
    """Draw a whole number from *low* to below *high*, as NumPy's `randint` does.

    Raises:
        UsageError: There is no such number.

    Examples:
        >>> nbckpt.randint(1, 10).draw(random.Random(1)) in range(1, 10)
        True
    """
    return _integers("randint", low, high, log=False)


def lograndint(low: int, high: int) -> Integer:
    """Draw a whole number from *low* to below *high*; every order of magnitude has the same chance.

    Raises:
        UsageError: There is no such number, or *low* is not positive.

    Examples:
        >>> nbckpt.lograndint(1, 1000).draw(random.Random(1)) in range(1, 1000)
        True
    """
    return _integers("lograndint", low, high, log=True)


def normal(mean: float = 0.0, sd: float = 1.0) -> Normal:
    """Draw a normally distributed number.

    Raises:
        UsageError: *mean* or *sd* is not a number.
    """
    _check_numbers("normal", mean, sd)
    return Normal(mean, sd)


def rounded(domain: Domain, step: float) -> Rounded:
    """Draw a number of *domain*, rounded to a multiple of *step*.

    Raises:
        UsageError: *step* is not positive.
    """
    _check_numbers("rounded", step)
    if not step > 0:
        raise UsageError(f"rounded(…, {step}) needs a positive step")
    return Rounded(domain, step)


def quniform(low: float, high: float, step: float) -> Rounded:
    """Draw a multiple of *step* from *low* to *high*.

    Raises:
        UsageError: *low* is greater than *high*, *step* is not positive, or an end is not a multiple of it.

    Examples:
        >>> nbckpt.quniform(0, 1, 0.25).draw(random.Random(1)) in {0, 0.25, 0.5, 0.75, 1}
        True
    """
    return multiples(uniform(low, high), low, high, step)


def multiples(domain: Domain, low: float, high: float, step: float) -> Rounded:
    """Draw a number of *domain*, rounded to a multiple of *step*. No draw is outside *low* and *high*.

    Raises:
        UsageError: *step* is not positive, or an end is not a multiple of it.
    """
    drawn = rounded(domain, step)
    for end in (low, high):
        if abs(round_to(end, step) - end) > step * 1e-9:
            raise UsageError(
                f"{end} is not a multiple of {step}, so a draw could be outside: choose other ends"
            )
    return drawn


def round_to(value: float, step: float) -> float:
    """Return the multiple of *step* that is nearest to a value."""
    return round(value / step) * step


def sample_from(function: Callable[[Drawing], Any]) -> SampleFrom:
    """Compute a value from the others: `sample_from(lambda spec: spec.config.width * 2)`.

    The function is called once per configuration, after the other values were drawn. If it draws numbers
    itself, an experiment that resumes keeps the values that its trials have.

    Raises:
        UsageError: *function* is not a function.

    Examples:
        >>> space = {"width": 8, "depth": nbckpt.sample_from(lambda spec: spec.config.width // 2)}
        >>> trials = nbckpt.run(lambda config: {"size": config["depth"]}, space)
        >>> trials.wait(), trials.trials[0].config["depth"]
        (True, 4)
    """
    if not callable(function):
        raise UsageError(f"sample_from takes a function of the drawn values, not {function!r}")
    return SampleFrom(function)


def index_of(values: Sequence[Any], value: Any) -> int:
    """Return the place of a value in the list of a grid or a choice; -1 if it is not there."""
    return next((at for at, other in enumerate(values) if _is_value(other, value)), -1)


def _is_value(known: Any, value: Any) -> bool:
    if known is value:
        return True
    try:
        return bool(known == value)
    except Exception:  # noqa: BLE001  arrays have no single answer
        return is_same(known, value)


def _some(values: Iterable[Any], function: str) -> tuple[Any, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"{function} takes a list of values, not {values!r}. Write {function}([{values!r}])")
    listed = tuple(values)
    if not listed:
        raise UsageError(f"{function} got no values. Give at least one")
    return listed


def _check_numbers(name: str, *given: Any) -> None:
    are_numbers = all(isinstance(number, Real) for number in given)
    # math.isfinite would refuse integers that no float can hold.
    if not (are_numbers and all(abs(number) < math.inf for number in given)):
        raise UsageError(f"{name}({', '.join(map(repr, given))}) takes finite numbers")


def _integers(name: str, low: int, high: int, *, log: bool) -> Integer:
    _check_numbers(name, low, high)
    given, low, high = f"{name}({low}, {high})", int(low), int(high)
    if not low < high:
        raise UsageError(f"{given} is empty: the upper end is not drawn")
    if log and low <= 0:
        raise UsageError(f"{given} needs positive numbers: use randint")
    return Integer(low, high, log)


def _between(low: float, high: float, *, log: bool) -> Uniform:
    name = "loguniform" if log else "uniform"
    _check_numbers(name, low, high)
    if not low <= high:
        raise UsageError(f"{name}({low}, {high}) is empty: give the smaller number first")
    if log and low <= 0:
        raise UsageError(f"loguniform({low}, {high}) needs positive numbers: use uniform")
    return Uniform(low, high, log)
