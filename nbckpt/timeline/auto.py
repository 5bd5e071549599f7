"""Auto: a point after each cell, within a budget of time, and the removal of old points.

The budget counts the time for which the user waits, not what goes on in the background.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from nbckpt.cells.analysis import Touched
from nbckpt.core import environment
from nbckpt.core.gc import collect
from nbckpt.core.history import History, VanishedError
from nbckpt.core.manifest import Manifest, now
from nbckpt.core.packs.pools import others_run, starts
from nbckpt.core.trash import discard
from nbckpt.core.values.locks import give_tokens
from nbckpt.errors import NbckptError, NotFoundError, StoreError
from nbckpt.timeline.points import Points
from nbckpt.timeline.rescue import Rescue
from nbckpt.timeline.retention import Limits, beyond
from nbckpt.timeline.timeline import Timeline

_WINDOW_S = 60.0
_ALWAYS_S = 0.02
_NO_NAMES = Touched(frozenset())
_MOST_FAILED = 20
_AT_END_S, _AT_MOST_S = 2.0, 30.0
_COLLECTED = 64 << 20
"""After the removal of points that added this many bytes, gc runs in the background."""


@dataclass(frozen=True)
class FailedCell:
    """A cell that an exception ended, and that no point holds.

    Attributes:
        cell: Its number in the kernel, or None.
        source: Its code.
        error: The name of the exception.
        ended_at: When it ended, in UTC.
    """

    cell: int | None
    source: str
    error: str
    ended_at: str


@dataclass
class _Spent:
    """The time of the last minute's cells and of their points.

    Attributes:
        cells: For each cell: when it ended, how long it took, and how long its point took, in seconds.
    """

    cells: deque[tuple[float, float, float]] = field(default_factory=deque)

    def allows(self, share: float, now: float) -> bool:
        """Tell whether there is time for one more point, which may take as long as any of the last minute."""
        while self.cells and self.cells[0][0] < now - _WINDOW_S:
            self.cells.popleft()
        allowed = max(share * sum(cell[1] for cell in self.cells), _ALWAYS_S * len(self.cells))
        points = [cell[2] for cell in self.cells]
        return sum(points) + max(points) <= allowed

    def add(self, ended: float, took: float) -> None:
        """Note a cell that ended just now."""
        self.cells.append((ended, took, 0.0))

    def spend(self, seconds: float) -> None:
        """Note the time of the last cell's point."""
        ended, took, _ = self.cells.pop()
        self.cells.append((ended, took, seconds))


