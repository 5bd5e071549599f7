"""Rows: a budget and what was measured for it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Row:
    """One budget and its measurement.

    Attributes:
        label: The measured action.
        against: The quantity that the value is divided by, or the unit of the value.
        value: The median over the rounds, or None if it was not measured.
        low: The minimum over the rounds.
        high: The maximum over the rounds.
        budget: The maximum that the budget allows.
        note: A further note.
    """

    label: str
    against: str
    value: float | None
    low: float | None
    high: float | None
    budget: float
    note: str = ""

    @classmethod
    def of(cls, label: str, against: str, samples: Sequence[float], budget: float, note: str = "") -> Self:
        """Return the row of the median of samples."""
        if not samples:
            return cls(label, against, None, None, None, budget)
        return cls(label, against, median(samples), min(samples), max(samples), budget, note)

    @property
    def verdict(self) -> str:
        """Whether the budget holds."""
        if self.value is None:
            return "not measured"
        return "holds" if self.value <= self.budget else "MISSES"


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return one ratio per round, so that each compares measurements made close together in time."""
    return [a / b for a, b in zip(ours, theirs, strict=False)]
