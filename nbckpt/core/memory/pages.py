"""Pages: which bytes of a buffer may have changed since a look at it, and which are proven unwritten.

A look at a buffer begins or continues Linux's record of its pages. The next look at the same memory names the
byte ranges that may have changed; **everything else is proven to hold the bytes that it held at the earlier
look**. The promise is about bytes at addresses, never about objects: if memory is freed and another object
gets it, its bytes are still those of the earlier look wherever the record names no range.

    with page_record().round() as looks:               # one save, or the end of one cell
        look = looks.at(address, size, since=earlier)  # the Look kept from last time, or None
        for low, high in look.dirty: ...               # offsets in the buffer; the rest is unchanged
    # Keep `look` for the next round.

Rules for callers:
* The buffer must be alive until the round ends, so that its address means its memory.
* First look, then read or hash. A write after the look is named by the next one; a hash before it is worth
  nothing.
* Keep looks of different uses apart: each `since` stands for itself, and no use hides a write from another.
* Where nothing is proven, `dirty` is the whole buffer. No call raises because of the record.

A round in which a device or a file can write to memory without a page fault proves nothing, and its looks
prove nothing later. Not watched are buffers below 1 MiB, and memory that a file or another process shares.
The first and the last page of a buffer can belong to other objects too, whose writes count. If two buffers
share such a page, it is always dirty for one of them. A buffer that was mostly written since the look before
rests, since each first write to a watched page costs 0.5 us: for 1, 2, 4 and then each time 8 looks. See
docs/decisions/0093.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Self

from nbckpt.core.memory.process import private_memory, unseen_writer
from nbckpt.core.memory.regions import Region, Regions
from nbckpt.core.memory.selftest import first_fault
from nbckpt.core.memory.userfault import PAGE, Ranges, Userfault, covers, joined
from nbckpt.settings import wants_page_record

LEAST = 1 << 20
"""The size of the smallest buffers that are watched."""

MOST_REGIONS = 4096  # each splits a mapping, and a process may have 65,530
_MOSTLY = 0.5
_LONGEST_REST = 8


@dataclass(frozen=True, eq=False, slots=True)
class Look:
    """What one look at a buffer found. It is also the token for a later look at the same memory.

    Attributes:
        address: The address of the buffer.
        size: The number of its bytes.
        dirty: The byte ranges that may have changed since the earlier look: offsets in the buffer, in order.
    """

    address: int
    size: int
    dirty: Ranges
    _round: Round
    _region: Region | None = None
    _number: int = 0

    @property
    def proves(self) -> bool:
        """Whether a later look can prove anything about this buffer. Known when the round has ended."""
        return self._region is not None and not self._region.is_over and self._round.is_sound


class PageRecord:
    """The page record of this process, or the reason why there is none. Any thread may use it.

    Args:
        open_record: Opens Linux's record.

    Attributes:
        why_off: Why nothing is proven here; "" if the record works.
        regions: The memory that is watched.
        rests: The buffers that are not watched for some looks, as they were mostly written.
    """

    def __init__(self, open_record: Callable[[], Userfault] = Userfault) -> None:
        self.why_off = ""
        self._lock = threading.RLock()  # a save on a signal may interrupt a look
        self._number = 0
        self.regions = Regions()
        self.rests: dict[tuple[int, int], tuple[int, int]] = {}
        self._linux: Userfault | None = None
        try:
            self._linux = open_record()
            if fault := first_fault(self._linux):
                self.close(f"it is not exact here: {fault}")
        except OSError as error:
            self.close(str(error.strerror or error))

    def round(self) -> Round:
        """Begin a round of looks. Use it in a `with` block."""
        return Round(self)

    def close(self, why: str) -> None:
        """End the record and close its files. Nothing is proven from then on, also not by former looks."""
        self.why_off = why
        self.regions.clear()
        if self._linux is not None:
            self._linux.close()
        self._linux = None

    def leave(self) -> None:
        """Close in a forked child, where another thread may have held the lock, and watches nothing."""
        self._lock = threading.RLock()
        self.close("the process was forked")

    def look(self, looks: Round, address: int, size: int, since: Look | None) -> Look:
        """See `Round.at`."""
        last = address + size
        dirty = [(0, size)] if size else []
        with self._lock:
            number = self._number = self._number + 1
            if self._linux is None or size < LEAST or looks.why_not:
                return Look(address, size, dirty, looks)
            region = self._containing(*_whole_pages(address, last))
            # The scan protects the pages again, so it comes before the caller reads them.
            written = self._scan(self._linux, region, number, address, last) if region else None
            if region is None or written is None:
                region = self._begin(self._linux, looks, address, last)
                return Look(address, size, dirty, looks, region, number)
            if since is not None and since._region is region and since._round.is_proof_for(looks):
                unseen = [part for part in ((address, region.start), (region.end, last)) if part[0] < part[1]]
                parts = joined([*region.since(since._number, address, last), *unseen])
                dirty = [(low - address, high - address) for low, high in parts]
                self._rest(region, written, address, last)
            return Look(address, size, dirty, looks, region, number)

    def expect_write(self, address: int, size: int) -> None:
        """Count memory as written that the caller is about to write, so that no page of it costs a fault."""
        start, end = _all_pages(address, address + size)
        with self._lock:
            if self._linux is None:
                return
            for region in self.regions.overlapping(start, end):
                with suppress(OSError):  # other pages are there now
                    self._linux.unprotect(max(start, region.start), min(end, region.end))

    def end(self, regions: list[Region], private: Ranges) -> None:
        """End the record of those regions that are not in private memory."""
        with self._lock:
            for region in regions:
                if not covers(private, region.start, region.end):
                    self._end(region)

    def _containing(self, start: int, end: int) -> Region | None:
        """Return the region of these pages. Regions that overlap it in another way end."""
        for region in self.regions.overlapping(start, end):
            if region.start <= start and region.end >= end and not region.is_open:
                self.regions.touch(region)
                return region
            self._end(region)
        return None

    def _scan(self, linux: Userfault, region: Region, number: int, address: int, last: int) -> Ranges | None:
        """Note what was written, or end the region if its pages are no longer those that were protected."""
        start, end = _all_pages(address, last)
        region.is_open = True
        try:
            written = linux.written(max(start, region.start), min(end, region.end))
        except OSError:
            self._end(region)
            return None
        region.note(number, written)
        region.is_open = False
        return written

    def _begin(self, linux: Userfault, looks: Round, address: int, last: int) -> Region | None:
        left, length = self.rests.get((address, last), (0, 0))
        if left:
            self.rests[address, last] = left - 1, length
            return None
        (start, end), (inner_start, inner_end) = _all_pages(address, last), _whole_pages(address, last)
        edges = self.regions.overlapping(start, inner_start), self.regions.overlapping(inner_end, end)
        for neighbour in chain(*edges):
            self._scan(linux, neighbour, self._number, address, last)  # it ends if its memory is gone
        # Neighbours on the heap share a page: it is watched for the first of them alone.
        start = inner_start if self.regions.overlapping(start, inner_start) else start
        end = inner_end if self.regions.overlapping(inner_end, end) else end
        if not covers(looks.private(), start, end):
            return None
        try:
            linux.protect(start, end)
        except OSError:  # another user of userfaultfd, or too many mappings
            return None
        if len(self.regions) >= MOST_REGIONS:
            self._end(self.regions.oldest())
        region = self.regions.add(start, end)
        looks.begun.append(region)
        return region

    def _rest(self, region: Region, written: Ranges, address: int, last: int) -> None:
        """End a region that was mostly written, and let the buffer rest; each time for longer."""
        if sum(high - low for low, high in written) <= _MOSTLY * (last - address):
            self.rests.pop((address, last), None)
            return
        _, length = self.rests.pop((address, last), (0, 0))
        length = min(2 * length or 1, _LONGEST_REST)
        if len(self.rests) >= MOST_REGIONS:
            del self.rests[next(iter(self.rests))]
        self.rests[address, last] = length, length
        self._end(region)

    def _end(self, region: Region) -> None:
        if self.regions.remove(region) and self._linux is not None:
            with suppress(OSError):  # the memory may be gone
                self._linux.release(region.start, region.end)


class Round:
    """Looks at many buffers, of one moment: those of one save, or at the end of one cell.

    Attributes:
        why_not: Why the looks of this round prove nothing; "" if they do.
        is_sound: Whether the round has ended, and its looks can prove something later.
        begun: The regions that it began to watch.
    """

    def __init__(self, record: PageRecord) -> None:
        self.why_not = record.why_off or unseen_writer()
        self.is_sound = False
        self.begun: list[Region] = []
        self._record = record
        self._private: Ranges | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the round. Its looks prove nothing later if what they rely on did not last until now."""
        if self.begun:
            self._record.end(self.begun, private_memory())
        self._private = None
        self.why_not = self.why_not or self._record.why_off or unseen_writer()
        self.is_sound = not self.why_not

    def at(self, address: int, size: int, since: Look | None = None) -> Look:
        """Look at a buffer that is alive: what may have changed since the look *since*?

        Without a look at this same memory from a sound round, or from this one, that is everything.
        """
        if since is not None and (since.address, since.size) != (address, size):
            since = None
        return self._record.look(self, address, size, since)

    def is_proof_for(self, other: Round) -> bool:
        """Tell whether looks of this round can prove something in the other."""
        return self.is_sound or self is other

    def private(self) -> Ranges:
        """Return the memory that may be watched, as it was at the first call."""
        if self._private is None:
            self._private = private_memory()
        return self._private


def _all_pages(address: int, last: int) -> tuple[int, int]:
    return address // PAGE * PAGE, -(-last // PAGE) * PAGE


def _whole_pages(address: int, last: int) -> tuple[int, int]:
    return -(-address // PAGE) * PAGE, last // PAGE * PAGE


class _Process:
    """The record of this process. A forked child begins with none."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.record: PageRecord | None = None

    def leave(self) -> None:
        self.lock = threading.RLock()
        if self.record is not None:
            self.record.leave()
        self.record = None


def _forbid() -> Userfault:
    raise OSError("it is turned off by NBCKPT_PAGE_RECORD=0")


_FORBIDDEN = PageRecord(_forbid)
PROCESS = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS.leave)


def page_record() -> PageRecord:
    """Return the page record of this process. The first call opens it and tests whether it is exact here."""
    if not wants_page_record():
        return _FORBIDDEN
    with PROCESS.lock:
        if PROCESS.record is None:
            PROCESS.record = PageRecord()
        return PROCESS.record