class Auto:
    """Makes a point after each cell while it is on, and removes old points of the same notebook.

    Args:
        timeline: The points of the namespace.
        clock: Returns the time in seconds.
        patience_s: How many seconds to wait for a point in the background, before it is dropped.

    Attributes:
        timeline: The points of the namespace.
        limits: What the points may take; None while it is off.
        missed: The number of cells since the last point.
    """

    def __init__(
        self,
        timeline: Timeline,
        clock: Callable[[], float] = time.perf_counter,
        *,
        patience_s: float = _AT_MOST_S,
    ) -> None:
        self.timeline = timeline
        self.limits: Limits | None = None
        self.missed = 0
        self._clock, self._patience_s = clock, patience_s
        self._points = Points(timeline.history)
        self._touched = self._running = _NO_NAMES
        self._named = _NO_NAMES
        self._ways = 0
        self._spent = _Spent()
        self._waited = 0.0
        self._dropped = 0
        self._is_told = False
        self._told = ""
        self._given = 0
        self._last: Mapping[str, Any] = {}
        self._failed: deque[tuple[str, FailedCell]] = deque(maxlen=_MOST_FAILED)
        self._just_failed: list[tuple[str, FailedCell]] = []
        self._is_running = False
        self._rescue = Rescue(self._save_the_rest, lambda: self.timeline.is_busy)

    def turn_on(self, limits: Limits, origin: Mapping[str, Any]) -> None:
        """Make the first point, and from now on one after each cell."""
        self.timeline.record(origin)
        self.limits = limits
        self._rescue.begin()
        give_tokens(are_given=True)
        self._touched = self._named = _NO_NAMES
        self.missed, self._is_told = 0, False

    def turn_off(self) -> None:
        """Make no more points. Those that were made stay, and so does the one in the background."""
        self.limits = None
        self._failed.clear()
        self._just_failed.clear()
        give_tokens(are_given=False)
        self._rescue.end()
        self.wait()

    def before_cell(self, touched: Touched) -> None:
        """Note that a cell begins, so that a signal meanwhile saves what it changed so far.

        Wait while the point in the background needs memory that the cell can touch. An interrupt drops it.
        """
        self._is_running, self._running = True, touched
        self._ways = self.timeline.ways
        began = self._clock()
        try:
            self.timeline.make_way(touched)
        except KeyboardInterrupt:
            self.timeline.drop()
        self.settle(0)
        self._waited = self._clock() - began

    def ready(self) -> Timeline:
        """Return the timeline for a way, after a point of the cells that have none yet."""
        self.wait()
        if self.limits is not None and self.missed:
            self.timeline.record(self._last, missed=self.missed - 1, named=self._names())
            self._touched, self._named, self.missed = _NO_NAMES, _NO_NAMES, 0
        return self.timeline

    def since(self, moment: str) -> bool:
        """Tell whether the present point was made after a moment, as `Manifest.created_at`, or there is none.

        It is not if the last cells have no point: nobody knows when they changed something.
        """
        if not moment:
            return True
        self.wait()
        here = self.timeline.here
        return not self.missed and here is not None and here.manifest.created_at > moment

    def settle(self, seconds: float | None = None) -> bool:
        """Wait for the point in the background. Return False if that takes longer.

        If it failed, its cell has no point.
        """
        is_done = self.timeline.settle(seconds)
        if is_done and self.timeline.trouble:
            self.missed += self._given
        if is_done:
            self._given = 0
        return is_done

    def wait(self) -> None:
        """Wait for the point in the background. After half a minute or an interrupt it is dropped."""
        is_done = False
        try:
            is_done = self.settle(self._patience_s)
        finally:
            if not is_done:
                self.timeline.drop()
                self.settle(0)
            self._sort_failures()

    def unseen(self, saved: Manifest) -> tuple[str, ...]:
        """Return the variables that changed without being named, as a save of the present namespace shows.

        No point holds these changes; the next one will.
        """
        touched = self._touched | self._running
        if self.limits is None or touched.everything or others_run():
            return ()
        names = self.timeline.unseen(saved, touched.names)
        self._touched |= Touched(frozenset(names))
        return names

    def _save_the_rest(self) -> None:
        """Save what no point holds yet, before the process ends."""
        if not (self.settle(_AT_END_S) or self.timeline.drop()):
            raise StoreError("the store did not answer")
        self.settle(0)
        if self._is_running or self.missed:
            self.timeline.rescue({})
            self._is_running, self.missed = False, 0

    def failed_cells(self) -> tuple[FailedCell, ...]:
        """Return the cells that failed in the present state and changed nothing, oldest first.

        It is empty while nobody knows whether the last cells changed something: their point is being written,
        or the next one takes their changes. See docs/decisions/0141.
        """
        here = self.timeline.last
        return tuple(cell for at, cell in self._failed if at == here) if self._sort_failures() else ()

    def _sort_failures(self) -> bool:
        """Keep the cells that failed and got no point. Return False while nobody knows which they are."""
        if self.missed or self.timeline.is_writing:
            return False
        self._failed += [(at, cell) for at, cell in self._just_failed if at == self.timeline.last]
        self._just_failed.clear()
        return True

    def trouble(self) -> str:
        """Return once why the last point in the background was not made; else an empty string."""
        error = self.timeline.trouble
        text = "" if error is None or isinstance(error, VanishedError) else str(error)
        if text == self._told:
            return ""
        self._told = text
        return text

    def news(self) -> str:
        """Return once that there are fewer points than cells; else an empty string."""
        if self.limits is None or not self.missed or self._is_told or self.timeline.trouble:
            return ""
        self._is_told = True
        return (
            f"points take more than {self.limits.percent} of the cells' time, so there are fewer: "
            "a cell without a point is undone together with the next one"
        )

    def after_cell(
        self, seconds: float, touched: Touched, origin: Mapping[str, Any], *, is_command: bool = False
    ) -> None:
        """Begin a point after a cell, unless the budget is used up. The rest is done in the background.

        A cell without a point is undone together with the next one. After an exception the same holds.

        Args:
            seconds: The time that the cell took.
            touched: The variables that its code can have touched.
            origin: The cell and the notebook.
            is_command: Whether the cell is one `%ckpt` command. After a way nothing is left to save.
        """
        assert self.limits is not None  # it is on
        self._is_running, self._running = False, _NO_NAMES
        self._name(touched)
        if others_run():
            touched |= Touched(frozenset(), "another thread runs")
        elif is_command and self.timeline.is_way_last:
            self._rescue.point_is_made()
            return
        self._touched |= touched
        began = self._clock()
        self._spent.add(began, seconds)
        try:
            self.wait()
            self.timeline.note(origin, touched)
            self._last = origin
            if not is_command:
                self._note_failure(origin)
            self.missed += 1
            if self._spent.allows(self.limits.budget, self._clock()):
                self._begin_point(self.limits, origin)
        finally:
            self._spent.spend(self._clock() - began + self._waited)
            self._waited = 0.0
            self._rescue.point_is_made()

    def _note_failure(self, origin: Mapping[str, Any]) -> None:
        """Note a cell that failed, with the state in which it ran. A point of the cell is another state."""
        cell = origin.get("cell", {})
        if error := cell.get("error"):
            failed = FailedCell(cell.get("count"), str(cell.get("source", "")), error, now())
            self._just_failed.append((self.timeline.last, failed))

    def _name(self, touched: Touched) -> None:
        """Note what the code of a cell names, if that tells its changes from others. See decision 0106."""
        is_way = self.timeline.ways != self._ways
        self.timeline.is_way_last = is_way
        if is_way:
            self._named |= Touched(touched.names)
        elif others_run():  # code does not name the states of libraries
            self._named |= touched | Touched(environment.NAMES)
        else:
            self._named |= Touched(frozenset(), "every change counts as its own")

    def _names(self) -> frozenset[str] | None:
        """Return the names that the cells since the last point can have touched; None for all."""
        return None if self._named.everything else self._named.names

    def _begin_point(self, limits: Limits, origin: Mapping[str, Any]) -> None:
        names = None if self._touched.everything else self._touched.names
        drop_old = partial(self._drop_old, limits, self.timeline.needed())
        self.timeline.begin(origin, names, missed=self.missed - 1, named=self._names(), then=drop_old)
        self._touched, self._named, self.missed, self._given = _NO_NAMES, _NO_NAMES, 0, self.missed

    def _drop_old(self, limits: Limits, needed: set[str], made: Manifest) -> None:
        """Remove the points of this notebook beyond the limits. `gc` frees their space."""
        timeline = self.timeline
        self._points.note(made)
        points = self._points.all()
        for entry, point in beyond(points, limits, timeline.notebook, timeline.kernel, needed | {made.id}):
            with suppress(NotFoundError):  # another kernel removed it meanwhile
                discard(timeline.history, entry)
                self._dropped += point.new_bytes
        if self._dropped >= _COLLECTED:
            self._dropped = 0
            starts(threading.Thread(target=_collect, args=(timeline,), name="nbckpt-collect", daemon=True))


def _collect(timeline: Timeline) -> None:
    history = timeline.history
    with suppress(NbckptError, OSError):  # the next removal tries again, and `%ckpt gc` says what is wrong
        collect(History(history.store, lambda: history.signer))
