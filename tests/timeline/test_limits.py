"""Limits: which cells get no point, as it would take too long, and which old points of a notebook go."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nbckpt.cells.analysis import touched
from nbckpt.commands.table import Session
from nbckpt.commands.traveling import history
from nbckpt.core.gc import collect
from nbckpt.mirror import AutoMirror
from nbckpt.store import LocalStore, MemoryStore
from nbckpt.timeline.auto import Auto
from nbckpt.timeline.points import Points
from nbckpt.timeline.retention import Limits
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker
from timeline.gates import Gated
from timeline.graph import graph


class Kernel:
    """A kernel without a front end, and so without a notebook's name, whose cells leave points."""

    def __init__(self, store: MemoryStore, limits: Limits) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.auto = Auto(Timeline(Tracker(store), self.names, frozenset), clock=lambda: 0.0)
        self.auto.turn_on(limits, {})

    def run(self, *sources: str) -> None:
        for source in sources:
            self.begin(source)
            join()

    def begin(self, source: str) -> None:
        """Run a cell, and wait until its point is there. Points may be removed afterwards."""
        exec(source, self.names)
        self.auto.after_cell(0.0, touched(source, self.names), {})
        assert self.auto.settle(60)

    def here(self) -> str:
        assert self.auto.timeline.here is not None
        return self.auto.timeline.here.manifest.id

    def ids(self) -> set[str]:
        """Return the ids of this kernel's points that are in the store."""
        timeline = self.auto.timeline
        points = Points(timeline.history).all()
        return {entry.id for entry, point in points if point.kernel == timeline.kernel}


def join() -> None:
    """Wait until nothing is removed any more."""
    for thread in threading.enumerate():
        if thread.name == "nbckpt-point":
            thread.join(60)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def slow() -> Iterator[Gated]:
    """A store that removes no point while its gate is shut."""
    slow = Gated(delete="points/")
    yield slow
    slow.gate.set()
    join()


def test_two_kernels_of_one_notebook_keep_their_own_points(store: MemoryStore) -> None:
    first, second = Kernel(store, Limits(keep=3)), Kernel(store, Limits(keep=3))
    first.run("a = 1", "a = 2")
    second.run(*(f"a = {number}" for number in range(9)))
    assert (len(first.ids()), len(second.ids())) == (3, 3)
    first.auto.timeline.undo(2, {})
    assert "a" not in first.names
    first.auto.timeline.redo(2, {})
    assert first.names["a"] == 2
    second.auto.timeline.undo(2, {})
    assert second.names["a"] == 6


