"""Progress: where a running trial will end, and how much time that still takes at its current pace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from nbckpt.render import duration
from nbckpt.trials.model.metrics import ITERATION
from nbckpt.trials.model.stopping import Stop

_TIME_TOTAL = "time_total_s"
_LONGEST_S = 3650 * 86400.0
_MOST = 1 << 53


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a trial.

    Attributes:
        iteration: The number of results.
        total: The number of results at the end; None if unknown.
        left_s: The remaining time in seconds; None if unknown.
        guessed: Whether *total* is a guess; `left_guessed` says whether *left_s* is a guess.
    """

    iteration: int
    total: int | None = None
    left_s: float | None = None
    guessed: bool = False
    left_guessed: bool = False

    def __str__(self) -> str:
        if self.total is None:
            return str(self.iteration)
        return f"{self.iteration}/{'~' if self.guessed else ''}{self.total}"

    @property
    def eta(self) -> str:
        """The remaining time, in words; empty if unknown."""
        if self.left_s is None:
            return ""
        return ("~" if self.left_guessed else "") + duration(max(math.ceil(self.left_s), 1))


def progress(
    times: Sequence[Any], iteration: int, elapsed_s: float, stop: Stop, typical: int | None
) -> Progress:
    """Return the progress of a running trial.

    Args:
        times: How long its newest results took, in seconds. The pace is their mean.
        iteration: The number of all its results.
        elapsed_s: How many seconds it has trained.
        stop: The condition that ends it.
        typical: After how many results similar trials ended; None if none has ended.
    """
    pace = _pace(times)
    limits = stop if isinstance(stop, Mapping) else {_TIME_TOTAL: stop}
    ends = []
    if (last := _ahead(limits.get(ITERATION), iteration)) is not None:
        ends.append(Progress(iteration, last, _times(last - iteration, pace)))
    if (left_s := _left(limits.get(_TIME_TOTAL), elapsed_s)) is not None:
        more = left_s / pace if pace else _MOST
        total = iteration + math.ceil(more) if more < _MOST else None
        ends.append(Progress(iteration, total, left_s, guessed=True))
    if (guess := _ahead(typical, iteration)) is not None:
        left = _times(guess - iteration, pace)
        ends.append(Progress(iteration, guess, left, guessed=True, left_guessed=True))
    return min(ends, key=lambda end: _MOST if end.total is None else end.total, default=Progress(iteration))


def left_in_all(
    ended: Sequence[float], running: Sequence[tuple[float, float | None]], waiting: int, side_by_side: int
) -> float | None:
    """Return how many seconds all trials of an experiment still take; None if unknown.

    Args:
        ended: How long each trial trained that has ended, or that a scheduler has paused.
        running: How long each running trial has trained, and how long it still takes; None if unknown.
        waiting: How many trials have not begun. Each is taken to train as long as the others on average.
        side_by_side: How many trials run at the same time.

    >>> left_in_all([10, 20], [(5, None)], waiting=3, side_by_side=2)
    27.5
    """
    usual = fmean(ended) if ended else math.inf
    lefts = [max(usual - elapsed, 0.0) if left is None else left for elapsed, left in running]
    if not ended and running:
        usual = fmean(elapsed + left for (elapsed, _), left in zip(running, lefts, strict=True))
    total = sum(lefts) + (waiting * usual if waiting else 0.0)
    if not math.isfinite(total) or not running:
        return None
    return max(total / max(min(side_by_side, len(running) + waiting), 1), *lefts)


def typical(iterations: Iterable[int]) -> int | None:
    """Return the median number of results after which trials ended; None if none has ended.

    >>> typical([40, 38, 90]), typical([])
    (40, None)
    """
    known = list(iterations)
    return math.ceil(median(known)) if known else None


def _pace(times: Sequence[Any]) -> float:
    """Return the mean time of a result, in seconds; 0 if unknown."""
    known = [time for time in times if isinstance(time, (int, float)) and 0 <= time <= _LONGEST_S]
    return fmean(known) if known else 0.0


def _ahead(limit: Any, iteration: int) -> int | None:
    """Return the first iteration that reaches *limit*; None if it is in the past or never comes."""
    if not isinstance(limit, (int, float)) or not iteration <= limit + 1 < _MOST:
        return None
    first = max(math.ceil(limit), 1)
    return first if first >= iteration else None


def _left(limit: Any, elapsed_s: float) -> float | None:
    left_s = limit - elapsed_s if isinstance(limit, (int, float)) else math.nan
    return max(left_s, 0.0) if left_s <= _LONGEST_S else None


def _times(results: int, pace: float) -> float | None:
    left_s = results * pace
    return left_s if pace and left_s <= _LONGEST_S else None
