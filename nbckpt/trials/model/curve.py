"""Curve: the numbers of one metric in little memory, however many there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from nbckpt.errors import CorruptError
from nbckpt.trials.model.metrics import as_float

MOST_POINTS = 24
_NUMBERS = frozenset({int, float})


@dataclass(frozen=True, slots=True)
class Curve:
    """What is kept of the numbers of one metric. It depends on the numbers only, not on when they came.

    Attributes:
        count: How many numbers there were.
        stride: A power of two. The numbers at its multiples are kept.
        last: The newest number.
        low: The position and the value of the first smallest number that is not NaN; None if there is none.
        high: The same for the largest.
        points: The numbers at the positions 0, stride, 2 * stride and so on, at most `MOST_POINTS`.
    """

    count: int = 0
    stride: int = 1
    last: float = math.nan
    low: tuple[int, float] | None = None
    high: tuple[int, float] | None = None
    points: tuple[float, ...] = ()

    def extended(self, numbers: Sequence[float]) -> Curve:
        """Return the curve with further numbers, at least one."""
        points, stride = (*self.points, *numbers[-self.count % self.stride :: self.stride]), self.stride
        while len(points) > MOST_POINTS:
            points, stride = points[::2], 2 * stride
        low, high = self.low, self.high
        if sound := numbers if _is_finite(numbers) else [number for number in numbers if number == number]:
            least, most = min(sound), max(sound)
            if low is None or least < low[1]:
                low = self.count + numbers.index(least), least
            if high is None or most > high[1]:
                high = self.count + numbers.index(most), most
        return Curve(self.count + len(numbers), stride, numbers[-1], low, high, points)

    @property
    def places(self) -> tuple[tuple[int, float], ...]:
        """The finite numbers to draw with their positions, in order.

        They are some points, and the lowest, the highest and the last number.
        """
        drawn = {at * self.stride: point for at, point in enumerate(self.points)}
        drawn |= dict(filter(None, (self.low, self.high))) | {self.count - 1: self.last}
        return tuple((at, drawn[at]) for at in sorted(drawn) if math.isfinite(as_float(drawn[at])))

    @property
    def shown(self) -> tuple[float, ...]:
        """The numbers of `places`."""
        return tuple(number for _, number in self.places)

    def to_json(self) -> list[Any]:
        """Return the curve as plain JSON."""
        low, high = (place and list(place) for place in (self.low, self.high))
        return [self.count, self.stride, self.last, low, high, list(self.points)]

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Return the curve of a document from a file or another machine.

        Raises:
            CorruptError: It is not the document of a curve.
        """
        try:
            count, stride, last, low, high, points = document
            is_sound = (
                _is_position(stride, count + 1)
                and len(points) == -(-count // stride) <= MOST_POINTS
                and _NUMBERS.issuperset({type(last), *map(type, points)})
                and _is_place(low, count)
                and _is_place(high, count)
            )
        except (TypeError, ValueError, LookupError, ZeroDivisionError):
            is_sound = False
        if not is_sound:
            raise CorruptError("a curve is damaged: it is not one that nbckpt writes")
        return cls(count, stride, last, low and (low[0], low[1]), high and (high[0], high[1]), tuple(points))


def _is_place(place: Any, count: int) -> bool:
    """Return whether a place in a document is one of *count* numbers, or None."""
    return place is None or (len(place) == 2 and _is_position(place[0], count) and type(place[1]) in _NUMBERS)


def _is_position(position: Any, count: Any) -> bool:
    return type(position) is type(count) is int and 0 <= position < count


def _is_finite(numbers: Sequence[float]) -> bool:
    """Return whether all numbers surely are finite."""
    try:
        return math.isfinite(sum(numbers))
    except OverflowError:  # an integer that no float can express
        return False
