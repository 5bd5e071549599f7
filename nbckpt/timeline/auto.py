"""Auto: a point after each cell, within a budget of time.

The budget counts the time for which the user waits, not what goes on in the background.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from nbckpt.cells.analysis import Touched
from nbckpt.core import environment
from nbckpt.core.history import VanishedError
from nbckpt.core.manifest import Manifest, now
from nbckpt.core.packs.pools import others_run
from nbckpt.core.values.locks import give_tokens
from nbckpt.errors import StoreError, UsageError
from nbckpt.timeline.cells import NO_CELLS, ONE_CELL, UNKNOWN_CELL, Cells, FailedCell, Spent
from nbckpt.timeline.rescue import Rescue
from nbckpt.timeline.retention import Limits, Retention
from nbckpt.timeline.timeline import Timeline

_NO_NAMES = Touched(frozenset())
_MOST_FAILED = 20
_AT_END_S, _AT_MOST_S = 2.0, 30.0


class Auto:
    """Makes a point after each cell while it is on, and removes old points of the same notebook.

    Args:
        timeline: The points of the namespace.
        clock: Returns the time in seconds.
        patience_s: How many seconds to wait for a point in the background, before it is dropped.
        hears_cells: Whether it is told of each cell: that is so in the notebook's own store.

    Attributes:
        timeline: The points of the namespace.
        limits: What the points may take; None while it is off.
    """

    def __init__(
        self,
        timeline: Timeline,
        clock: Callable[[], float] = time.perf_counter,
        *,
        patience_s: float = _AT_MOST_S,
        hears_cells: bool = True,
    ) -> None:
        self.timeline = timeline
        self._hears_cells = hears_cells
        self.limits: Limits | None = None
        self._clock, self._patience_s = clock, patience_s
        self._retention = Retention(timeline)
        self._left = self._given = NO_CELLS  # since the last point; in the point that is being written
        self._running = _NO_NAMES
        self._ways = 0
        self._spent = Spent()
        self._waited = 0.0
        self._is_told = False
        self._told = ""
        self._last: Mapping[str, Any] = {}
        self._failed: deque[tuple[str, FailedCell]] = deque(maxlen=_MOST_FAILED)
        self._just_failed: list[tuple[str, FailedCell]] = []
        self._is_running = False
        self._rescue = Rescue(self.save_the_rest, lambda: self.timeline.is_busy)

    @property
    def missed(self) -> int:
        """The number of cells since the last point."""
        return self._left.number

    def turn_on(self, limits: Limits, origin: Mapping[str, Any]) -> None:
        """Make the first point, and from now on one after each cell.

        Raises:
            UsageError: It is not told of cells.
        """
        if not self._hears_cells:
            raise UsageError(
                "points are made in the notebook's own store only. To make another store the notebook's own: "
                "%env NBCKPT_STORE=STORE and %reload_ext nbckpt"
            )
        self.timeline.record(origin)
        self.limits = limits
        self._rescue.begin()
        give_tokens(are_given=True)
        self._left, self._is_told = NO_CELLS, False
        self._retention.recount()

    def turn_off(self) -> None:
        """Make no more points. Those that were made stay, and so does the one in the background."""
        self.limits, self._is_running = None, False
        self._failed.clear()
        self._just_failed.clear()
        give_tokens(are_given=False)
        self._rescue.end()
        self._wait_for_all()

    def before_cell(self, touched: Touched, looked_s: float = 0.0) -> None:
        """Note that a cell begins, so that a signal meanwhile saves what it changed so far.

        Wait while the point in the background needs memory that the cell can touch. An interrupt drops it.

        Args:
            touched: What the cell's code can touch.
            looked_s: The seconds that the look at its code took.
        """
        if self._is_running:  # an interrupt came before the end of the last cell was noted
            self._left, self._last = self._left + UNKNOWN_CELL, {}
        self._is_running, self._running = True, touched
        self._ways = self.timeline.ways
        began = self._clock()
        try:
            self.timeline.make_way(touched)
        except KeyboardInterrupt:
            self.timeline.drop()
        self.settle(0)
        self._waited = self._clock() - began + looked_s

    def ready(self) -> Timeline:
        """Return the timeline for a way, after a point of the cells that have none yet."""
        self._wait_for_all()
        is_first = self._is_running and self.timeline.ways == self._ways
        self.timeline.running = self._running.names if is_first else frozenset()
        if self.limits is not None and self.missed:
            self.timeline.record(self._last, missed=self.missed - 1, named=self._left.names)
            self._left = NO_CELLS
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
            self._left += self._given
        if is_done:
            self._given = NO_CELLS
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

    def _wait_for_all(self) -> None:
        self.wait()
        self._retention.stop(self._patience_s)

    def unseen(self, saved: Manifest) -> tuple[str, ...]:
        """Return the variables that changed without being named, as a save of the present namespace shows.

        No point holds these changes; the next one will.
        """
        touched = self._left.touched | self._running
        if self.limits is None or touched.everything or others_run():
            return ()
        names = self.timeline.unseen(saved, touched.names)
        self._left += Cells(touched=Touched(frozenset(names)))
        return names

    def save_the_rest(self) -> None:
        """Save what no point holds yet, before the process ends."""
        if not (self.settle(_AT_END_S) or self.timeline.drop()):
            raise StoreError("the store did not answer")
        self.settle(0)
        if self._is_running or self.missed:
            self.timeline.rescue({})
            self._is_running, self._left = False, NO_CELLS

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
        self,
        seconds: float,
        touched: Touched,
        origin: Mapping[str, Any],
        *,
        is_command: bool = False,
        looked_s: float = 0.0,
    ) -> None:
        """Begin a point after a cell, unless the budget is used up. The rest is done in the background.

        A cell without a point is undone together with the next one. After an exception the same holds.

        Args:
            seconds: The time that the cell took.
            touched: The variables that its code can have touched.
            origin: The cell and the notebook.
            is_command: Whether the cell is one `%ckpt` command. After a way nothing is left to save.
            looked_s: The seconds that the look at its code and its origin took.
        """
        assert self.limits is not None  # it is on
        self._left += Cells(named=self._named(touched))
        if others_run():
            touched |= Touched(frozenset(), "another thread runs")
        elif is_command and self.timeline.is_way_last:
            self._is_running, self._running = False, _NO_NAMES
            self._rescue.point_is_made()
            return
        self._left += Cells(touched=touched)
        began = self._clock()
        self._spent.add(began, seconds)
        try:
            self.wait()
            self.timeline.note(origin, touched)
            self._last = origin
            if not is_command:
                self._note_failure(origin)
            self._left += ONE_CELL
            self._is_running, self._running = False, _NO_NAMES  # not earlier: an interrupt may come anywhere
            if self._spent.allows(self.limits.budget, self._clock()):
                self._begin_point(self.limits, origin)
        finally:
            self._spent.spend(self._clock() - began + self._waited + looked_s)
            self._waited = 0.0
            self._rescue.point_is_made()

    def _note_failure(self, origin: Mapping[str, Any]) -> None:
        """Note a cell that failed, with the state in which it ran. A point of the cell is another state."""
        cell = origin.get("cell", {})
        if error := cell.get("error"):
            failed = FailedCell(cell.get("count"), str(cell.get("source", "")), error, now())
            self._just_failed.append((self.timeline.last, failed))

    def _named(self, touched: Touched) -> Touched:
        """Return what the code of a cell names, if that tells its changes from others. See decision 0106."""
        is_way = self.timeline.ways != self._ways
        self.timeline.is_way_last = is_way
        if is_way:
            return Touched(touched.names)
        if others_run():  # code does not name the states of libraries
            return touched | Touched(environment.NAMES)
        return Touched(frozenset(), "every change counts as its own")

    def _begin_point(self, limits: Limits, origin: Mapping[str, Any]) -> None:
        left, then = self._left, self._retention.after_next(limits)
        names = None if left.touched.everything else left.touched.names
        self.timeline.begin(origin, names, missed=left.number - 1, named=left.names, then=then)
        self._left, self._given = NO_CELLS, left
