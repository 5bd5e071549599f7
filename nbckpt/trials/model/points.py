"""Points: configurations of a space to try first."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.suggestion import suggestion
from nbckpt.trials.model.drawing import Keys, complete, domains, leaves, name_of
from nbckpt.trials.model.space import Choice, Domain, Grid, Integer, Uniform, index_of


def values_of(point: Mapping[str, Any], space: Mapping[str, Any]) -> dict[Keys, Any]:
    """Return the values that a point gives, by the keys that lead to them.

    Raises:
        UsageError: The point gives a value that does not vary in the space, or that the space does not have.
    """
    ranges, values = domains(space), dict(leaves(point))
    for path, value in values.items():
        name, names = name_of(path), {name_of(known) for known in ranges}
        if path not in ranges:
            varying = f"These vary: {', '.join(sorted(names))}" if names else "Nothing varies there"
            advice = (suggestion(name, names) or varying).rstrip()
            raise UsageError(f"a point gives {name!r}, which does not vary in config. {advice}")
        domain = ranges[path]
        if not _has(domain, value):
            raise UsageError(f"a point gives {name}={value!r}, which {domain!r} does not have")
        if isinstance(domain, (Choice, Grid)):
            values[path] = domain.values[index_of(domain.values, value)]
    return values


def drawn(
    points: Sequence[Mapping[str, Any]], space: Mapping[str, Any], seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the configurations of points. Values that a point leaves out are drawn.

    Raises:
        UsageError: A point does not fit the space.
    """
    for at, point in enumerate(points):
        source = random.Random(f"{seed}, point {at}")  # not that of the other configurations
        yield complete(space, values_of(point, space), source)


def _has(domain: Grid | Domain, value: Any) -> bool:
    """Return whether a value can be drawn. A distribution of the user's is not asked."""
    if isinstance(domain, (Choice, Grid)):
        return index_of(domain.values, value) >= 0
    if isinstance(domain, Integer):
        return isinstance(value, int) and domain.low <= value < domain.high
    if isinstance(domain, Uniform):
        return isinstance(value, (int, float)) and domain.low <= value <= domain.high
    return True
