"""Points on their way into the store: what a next cell, a failure, a fork or an end of the process meets."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from nbckpt.cells.analysis import Touched
from nbckpt.core import trash
from nbckpt.core.packs import later
from nbckpt.timeline import recorder
from nbckpt.timeline.auto import Auto
from nbckpt.timeline.pending import Pending
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker
from timeline.gates import Gated


class Kernel:
    """A namespace whose points are written in the background."""

    def __init__(self, patience_s: float = 60) -> None:
        self.store = Gated(put="")
        self.names: dict[str, Any] = {"__name__": "__main__", "np": np}
        self.timeline = Timeline(
            Tracker(self.store), self.names, lambda: frozenset({"np"}), patience_s=patience_s
        )
        self.run("a = np.zeros(100_000); b = [1]")
        self.timeline.settle()
        self.store.gate.clear()

    def run(self, source: str) -> None:
        exec(source, self.names)
        self.timeline.begin({})

    def undone(self) -> list[int]:
        """Return the list after an undo of the last cell."""
        self.timeline.undo(1, {})
        undone: list[int] = self.names["b"]
        return undone

    def opened(self) -> Timeline:
        self.store.gate.set()
        self.timeline.settle()
        return self.timeline

    def points(self) -> int:
        return len(self.timeline.history.entries("points"))


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.opened()


def test_a_cell_begins_while_its_former_point_is_written(kernel: Kernel) -> None:
    kernel.run("a[0] = 1")
    kernel.timeline.make_way(Touched(frozenset({"a"})))
    kernel.names["a"][0] = 2
    assert not kernel.timeline.settle(0)
    kernel.opened().record({})
    kernel.timeline.undo(1, {})
    assert kernel.names["a"][0] == 1


def test_a_cell_that_may_write_to_lent_memory_waits(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later, "MOST_COPIED", 0)
    kernel.run("a[0] = 1; b = 3")
    way = threading.Thread(target=kernel.timeline.make_way, args=[Touched(frozenset({"a"}))])
    way.start()
    kernel.timeline.make_way(Touched(frozenset({"c"})))  # another cell does not
    assert way.is_alive()
    kernel.store.gate.set()
    way.join(60)
    assert kernel.timeline.settle(0)


@pytest.mark.parametrize(
    ("names", "everything", "most_copied", "waits"),
    [
        ("c", None, 0, [0.02]),
        ("a", None, 0, [None]),
        ("", "it may change everything", 0, [None]),
        ("a", None, 64 << 20, []),  # the point has copies
    ],
)
def test_only_a_cell_that_may_change_lent_memory_waits_long(
    kernel: Kernel, names: str, everything: str | None, most_copied: int, waits: list[float | None]
) -> None:
    waited: list[float | None] = []
    with patch.object(later, "MOST_COPIED", most_copied):
        kernel.run("a[0] = 1; b = 3")
    with patch.object(Pending, "wait", lambda _, seconds=None: bool(waited.append(seconds))):
        kernel.timeline.make_way(Touched(frozenset(names), everything))
    assert waited == waits


def test_one_point_copies_at_most_64_mib(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[int] = []
    monkeypatch.setattr(later.Later, "copy", lambda _, part: copies.append(len(part)) or part)
    kernel.opened()
    kernel.run("del a; c = np.zeros(40 << 20, np.uint8); d = np.zeros(40 << 20, np.uint8)")
    assert sum(copies) == 40 << 20
    assert kernel.timeline.pending is not None
    assert kernel.timeline.pending.lends


@pytest.mark.parametrize("lends", [False, True])
def test_without_the_record_a_point_that_lends_copies_nothing(
    kernel: Kernel, lends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBCKPT_PAGE_RECORD", "0")
    monkeypatch.setattr(recorder, "MOST_COPIED", 1 << 20 if lends else 64 << 20)
    copies: list[int] = []
    copy = later.Later.copy
    monkeypatch.setattr(later.Later, "copy", lambda self, part: copies.append(len(part)) or copy(self, part))
    kernel.opened()
    kernel.run("a = np.zeros(1_000_000)")
    kernel.timeline.settle()
    copies.clear()
    kernel.run("b = [2]")
    assert kernel.timeline.pending is not None
    assert kernel.timeline.pending.lends == lends
    assert (not copies) == lends


def test_no_object_is_kept_alive_or_locked_by_the_writer(kernel: Kernel) -> None:
    import weakref

    kernel.run("class C: pass\no = C(); text = bytearray(100_000)")
    link = weakref.ref(kernel.names.pop("o"))
    kernel.names["text"].extend(b"more")  # fails while anything has a view of it
    assert link() is None
    assert not kernel.timeline.settle(0)


def test_a_failed_point_leaves_its_changes_to_the_next(kernel: Kernel) -> None:
    before = kernel.timeline.here
    kernel.store.left = 0
    kernel.run("b.append(2)")
    assert "no space" in str(kernel.opened().trouble)
    assert kernel.timeline.here is before
    kernel.store.left = math.inf
    kernel.timeline.begin({}, frozenset())  # a cell that touches nothing
    kernel.timeline.settle()
    assert kernel.timeline.trouble is None
    assert kernel.undone() == [1]


def test_a_dropped_point_is_never_shown(kernel: Kernel) -> None:
    had = kernel.points()
    kernel.run("b.append(2); a[0] = 1")  # its pack waits at the gate, so it is not shown yet
    pending = kernel.timeline.pending
    assert pending is not None
    kernel.timeline.drop()
    assert kernel.timeline.trouble is not None
    kernel.store.gate.set()
    pending.wait()
    assert kernel.points() == had
    kernel.timeline.record({})
    assert kernel.undone() == [1]


def test_gc_during_the_writing_is_made_good(kernel: Kernel) -> None:
    from nbckpt.core.gc import collect

    kernel.run("b.append(2)")
    kernel.store.gate.set()
    history = Tracker(kernel.store).history
    kernel.timeline.settle()
    for entry in history.entries("points"):
        trash.discard(history, entry)
    collect(history, wait=lambda _: None)
    kernel.store.gate.clear()
    kernel.run("c = 3")
    kernel.opened()
    kernel.run("d = 4")
    kernel.opened()
    kernel.names["a"][:] = 7
    kernel.timeline.undo(1, {})
    assert kernel.names["a"][5] == 0


def test_undo_waits_for_the_point_of_the_cell_before(kernel: Kernel) -> None:
    kernel.run("b.append(2)")
    threading.Timer(0.01, kernel.store.gate.set).start()
    assert kernel.undone() == [1]


def test_a_store_that_does_not_answer_holds_nobody_up() -> None:
    kernel = Kernel(patience_s=0.01)
    points = Auto(kernel.timeline, patience_s=0.01)
    kernel.run("b.append(2)")  # its manifest waits at the gate, when it can no longer be taken back
    pending = kernel.timeline.pending
    assert pending is not None
    assert kernel.store.waits.wait(60)
    points.turn_off()
    assert "does not answer" in points.trouble()
    assert kernel.timeline.settle(0)
    kernel.store.gate.set()
    pending.wait()
    kernel.timeline.record({})
    assert kernel.undone() == [1]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_fork_does_not_wait_for_a_thread_that_it_lacks(kernel: Kernel) -> None:
    kernel.run("b.append(2)")
    child = os.fork()
    if not child:
        is_done = kernel.timeline.settle(0)
        os._exit(0 if is_done and kernel.timeline.trouble else 1)
    assert os.waitpid(child, 0)[1] == 0
    kernel.opened()
    assert kernel.timeline.trouble is None
