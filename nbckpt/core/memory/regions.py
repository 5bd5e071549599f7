"""Regions: the watched parts of the memory, with what was found written in each. They do not overlap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from nbckpt.core.memory.userfault import Ranges, joined

_MOST_ENTRIES = 16
MOST_RANGES, _NEAR = 4096, 64 << 10


@dataclass(eq=False, slots=True)
class Region:
    """Watched pages.

    Attributes:
        entries: The ranges that a look found written, each with the number of the look.
        is_over: Whether the record of these pages has ended.
        is_open: Whether a scan has begun and its result is not noted yet. An interrupt loses that result.
    """

    start: int
    end: int
    entries: list[tuple[int, Ranges]] = field(default_factory=list)
    is_over: bool = False
    is_open: bool = False

    def note(self, number: int, written: Ranges) -> None:
        """Add what a look found. The oldest two entries become one, which only adds to later answers."""
        if written:
            self.entries.append((number, _short(written)))
        if len(self.entries) > _MOST_ENTRIES:
            (_, first), (second_number, second) = self.entries[:2]
            self.entries[:2] = [(second_number, _short(first + second))]

    def since(self, number: int, start: int, end: int) -> Ranges:
        """Return the ranges between *start* and *end* that were found written after this look."""
        parts = [part for at, written in self.entries if at > number for part in written]
        return [(max(low, start), min(high, end)) for low, high in parts if low < end and high > start]


class Regions:
    """The watched regions. The caller holds a lock, and sees to it that none overlap."""

    def __init__(self) -> None:
        self._by_start: dict[int, Region] = {}  # the least recently looked at first
        self._starts: list[int] = []  # in order, or [] if they changed

    def __len__(self) -> int:
        return len(self._by_start)

    def overlapping(self, start: int, end: int) -> list[Region]:
        """Return the regions that have one of these bytes, in the order of their addresses."""
        if len(self._starts) != len(self._by_start):
            self._starts = sorted(self._by_start)
        first = max(0, bisect_right(self._starts, start) - 1)
        regions = [self._by_start[at] for at in self._starts[first : bisect_left(self._starts, end)]]
        return [region for region in regions if region.end > start]

    def oldest(self) -> Region:
        """Return the least recently looked at."""
        return next(iter(self._by_start.values()))

    def touch(self, region: Region) -> None:
        """Take in a look at a region."""
        self._by_start[region.start] = self._by_start.pop(region.start)

    def add(self, start: int, end: int) -> Region:
        """Begin a region, and return it."""
        self._starts = []
        region = self._by_start[start] = Region(start, end)
        return region

    def remove(self, region: Region) -> bool:
        """End a region. Return whether it was one of these."""
        region.is_over = True
        if self._by_start.get(region.start) is not region:
            return False
        self._starts = []
        del self._by_start[region.start]
        return True

    def clear(self) -> None:
        """End all regions."""
        for region in self._by_start.values():
            region.is_over = True
        self._by_start.clear()
        self._starts = []


def _short(ranges: Ranges) -> Ranges:
    """Return the ranges in order, and the gaps between them too if there are too many."""
    return joined(ranges, _NEAR if len(ranges) > MOST_RANGES else 0)
