"""Search spaces: grids and distributions for the values of a configuration."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.trials.model.metrics import plain

Keys = tuple[Any, ...]
"""The keys that lead to a value in a space."""


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


def grid_search(values: Iterable[Any]) -> Grid:
    """Try all *values*, in every combination with the other grids.

    Raises:
        UsageError: There are no values.
    """
    return Grid(_some(values, "grid_search"))


def choice(values: Sequence[Any]) -> Choice:
    """Draw one of *values*.

    Raises:
        UsageError: There are no values.
    """
    return Choice(_some(values, "choice"))


def uniform(low: float, high: float) -> Uniform:
    """Draw a number from *low* to *high*.

    Raises:
        UsageError: *low* is greater than *high*.
    """
    return _between(low, high, log=False)


def loguniform(low: float, high: float) -> Uniform:
    """Draw a number from *low* to *high*; every order of magnitude has the same chance.

    Raises:
        UsageError: *low* is greater than *high*, or not positive.
    """
    return _between(low, high, log=True)


def configs(space: Mapping[str, Any], num_samples: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield configurations: the whole grid *num_samples* times, each time with new draws of other values.

    The same space and seed give the same configurations. More samples only add configurations at the end.
    """
    grids = [(path, value) for path, value in _leaves(space) if isinstance(value, Grid)]
    drawn = [(path, value) for path, value in _leaves(space) if isinstance(value, Domain)]
    source = random.Random(seed)
    for _ in range(num_samples):
        for combination in itertools.product(*(grid.values for _, grid in grids)):
            config = _copied(space)
            for (path, _), value in zip(grids, combination, strict=True):
                _put(config, path, value)
            for path, domain in drawn:
                _put(config, path, domain.draw(source))
            yield config


def domains(space: Mapping[str, Any]) -> dict[Keys, Grid | Domain]:
    """Return the values that vary in a space, by the keys that lead to them."""
    return {path: value for path, value in _leaves(space) if isinstance(value, (Grid, Domain))}


def with_values(space: Mapping[str, Any], values: Mapping[Keys, Any]) -> dict[str, Any]:
    """Return the configuration of a space with these values, by the keys that lead to them."""
    config = _copied(space)
    for path, value in values.items():
        _put(config, path, value)
    return config


def recalled(space: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration from a file, with the space's own values in place of their texts.

    A configuration that does not come from this space is returned unchanged.
    """
    try:
        values = {path: _original(domain, _at(kept, path)) for path, domain in domains(space).items()}
    except (KeyError, TypeError):
        return dict(kept)
    config = with_values(space, values)
    return config if canonical(config) == canonical(kept) else dict(kept)


def canonical(config: Mapping[str, Any]) -> str:
    """Return a text that is equal for configurations that look the same in a file."""
    return json.dumps(plain(config), sort_keys=True)


def _original(domain: Grid | Domain, kept: Any) -> Any:
    if isinstance(domain, (Choice, Grid)):
        text = canonical({"": kept})
        return next((value for value in domain.values if canonical({"": value}) == text), kept)
    return kept


def _at(config: Any, path: Keys) -> Any:
    for part in path:
        config = config[str(part)]
    return config


def _leaves(space: Mapping[str, Any], above: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    for key, value in space.items():
        path = (*above, key)
        if isinstance(value, dict):
            yield from _leaves(value, path)
        else:
            yield path, value


def _copied(space: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in space.items()}


def _put(config: dict[str, Any], path: Keys, value: Any) -> None:
    for part in path[:-1]:
        config = config[part]
    config[path[-1]] = value


def _some(values: Iterable[Any], function: str) -> tuple[Any, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"{function} takes a list of values, not {values!r}. Write {function}([{values!r}])")
    listed = tuple(values)
    if not listed:
        raise UsageError(f"{function} got no values. Give at least one")
    return listed


def _between(low: float, high: float, *, log: bool) -> Uniform:
    name = "loguniform" if log else "uniform"
    if not low <= high:
        raise UsageError(f"{name}({low}, {high}) is empty: give the smaller number first")
    if log and low <= 0:
        raise UsageError(f"loguniform({low}, {high}) needs positive numbers: use uniform")
    return Uniform(low, high, log)
