"""Budget: cells whose points were left out, because points took too much of the cells' time.

`%ckpt history` marks such cells.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Any

import pytest

from nbckpt.cells.analysis import touched
from nbckpt.commands.table import Session
from nbckpt.commands.traveling import history
from nbckpt.mirror import AutoMirror
from nbckpt.store import MemoryStore
from nbckpt.timeline.auto import Auto
from nbckpt.timeline.points import Points
from nbckpt.timeline.retention import Limits
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker


class Kernel:
    """A kernel in which each point takes 10 s, as its clock says."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.cells = count(1)
        seconds = count(0, 10)
        self.tracker = Tracker(MemoryStore())
        timeline = Timeline(self.tracker, self.names, frozenset)
        self.auto = Auto(timeline, clock=lambda: next(seconds))
        self.auto.turn_on(Limits(), {})

    def run(self, *sources: str) -> None:
        for source in sources:
            exec(source, self.names)
            origin = {"cell": {"count": next(self.cells), "source": source}}
            self.auto.after_cell(0.0, touched(source, self.names), origin)

    def marks(self) -> list[tuple[str, int]]:
        """Return the source and the number of other cells of each point but the first, newest first."""
        self.auto.settle()
        return [(point.source, point.missed) for _, point in Points(self.auto.timeline.history).all()][:-1]

    def history(self) -> list[str]:
        """Return the rows of `%ckpt history` as text, newest first."""
        self.auto.ready()
        mirror = AutoMirror(self.tracker.store, in_background=False)
        shown = str(history(Session(self.tracker, mirror, self.names, points=self.auto)))
        return [line for line in shown.splitlines() if line[:1] in {"●", "○"}]


@pytest.fixture
def kernel() -> Kernel:
    kernel = Kernel()
    kernel.run("a = 1", "b = 2", "c = 3")
    assert kernel.marks() == [("a = 1", 0)]
    return kernel


def test_cells_without_a_point_are_undone_together(kernel: Kernel) -> None:
    assert kernel.auto.ready().undo(1, {}).missed == 1
    assert [name for name in kernel.names if len(name) == 1] == ["a"]
    assert kernel.marks() == [("c = 3", 1), ("a = 1", 0)]
    kernel.auto.ready().redo(1, {})
    assert (kernel.names["b"], kernel.names["c"]) == (2, 3)


def test_a_checkout_marks_the_cells_whose_points_were_left_out(kernel: Kernel) -> None:
    timeline = kernel.auto.ready()
    first = Points(timeline.history).all()[-1][0]
    timeline.checkout(first.id, {})
    assert kernel.marks() == [("c = 3", 1), ("a = 1", 0)]
    assert kernel.auto.missed == 0


def test_a_removal_is_undone_first_while_cells_have_no_point(kernel: Kernel) -> None:
    """Nobody knows when those cells changed something, so the removal counts as newer."""
    removed_at = "1970-01-01"
    assert not kernel.auto.since(removed_at)
    kernel.auto.ready()
    assert kernel.auto.since(removed_at)


def test_fewer_points_than_cells_are_said_once(kernel: Kernel) -> None:
    assert "so there are fewer" in kernel.auto.news()
    kernel.run("d = 4")
    assert kernel.auto.news() == ""


def test_history_marks_the_cells_without_a_point(kernel: Kernel) -> None:
    kernel.run("d = 4")
    newest, first, start = kernel.history()
    assert "[4] and 2 cells before" in newest
    assert "[1]" in first
    assert "before" not in first + start


def test_history_shows_size_and_time_of_each_point(kernel: Kernel) -> None:
    kernel.run("d = bytes(8_000_000)")
    rows = kernel.history()
    ends = [re.search(r"  ([\d.]+) (\w+) +[\d.]+ \w+  (just now|\d+ \w+ ago)$", row) for row in rows]
    assert len(ends) == 3
    assert all(ends)
    newest = ends[0]
    assert newest is not None
    assert float(newest[1]) == pytest.approx(8, abs=0.5)  # the states of libraries take some kB, too
    assert newest[2] == "MB"


class Timed:
    """A kernel whose clock the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.names: dict[str, Any] = {"__name__": "__main__", "a": 0}
        self.auto = Auto(Timeline(Tracker(MemoryStore()), self.names, frozenset), clock=lambda: self.now)
        self.auto.turn_on(Limits(), {})

    def run(self, now: float, cell_s: float, point_s: float = 0.0) -> bool:
        """Run a cell whose point takes that time if there is room for one. Return whether it has a point."""
        self.now = now
        self.names["a"] += 1
        self.auto.after_cell(cell_s, touched("a = 1", self.names), {}, looked_s=point_s)
        return not self.auto.missed


@pytest.mark.parametrize(("point_s", "has_room"), [(0.25, True), (0.3, False)])
def test_points_take_a_twentieth_of_the_cells_time(point_s: float, has_room: bool) -> None:
    kernel = Timed()
    assert kernel.run(10, 10.0, point_s)
    assert kernel.run(10, 0.0) == has_room  # a second point of this length makes 0.5 s, or 0.6 s, of 10 s


def test_the_budget_counts_the_last_minute_only() -> None:
    kernel = Timed()
    assert kernel.run(0, 10.0)
    assert kernel.run(30, 0.0, 0.2)
    assert kernel.run(59, 0.0)
    assert not kernel.run(61, 0.0)  # the long cell allows no more points
    assert not kernel.run(89, 0.0)
    assert kernel.run(91, 0.0)  # the long point prevents none any more


class Slow(Timeline):
    """A timeline whose points take 25 ms, as its own clock says."""

    now = 0.0

    def begin(self, *given: Any, **named: Any) -> None:
        super().begin(*given, **named)
        self.now += 0.025


def test_a_point_waits_until_the_budget_has_room_for_it() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    timeline = Slow(Tracker(MemoryStore()), names, frozenset)
    auto = Auto(timeline, clock=lambda: timeline.now)
    auto.turn_on(Limits(), {})
    for number in range(40):
        names["a"] = number
        auto.after_cell(0.0, touched("a = 1", names), {})
        assert timeline.now <= max(0.025, 0.02 * (number + 1))  # each cell allows 20 ms
    assert timeline.now > 0.77


@pytest.mark.parametrize(("before_s", "after_s"), [(0.03, 0.0), (0.0, 0.03)])
def test_the_time_of_looking_at_the_cell_counts_too(before_s: float, after_s: float) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    auto = Auto(Timeline(Tracker(MemoryStore()), names, frozenset), clock=lambda: 0.0)
    auto.turn_on(Limits(), {})
    for number in range(3):
        names["a"] = number
        auto.before_cell(touched("a = 1", names), before_s)
        auto.after_cell(0.0, touched("a = 1", names), {}, looked_s=after_s)
    assert auto.missed == 2
