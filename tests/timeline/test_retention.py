"""Retention: old points of a notebook go, and those that another kernel may need stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nbckpt.cells.analysis import touched
from nbckpt.core.gc import collect
from nbckpt.store import MemoryStore
from nbckpt.timeline.auto import Auto
from nbckpt.timeline.points import Points
from nbckpt.timeline.retention import Limits
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker


class Kernel:
    """A kernel without a front end, and so without a notebook's name, whose cells leave points."""

    def __init__(self, store: MemoryStore, limits: Limits) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.auto = Auto(Timeline(Tracker(store), self.names, frozenset), clock=lambda: 0.0)
        self.auto.turn_on(limits, {})

    def run(self, source: str) -> None:
        exec(source, self.names)
        self.auto.after_cell(0.0, touched(source, self.names), {})
        self.auto.settle()

    def ids(self) -> set[str]:
        """Return the ids of this kernel's points that are in the store."""
        timeline = self.auto.timeline
        points = Points(timeline.history).all()
        return {entry.id for entry, point in points if point.kernel == timeline.kernel}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_a_kernel_without_a_notebook_keeps_its_newest_points(store: MemoryStore) -> None:
    kernel = Kernel(store, Limits(keep=3))
    for number in range(9):
        kernel.run(f"a = {number}")
    assert len(kernel.ids()) == 3
    kernel.auto.timeline.undo(2, {})
    assert kernel.names["a"] == 6


def test_two_kernels_of_one_notebook_keep_their_own_points(store: MemoryStore) -> None:
    first, second = Kernel(store, Limits(keep=3)), Kernel(store, Limits(keep=3))
    first.run("a = 1")
    first.run("a = 2")
    for number in range(9):
        second.run(f"a = {number}")
    assert len(first.ids()) == 3
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
    for number in range(4):
        kernel.run(f"a = {number}")
    assert not ended.ids()
    assert len(kernel.ids()) == 3


def test_points_beyond_a_size_go(store: MemoryStore) -> None:
    kernel = Kernel(store, Limits(keep=None, most=300_000))
    for number in range(9):
        kernel.run(f"import random; a = random.Random({number}).randbytes(100_000)")
    assert len(kernel.ids()) == 2
    kernel.auto.timeline.undo(1, {})


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
