"""Sparklines: the course of a number, as a row of blocks in text and as a small picture in HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_BLOCKS = "▁▂▃▄▅▆▇█"
_MOST = 12
_WIDTH, _HEIGHT, _EDGE = 38, 16, 2
# This blue is visible on white and on black, because a picture cannot follow the theme.
_COLOUR = "#4c8bf5"


def blocks(values: Sequence[float]) -> str:
    """Return a block for each value, at most 12 of them.

    >>> blocks([3, 1, 2]), blocks([5, 5])
    ('█▁▄', '▄▄')
    """
    return "".join(_BLOCKS[int(at * (len(_BLOCKS) - 1))] for at in _heights(thinned(values, _MOST)))


def svg(values: Sequence[float]) -> str:
    """Return a line chart of the values, as an SVG picture."""
    heights = _heights(values)
    step = (_WIDTH - 2 * _EDGE) / max(len(heights) - 1, 1)
    points = [
        (round(_EDGE + at * step, 1), round(_HEIGHT - _EDGE - height * (_HEIGHT - 2 * _EDGE), 1))
        for at, height in enumerate(heights)
    ]
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    x, y = points[-1]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}">'
        f'<polyline points="{line}" fill="none" stroke="{_COLOUR}" stroke-width="1.5"/>'
        f'<circle cx="{x:g}" cy="{y:g}" r="1.8" fill="{_COLOUR}"/></svg>'
    )


def words(values: Sequence[float]) -> str:
    """Return a description of the values for screen readers.

    >>> words([3.0, 0.5, 1.0])
    'from 3 to 1, between 0.5 and 3'
    """
    return f"from {values[0]:.4g} to {values[-1]:.4g}, between {min(values):.4g} and {max(values):.4g}"


def thinned(values: Sequence[T], most: int) -> list[T]:
    """Return at most *most* of the values, evenly spaced. The last value is always included.

    >>> thinned([1, 2, 3, 4, 5], 3)
    [1, 3, 5]
    """
    if len(values) <= most:
        return list(values)
    return [values[round(at * (len(values) - 1) / (most - 1))] for at in range(most)]


def _heights(values: Sequence[float]) -> list[float]:
    """Return the finite values, scaled to 0 to 1. If all are equal, each is 0.5."""
    # Halved, so that the difference of the largest floats is finite.
    finite = [value / 2 for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return [(value - low) / (high - low) if high > low else 0.5 for value in finite]
