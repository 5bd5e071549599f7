"""Retention: the removal of points, because there are more than a notebook's limits allow.

No cell waits for it; see docs/decisions/0099.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from nbckpt.core.gc import collect
from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.pools import starts
from nbckpt.core.references import Entry
from nbckpt.core.trash import discard
from nbckpt.errors import NbckptError, NotFoundError
from nbckpt.timeline.points import Point, Points
from nbckpt.timeline.timeline import Timeline

_LISTED_AFTER = 100
_COLLECTED = 64 << 20
"""After the removal of points that added this many bytes, gc runs in the background."""
_ENDED = timedelta(days=1)
"""A kernel that made no point for so long is taken for ended. Nothing else tells, also on another machine."""


@dataclass(frozen=True)
class Limits:
    """What automatic points may take.

    Attributes:
        budget: The share of the cells' time that points may take, over the last minute. 20 ms for each cell
            are allowed in any case.
        keep: The number of points to keep for this notebook; None for no limit.
        most: The bytes that the kept points may have added to the store; None for no limit.
    """

    budget: float = 0.05
    keep: int | None = 200
    most: int | None = None

    def are_passed(self, points: int, added: int) -> bool:
        """Tell whether this number of points, and the bytes that they added, are beyond a limit."""
        is_many = self.keep is not None and points > self.keep
        return is_many or (self.most is not None and added > self.most)

    @property
    def percent(self) -> str:
        """The budget as text, such as `5%`."""
        return f"{100 * self.budget:,.3f}".rstrip("0").rstrip(".") + "%"


@dataclass
class Tally:
    """The number of points that count, and the bytes that they added, if no other kernel changed that.

    A list of all points takes the longer, the more there are. So they are listed when the tally is beyond a
    limit, and now and then for the points of other kernels.
    """

    points: int = 0
    added: int = 0
    listed_in: int = 0

    def must_list(self, limits: Limits, new_bytes: int) -> bool:
        """Count a new point, and tell whether the points must be listed."""
        self.points, self.added, self.listed_in = self.points + 1, self.added + new_bytes, self.listed_in - 1
        return self.listed_in < 0 or limits.are_passed(self.points, self.added)

    def is_listed(self, left: Iterable[Point]) -> None:
        """Take the points that a list had and that were left."""
        sizes = [point.new_bytes for point in left]
        self.points, self.added, self.listed_in = len(sizes), sum(sizes), _LISTED_AFTER


def counted(points: Iterable[tuple[Entry, Point]], notebook: str, kernel: str) -> list[tuple[Entry, Point]]:
    """Return the points that count for a notebook.

    Those of another kernel that may still run neither count nor go: it may have to step back to them. Two
    terminals have the same notebook, since neither has one.

    Args:
        points: The points of the store.
        notebook: The notebook's path.
        kernel: The kernel that asks.
    """
    of_notebook = [(entry, point) for entry, point in points if point.notebook == notebook]
    running = {point.kernel for _, point in of_notebook if _is_recent(point)} - {kernel}
    return [(entry, point) for entry, point in of_notebook if point.kernel not in running]


def beyond(
    points: Iterable[tuple[Entry, Point]], limits: Limits, needed: Collection[str]
) -> list[tuple[Entry, Point]]:
    """Return the points that are beyond the limits.

    Args:
        points: The points that count, newest first.
        limits: The limits.
        needed: The ids of points that must stay.
    """
    added, gone = 0, []
    for at, (entry, point) in enumerate(points, 1):
        added += point.new_bytes
        if limits.are_passed(at, added) and entry.id not in needed:
            gone.append((entry, point))
    return gone


def _is_recent(point: Point) -> bool:
    try:
        return datetime.now(UTC) - datetime.fromisoformat(point.created_at) < _ENDED
    except (TypeError, ValueError):  # whatever stands in its manifest
        return False


@dataclass(frozen=True)
class _Order:
    """The removal that follows a point.

    Attributes:
        point: The point.
        limits: The limits.
        needed: The ids of other points that must stay.
        turn: The number of calls of `Retention.stop` before it.
    """

    point: Point
    limits: Limits
    needed: Collection[str]
    turn: int


class Retention:
    """Removes the points of a kernel's notebook that are beyond the limits. `gc` frees their space.

    One thread at a time is at work: that of a point. It also does what later points ask for meanwhile. A
    point whose removal failed, or was stopped, is removed after the next point.

    Args:
        timeline: The points of the namespace.
    """

    def __init__(self, timeline: Timeline) -> None:
        history = timeline.history
        self._timeline = timeline
        # The main thread uses the other one meanwhile.
        self._history = History(history.store, lambda: history.signer)
        self._points = Points(self._history)
        self._tally = Tally()
        self._dropped = 0
        self._orders: deque[_Order] = deque()
        self._turn = 0
        self._at_work = threading.Lock()
        self._process = os.getpid()

    def recount(self) -> None:
        """List the points after the next one, whatever was counted."""
        self._tally = Tally()

    def after_next(self, limits: Limits) -> Callable[[Manifest], None]:
        """Return what any thread calls with the next point, once it is there."""
        return partial(self._apply, limits, self._timeline.needed(), self._turn)

    def stop(self, seconds: float) -> None:
        """Remove nothing before the next point. Wait this long for the one point that is being removed.

        Each way calls it first: the removal does not know which points must stay after the way.
        """
        self._turn += 1
        if os.getpid() == self._process and self._at_work.acquire(timeout=seconds):  # a fork lacks the thread
            self._at_work.release()

    def _apply(self, limits: Limits, needed: Collection[str], turn: int, made: Manifest) -> None:
        self._orders.append(_Order(Point.of(made), limits, needed, turn))
        while self._orders and self._at_work.acquire(blocking=False):
            try:
                self._work()
            finally:
                self._at_work.release()

    def _work(self) -> None:
        orders = [self._orders.popleft() for _ in range(len(self._orders))]
        must_list = False
        for order in orders:
            self._points.note(order.point)
            must_list |= self._tally.must_list(order.limits, order.point.new_bytes)
        if must_list:
            with suppress(NbckptError, OSError):
                self._remove(orders[-1])

    def _remove(self, order: _Order) -> None:
        """Remove the points that were beyond the limits at the order's point.

        The oldest go first, so that those that are left are a chain for `undo`, wherever it ends.
        """
        timeline, made_at, removed = self._timeline, order.point.created_at, set[Entry]()
        points = counted(self._points.all(), timeline.notebook, timeline.kernel)
        points = [(entry, point) for entry, point in points if point.created_at <= made_at]
        try:
            for entry, point in reversed(beyond(points, order.limits, {*order.needed, order.point.id})):
                if self._turn != order.turn:
                    break
                with suppress(NotFoundError):  # another kernel removed it meanwhile
                    discard(self._history, entry)
                    self._dropped += point.new_bytes
                removed.add(entry)
        finally:
            self._tally.is_listed(point for entry, point in points if entry not in removed)
        if self._dropped >= _COLLECTED:
            self._dropped = 0
            starts(threading.Thread(target=self._collect, name="nbckpt-collect", daemon=True))

    def _collect(self) -> None:
        history = self._timeline.history
        with suppress(NbckptError, OSError):  # the next one tries again, and `%ckpt gc` says what is wrong
            collect(History(history.store, lambda: history.signer))
