"""Rungs: how good trials were after the same amount of training, and which of them are among the best."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Container, Iterator, Mapping

_Entry = tuple[float, int, str]
"""A trial at a rung: how bad it was, its number, its name. Of equal ones the older is better."""

_MOST_RUNGS = 1024
"""Rungs are at powers of 2 or more, and a step is a float."""


class Rung:
    """The trials that reached one rung.

    Args:
        factor: With 3, a third of the trials is promoted.
    """

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._entries: list[_Entry] = []
        self._waiting: list[_Entry] = []
        self._of: dict[str, _Entry] = {}

    def __contains__(self, trial: str) -> bool:
        return trial in self._of

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, trial: str, badness: float) -> None:
        """Take in how bad a trial was here. The first value counts: a repetition changes nothing."""
        if trial not in self._of:
            entry = self._of[trial] = badness, number_of(trial), trial
            insort(self._entries, entry)
            insort(self._waiting, entry)

    def leave(self, trial: str) -> None:
        """Take in that a trial goes on to the next rung, or has ended: it is not promoted from here again."""
        entry = self._of.get(trial)
        if entry is not None:
            at = bisect_left(self._waiting, entry)
            if at < len(self._waiting) and self._waiting[at] == entry:
                del self._waiting[at]

    @property
    def places(self) -> int:
        """How many of the trials that are here by now are promoted."""
        return int(len(self._entries) // self._factor)

    def rank(self, trial: str) -> int:
        """Return the place of a trial among all that were here; the best has 1."""
        return bisect_left(self._entries, self._of[trial]) + 1

    def promotable(self, there: Container[str] | None = None) -> str | None:
        """Return the best trial that is to be promoted and was not yet; only one of *there*, if given."""
        best = self._best_waiting()
        return next((trial for trial in best if there is None or trial in there), None)

    def best(self, there: Container[str]) -> str | None:
        """Return the best trial of *there* that has not left."""
        return next(
            (trial for badness, _, trial in self._waiting if trial in there and badness < math.inf), None
        )

    def _best_waiting(self) -> Iterator[str]:
        for entry in self._waiting:
            if entry[0] == math.inf or self.rank(entry[2]) > self.places:
                return
            yield entry[2]


def without_gaps(rungs: Mapping[int, float | None]) -> dict[int, float | None]:
    """Return the values at all rungs. One report may reach several, and only the highest is recorded.

    Rungs that no pruner of Optuna can reach are left out: the journal is of another scheduler, or hostile.
    """
    whole: dict[int, float | None] = {}
    for rung in sorted(rungs):
        if rung < _MOST_RUNGS:
            whole |= dict.fromkeys(range(len(whole), rung + 1), rungs[rung])
    return whole


def number_of(trial: str) -> int:
    """Return the number in the name of a trial, such as 3 for t3."""
    return int(trial.removeprefix("t") or 0)
