"""Objectives: the metrics that an experiment is to improve, and whether the smallest or largest is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nbckpt.errors import UsageError

_MODES = {"min", "max"}


@dataclass(frozen=True)
class Objective:
    """A metric to improve.

    Attributes:
        metric: Its name; `a/b` means the metric b in the dict a.
        mode: Whether its `min` or `max` is best.
    """

    metric: str
    mode: str

    def __str__(self) -> str:
        return f"{self.metric} ({self.mode})"


def listed(objectives: Sequence[Objective]) -> str:
    """Return objectives as text.

    >>> listed([Objective("loss", "min"), Objective("acc", "max")])
    'loss (min) and acc (max)'
    """
    *first, last = map(str, objectives)
    return f"{', '.join(first)} and {last}" if first else last


def objectives_of(metric: str | Sequence[str], mode: str | Sequence[str]) -> dict[str, Any]:
    """Return the arguments of `Spec` for what a user gave: one metric and mode, or several of each.

    Raises:
        UsageError: There are several metrics, and not one mode for each of them, or for all.
    """
    metrics, modes = (
        list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        for given in (metric, mode)
    )
    if not all(isinstance(word, str) for word in [*metrics, *modes]):
        raise UsageError(f"metric={metric!r}, mode={mode!r}: give texts, or lists of texts")
    if len(metrics) <= 1 and len(modes) <= 1:
        return {"metric": "".join(metrics), "mode": "".join(modes)}
    if "" in metrics or len(set(metrics)) < len(metrics):
        raise UsageError(f"metric={metrics!r} has an empty name or one name twice: give each metric once")
    modes = modes * len(metrics) if len(modes) == 1 else modes
    if len(modes) != len(metrics) or not _MODES.issuperset(modes):
        raise UsageError(
            f"metric={metrics!r} needs a mode for each metric, 'min' or 'max', or one for all. There are "
            f"{modes!r}"
        )
    first, *others = map(Objective, metrics, modes)
    return {"metric": first.metric, "mode": first.mode, "others": tuple(others)}