def test_points_of_a_kernel_that_ended_go_after_a_day(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(UTC) + timedelta(hours=25)

    ended = Kernel(store, Limits(keep=3))
    ended.run("a = 1")
    monkeypatch.setattr("nbckpt.timeline.retention.datetime", Tomorrow)
    kernel = Kernel(store, Limits(keep=3))
    kernel.run(*(f"a = {number}" for number in range(4)))
    assert not ended.ids()
    assert len(kernel.ids()) == 3


def test_points_beyond_a_size_go(store: MemoryStore) -> None:
    kernel = Kernel(store, Limits(keep=None, most=300_000))
    kernel.run(*(f"import random; a = random.Random({number}).randbytes(100_000)" for number in range(9)))
    assert len(kernel.ids()) == 2
    kernel.auto.timeline.undo(1, {})


def test_points_are_listed_only_when_some_may_have_to_go(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list takes the longer, the more points there are, and a next cell waits for it."""
    lists: list[int] = []
    every = Points.all
    monkeypatch.setattr(Points, "all", lambda self: lists.append(1) or every(self))
    kernel = Kernel(store, Limits(keep=60, most=1 << 30))
    for number in range(58):
        kernel.run(f"a = {number}")
    assert (len(lists), len(kernel.ids())) == (1, 59)
    kernel.run(*(f"b = {number}" for number in range(4)))
    assert len(kernel.ids()) == 60


@pytest.mark.usefixtures("gc_at_once")
def test_gc_of_another_kernel_leaves_the_steps_to_undo(store: MemoryStore) -> None:
    kernel = Kernel(store, Limits(keep=3))
    for number in range(9):
        kernel.run(f"import random; a = random.Random({number}).randbytes(100_000)")
        collect(Tracker(store).history)
    values = [kernel.names["a"]]
    for _ in range(2):
        kernel.auto.timeline.undo(1, {})
        values.append(kernel.names["a"])
    assert len(set(values)) == 3
    kernel.auto.timeline.redo(2, {})
    assert kernel.names["a"] == values[0]


def test_a_point_that_another_kernel_removed_does_no_harm(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(store, Limits(keep=2))
    kernel.run("a = 1")
    points, gone = Points.all, {*kernel.ids()}

    def and_remove(self: Points) -> Any:
        present = points(self)
        for key in [key for key in store.keys("points/") if any(id_ in key for id_ in gone)]:
            store.delete(key)
        return present

    monkeypatch.setattr(Points, "all", and_remove)
    kernel.run("a = 2")
    assert kernel.auto.missed == 0


def test_no_cell_waits_for_the_removal_of_points(slow: Gated) -> None:
    kernel = Kernel(slow, Limits(keep=2))
    slow.shut()
    for number in range(6):
        kernel.begin(f"a = {number}")
    assert kernel.auto.missed == 0
    Tracker(slow).save(kernel.names, "best")
    slow.gate.set()
    join()
    assert len(kernel.ids()) == 2
    kernel.auto.ready().undo(1, {})
    assert kernel.names["a"] == 4
    Tracker(slow).restore("best", kernel.names)
    assert kernel.names["a"] == 5


def test_undo_goes_to_a_point_that_was_to_be_removed(slow: Gated) -> None:
    kernel = Kernel(slow, Limits(keep=None))
    kernel.run(*(f"a = {number}" for number in range(4)))
    kernel.auto.turn_on(Limits(keep=2), {})
    slow.shut()
    kernel.begin("a = 4")
    assert slow.waits.wait(60)
    threading.Timer(0.01, slow.gate.set).start()
    kernel.auto.ready().undo(3, {})
    join()
    assert kernel.names["a"] == 1
    assert kernel.here() in kernel.ids()
    kernel.auto.ready().redo(3, {})
    assert kernel.names["a"] == 4
    kernel.run("b = 1")
    assert len(kernel.ids()) == 2


def test_a_point_made_during_the_removal_stays(slow: Gated) -> None:
    kernel = Kernel(slow, Limits(keep=None, most=1))
    slow.acts["keys"] = "points/"
    slow.shut()
    kernel.begin("a = 1")
    assert slow.waits.wait(60)
    kernel.begin("import random; a = random.Random(1).randbytes(100_000)")
    slow.gate.set()
    join()
    assert kernel.here() in kernel.ids()


def test_a_point_that_could_not_be_removed_goes_after_the_next(slow: Gated) -> None:
    kernel = Kernel(slow, Limits(keep=2))
    slow.left = 0
    kernel.run(*(f"a = {number}" for number in range(4)))
    assert len(kernel.ids()) == 5
    slow.left = math.inf
    kernel.run("b = 1")
    assert len(kernel.ids()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_fork_does_not_wait_for_a_removal(slow: Gated) -> None:
    kernel = Kernel(slow, Limits(keep=1))
    slow.shut()
    kernel.begin("a = 1")
    kernel.begin("a = 2")
    assert slow.waits.wait(60)
    child = os.fork()
    if not child:
        kernel.auto.turn_off()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


OTHER = """
import itertools
from pathlib import Path
from nbckpt.cli import main

for number in itertools.count(1):
    for line in (["push", "elsewhere"], ["gc"]):
        if status := main(line):
            raise SystemExit(status)
    Path(f"round-{number}").touch()
    if Path("end").exists():
        break
"""
ROUNDS = 3
CELLS = (
    "arrays[{0} % 5] = np.random.default_rng({0}).integers(0, 256, 30_000, dtype=np.uint8)",
    "view = arrays[{0} % 5][{0} % 7 :]; both = [view, arrays]",
    "view[{0} % 99] ^= 1",
    "text = str({0}) * 2000; small = {{'n': {0}, 'view': view}}",
)


@contextmanager
def ended(folder: Path) -> Iterator[None]:
    """Tell the other process to end, also after a failure: the test waits for it."""
    try:
        yield
    finally:
        (folder / "end").touch()


@pytest.mark.slow
def test_points_are_whole_beside_a_push_and_gc_elsewhere(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / ".nbckpt")
    kernel, copies, saved, number = Kernel(store, Limits(keep=12)), dict[str, Any](), dict[str, Any](), 0
    kernel.run("import numpy as np; arrays = [np.zeros(9, np.uint8)] * 5; view = arrays[0]")
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NBCKPT_STORE": ".nbckpt"}
    with subprocess.Popen([sys.executable, "-c", OTHER], cwd=tmp_path, env=env) as other, ended(tmp_path):
        while not (tmp_path / f"round-{ROUNDS}").exists():
            assert other.poll() is None
            kernel.begin(CELLS[number % len(CELLS)].format(number))
            assert not kernel.auto.trouble()
            copies.setdefault(kernel.here(), graph(kernel.names))
            number += 1
            if number % 10 == 0:
                names = {name: value for name, value in kernel.names.items() if name[0] != "_"}
                saved[Tracker(store).save(names, "best").manifest.id] = graph(names)
    assert other.returncode == 0
    join()
    points = kernel.ids()
    assert len(points) == 12
    for point in points:
        kernel.auto.ready().checkout(point, {})
        assert graph(kernel.names) == copies[point]
    assert_whole(LocalStore(tmp_path / "elsewhere"), saved)


def assert_whole(pushed: LocalStore, saved: dict[str, Any]) -> None:
    """Check all checkpoints that were pushed."""
    tracker = Tracker(pushed)
    assert tracker.verify().damages == []
    entries = tracker.entries()
    assert entries
    for entry in entries:
        names: dict[str, Any] = {}
        tracker.restore(entry.id, names)
        assert graph(names) == saved[entry.id]


class TenSeconds:
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
def kernel() -> TenSeconds:
    kernel = TenSeconds()
    kernel.run("a = 1", "b = 2", "c = 3")
    assert kernel.marks() == [("a = 1", 0)]
    return kernel


def test_cells_without_a_point_are_undone_together(kernel: TenSeconds) -> None:
    assert kernel.auto.ready().undo(1, {}).missed == 1
    assert [name for name in kernel.names if len(name) == 1] == ["a"]
    assert kernel.marks() == [("c = 3", 1), ("a = 1", 0)]
    kernel.auto.ready().redo(1, {})
    assert (kernel.names["b"], kernel.names["c"]) == (2, 3)


def test_a_checkout_marks_the_cells_whose_points_were_left_out(kernel: TenSeconds) -> None:
    timeline = kernel.auto.ready()
    first = Points(timeline.history).all()[-1][0]
    timeline.checkout(first.id, {})
    assert kernel.marks() == [("c = 3", 1), ("a = 1", 0)]
    assert kernel.auto.missed == 0


def test_a_removal_is_undone_first_while_cells_have_no_point(kernel: TenSeconds) -> None:
    """Nobody knows when those cells changed something, so the removal counts as newer."""
    removed_at = "1970-01-01"
    assert not kernel.auto.since(removed_at)
    kernel.auto.ready()
    assert kernel.auto.since(removed_at)


def test_fewer_points_than_cells_are_said_once(kernel: TenSeconds) -> None:
    assert "so there are fewer" in kernel.auto.news()
    kernel.run("d = 4")
    assert kernel.auto.news() == ""


def test_history_marks_the_cells_without_a_point(kernel: TenSeconds) -> None:
    kernel.run("d = 4")
    newest, first, start = kernel.history()
    assert "[4] and 2 cells before" in newest
    assert "[1]" in first
    assert "before" not in first + start


def test_history_shows_size_and_time_of_each_point(kernel: TenSeconds) -> None:
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


class SlowTimeline(Timeline):
    """A timeline whose points take 25 ms, as its own clock says."""

    now = 0.0

    def begin(self, *given: Any, **named: Any) -> None:
        super().begin(*given, **named)
        self.now += 0.025


def test_a_point_waits_until_the_budget_has_room_for_it() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    timeline = SlowTimeline(Tracker(MemoryStore()), names, frozenset)
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
