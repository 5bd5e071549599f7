"""Population: the trials of PBT in their order, so that a decision costs little beside thousands of them."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from nbckpt.trials.model.trial import Trial, rungs_of
from nbckpt.trials.schedulers.rungs import number_of

_Place = tuple[float, int, str]
"""A member in the order: how bad it is, its number, its name. Of equal ones the older is better."""


@dataclass(slots=True)
class _Member:
    """A trial of the population.

    Attributes:
        place: Its place in the order, by its value at the end of its last generation, or by that of the trial
            that it goes on from.
        generation: How many generations it has trained.
    """

    place: _Place
    generation: int


class Population:
    """The trials that are compared.

    Args:
        quantile: Which share is the best, and which the worst.
    """

    def __init__(self, quantile: float) -> None:
        self._quantile = quantile
        self._members: dict[str, _Member] = {}
        self._ordered: list[_Place] = []

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def generation(self, name: str) -> int:
        """Return how many generations a trial has trained; 0 if it is not a member."""
        member = self._members.get(name)
        return member.generation if member else 0

    def badness(self, name: str) -> float:
        """Return how bad a member is."""
        return self._members[name].place[0]

    def put(self, name: str, badness: float, generation: int) -> None:
        """Take in how bad a trial is after a generation."""
        self.leave(name)
        place = badness, number_of(name), name
        self._members[name] = _Member(place, generation)
        insort(self._ordered, place)

    def leave(self, name: str) -> None:
        """Remove a trial from the population."""
        member = self._members.pop(name, None)
        if member is not None:
            del self._ordered[bisect_left(self._ordered, member.place)]

    def rank(self, name: str) -> int:
        """Return the place of a member, 1 for the best. Equal ones have one place."""
        return bisect_left(self._ordered, (self.badness(name),)) + 1

    def is_bad(self, name: str) -> bool:
        """Tell whether a trial is among the worst."""
        share = self._share
        return bool(share) and name in self and self._members[name].place >= self._ordered[-share]

    @property
    def has_best(self) -> bool:
        """Whether `best` has a member."""
        return self._share > 0 and self._ordered[0][0] < math.inf

    def best(self) -> Sequence[str]:
        """Return the best members, best first. One without a number is not among them."""
        finite = bisect_left(self._ordered, (math.inf,))
        return [name for *_, name in self._ordered[: min(self._share, finite)]]

    @property
    def _share(self) -> int:
        size = len(self._ordered)
        return min(math.ceil(size * self._quantile), size // 2)


class Turns:
    """The trials that wait for their turn: that of the earliest generation comes first."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, str]] = []

    def wait(self, name: str, generation: int) -> None:
        """Take in that a trial may wait from now on."""
        heappush(self._queue, (generation, number_of(name), name))

    def first(self, held: Mapping[str, Trial]) -> Trial:
        """Return the first of the trials that wait. There must be one."""
        while self._queue:
            generation, _, name = self._queue[0]
            trial = held.get(name)
            if trial is not None and rungs_of(trial) == generation:
                return trial
            heappop(self._queue)
        self._queue = [(rungs_of(trial), number_of(name), name) for name, trial in held.items()]
        heapify(self._queue)
        return held[self._queue[0][2]]
