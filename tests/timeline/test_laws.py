"""Laws of the timeline: whatever cells do, every point can be reached again, values and sharing both."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from nbckpt.cells.analysis import touched
from nbckpt.core.manifest import Manifest
from nbckpt.core.packs import later
from nbckpt.errors import UsageError
from nbckpt.store import MemoryStore
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker
from timeline.gates import Gated
from timeline.graph import graph

_NAMES = st.sampled_from("abcdef")
_NUMBERS = st.integers(0, 3)
_CELLS = {
    "list": "{x} = [{n}]",
    "dict": "{x} = {{'k': {n}}}",
    "array": "{x} = np.arange({n} + 4.0)",
    "large array": "{x} = np.arange({n} + 10_000.0)",
    "array of pages": "{x} = np.arange({n} + 140_000.0)",  # large enough for Linux's record of written pages
    "write at its end": "{x}[-1 - {n}] = {n}",
    "frame over an array": "{x} = pd.DataFrame({y}, copy=False)",
    "frame and its array": "{y} = np.zeros(({n} + 2_000, 2))\n"
    "{x} = pd.DataFrame({y}, columns=['p', 'q'], copy=False)",
    "column of an array": "{x} = np.full(({n} + 9_000, 2), 5.0)[:, 0]",
    "number": "{x} = {n}",
    "text": "{x} = 'text' * {n}",
    "alias": "{x} = {y}",
    "tuple of two": "{x} = ({y}, {z})",
    "holder": "{x} = {{'part': {y}, 'other': [{z}]}}",
    "append": "{x}.append({n})",
    "append a variable": "{x}.append({y})",
    "put": "{x}['k'] = {y}",
    "write": "{x}[{n}] = {n}",
    "write inside": "{x}['part'][0] = {n}",
    "view": "{x} = {y}[1:3]",
    "view of all": "{x} = {y}.reshape(-1)[::-1]",
    "delete": "del {x}",
    "delete an item": "del {x}[0]",
    "swap": "{x}, {y} = {y}, {x}",
    "function that writes": "def {x}():\n    global {y}\n    {y} = [{n}]",
    "function that changes": "def {x}():\n    {y}.append({n})",
    "function with defaults": "{y} = [{n}]\ndef {x}(part={y}, *, more=[{n}]):\n    part.append({n})",
    "default": "{x}.__defaults__ = ({y},)",
    "closure": "def make(part):\n    return lambda: part\n{x} = make({y})\ndel make",
    "call": "{x}()",
    "class": "class {x}:\n    size = {n}\n    def grow(self):\n        self.parts.append({n})",
    "class that shares": "{y} = [{n}]\nclass {x}:\n    size = {y}\n    parts = []",
    "part of a class": "{x}.parts.append({n})",
    "instance": "{y} = {x}()\n{y}.parts = []",
    "method": "{x}.grow()",
    "attribute": "{x}.size = {y}",
    "frame": "{x} = pd.DataFrame({{'p': [{n}, 2.0], 'q': ['r', 's']}})",
    "column": "{x}['new'] = {n}",
    "cell of a frame": "{x}.loc[0, 'p'] = {n}",
    "dtype of a column": "{x}['p'] = {x}['p'].astype('float32')",
    "name of a column": "{x}.columns = [{n}, *{x}.columns[1:]]",
    "objects of a frame": "{x}['new'] = [{y}] * len({x})",
    "set": "{x} = {{{n}, 9}}",
    "add": "{x}.add({n})",
    "failing": "{x} = [{n}]\n{x}[99]",
    "lock": "{x} = __import__('threading').Lock()",
    "generator": "{x} = (part for part in [{n}])",
    "by globals": "globals()['{x}'] = {n}",
    "random": "{x} = float(np.random.rand())",
}
_OFTEN = ["generator"] * 8 + ["frame and its array", "function with defaults", "class that shares"] * 2
_ANY_CELL = st.sampled_from([*sorted(_CELLS), *_OFTEN])
"""No point can hold a generator. It comes often, so that many ways meet one."""


class Cells(RuleBasedStateMachine):
    """Runs cells, makes a point after each, and goes back to any of them."""

    @initialize()
    def start(self) -> None:
        self.begin_with(MemoryStore())

    def begin_with(self, store: MemoryStore) -> None:
        self.namespace: dict[str, Any] = {"__name__": "__main__", "np": np, "pd": pd}
        self.timeline = Timeline(Tracker(store), self.namespace, lambda: frozenset({"np", "pd"}))
        self.then: dict[str, Any] = {}
        self.unheld: dict[str, set[str]] = {}
        self.trail: list[str] = []  # the points that undo goes back to, in their order
        self.timeline.record({})
        self.remember()

    def remember(self) -> None:
        assert self.timeline.here is not None
        manifest = self.timeline.here.manifest
        self.follow()
        if manifest.id not in self.then:
            self.unheld[manifest.id] = {skipped.name for skipped in manifest.skipped}
            self.then[manifest.id] = self.held(manifest.id)
        assert self.held(manifest.id) == self.then[manifest.id]
        assert self.timeline.record({}) is None, "nothing has changed since"

    def follow(self) -> None:
        """Note where undo goes back to from here."""
        assert self.timeline.here is not None
        here = self.timeline.here.manifest.id
        if self.trail[-1:] != [here]:
            self.trail.append(here)

    def held(self, point: str) -> dict[str, Any]:
        """The variables that a point can hold."""
        return self.without(self.unheld[point])

    def without(self, names: set[str]) -> dict[str, Any]:
        return graph({name: value for name, value in self.namespace.items() if name not in names})

    @rule(cell=_ANY_CELL, x=_NAMES, y=_NAMES, z=_NAMES, n=_NUMBERS)
    def run(self, cell: str, x: str, y: str, z: str, n: int) -> None:
        source = _CELLS[cell].format(x=x, y=y, z=z, n=n)
        before = touched(source, self.namespace)
        with suppress(Exception):  # a cell may fail in any way; its changes are a point too
            exec(source, self.namespace)
        both = before | touched(source, self.namespace)
        self.timeline.record({}, None if both.everything else both.names)
        self.remember()

    @precondition(lambda self: len(self.then) > 1)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        point = [*self.then][data.draw(st.integers(0, len(self.then) - 1))]
        self.leave_alive(point)
        self.timeline.checkout(point, {})
        self.remember()
        assert self.timeline.here is not None
        assert self.timeline.here.manifest.id == point

    def leave_alive(self, point: str) -> None:
        """Hold that a checkout, and a redo of it, leave alive what no point can hold. Then delete that."""
        live = self.timeline.recipes.live.keys() - self.unheld[point]
        alive = {name: self.namespace[name] for name in sorted(live)}
        if not alive:
            return
        assert self.timeline.checkout(point, {}).alive == (*alive,)
        self.namespace["later"] = 1
        self.timeline.record({})
        self.timeline.undo(2, {})
        for _ in range(2):
            self.timeline.redo(1, {})
            assert all(self.namespace[name] is value for name, value in alive.items())
        assert self.namespace["later"] == 1
        self.timeline.undo(2, {})
        self.remember()
        for name in alive:
            del self.namespace[name]
        self.timeline.record({})
        self.remember()

    @rule(steps=st.integers(1, 3))
    def back_and_forth(self, steps: int) -> None:
        if steps >= len(self.trail):
            with pytest.raises(UsageError, match="nothing to undo"):
                self.timeline.undo(steps, {})
            return
        before, self.trail = self.trail, self.trail[:-steps]
        self.timeline.undo(steps, {})
        self.remember()
        assert self.trail == before[:-steps]
        self.timeline.redo(steps, {})
        self.trail = before
        self.remember()
        assert self.trail == before


class CellsBesideTheWriter(Cells):
    """Runs each cell while the point of the cell before is still on its way into the store."""

    @initialize(lends=st.booleans())
    def start(self, lends: bool = False) -> None:
        self.store = Gated(put="")
        self.lends = lends
        self.was: tuple[set[str], dict[str, Any], dict[str, Any], Manifest] | None = None
        self.begin_with(self.store)

    def teardown(self) -> None:
        self.settle()

    def settle(self) -> None:
        """End the point that is on its way, and note what it must hold."""
        self.store.gate.set()
        assert self.timeline.settle()  # a cell may have waited for it already
        self.store.left = math.inf
        self.follow()
        if self.was is None:
            return
        assert self.timeline.here is not None
        manifest = self.timeline.here.manifest
        unheld, state, unchanged, former = self.was
        self.was = None
        if manifest is former:  # no new point, or it failed
            assert self.timeline.trouble or unchanged == self.then.get(manifest.id, unchanged)
            return
        assert unheld == {skipped.name for skipped in manifest.skipped}
        if manifest.id not in self.then:
            self.unheld[manifest.id], self.then[manifest.id] = unheld, state
        assert self.then[manifest.id] == state

    @rule(
        cell=_ANY_CELL,
        x=_NAMES,
        y=_NAMES,
        z=_NAMES,
        n=_NUMBERS,
        puts=st.sampled_from([0, 1, 2, math.inf, math.inf]),
    )
    def run(self, cell: str, x: str, y: str, z: str, n: int, puts: float = math.inf) -> None:
        source = _CELLS[cell].format(x=x, y=y, z=z, n=n)
        before = touched(source, self.namespace)
        self.timeline.make_way(before)
        with suppress(Exception):
            exec(source, self.namespace)
        both = before | touched(source, self.namespace)
        self.settle()
        self.store.left = puts
        if not self.lends:
            self.store.gate.clear()
        with patch.object(later, "MOST_COPIED", 0 if self.lends else 64 << 20):
            self.timeline.begin({}, None if both.everything else both.names)
        if (pending := self.timeline.pending) is not None:
            unheld = {skipped.name for skipped in pending.step.captured.skipped}
            assert self.timeline.here is not None
            here = self.timeline.here.manifest
            former = {skipped.name for skipped in here.skipped}
            unheld |= former - pending.step.looked_at
            unheld &= self.namespace.keys()
            self.was = unheld, self.without(unheld), self.without(former), here

    @precondition(lambda self: len(self.then) > 1)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        self.settle()
        self.timeline.record({})
        self.follow()
        super().go(data)

    @rule(steps=st.integers(1, 3))
    def back_and_forth(self, steps: int) -> None:
        self.settle()
        self.timeline.record({})
        self.remember()
        super().back_and_forth(steps)


class CellsWithoutTheRecord(Cells):
    """The same where Linux's record of written pages is off, as on other systems and in most containers."""

    def __init__(self) -> None:
        super().__init__()
        self.record_off = patch.dict(os.environ, {"NBCKPT_PAGE_RECORD": "0"})
        self.record_off.start()

    def teardown(self) -> None:
        self.record_off.stop()


class FewCells(Cells):
    """The same in a second."""


class FewCellsBesideTheWriter(CellsBesideTheWriter):
    """The same in seconds."""


LAW = settings(max_examples=60, stateful_step_count=25, phases=[Phase.generate])
Cells.TestCase.settings = CellsBesideTheWriter.TestCase.settings = LAW
CellsWithoutTheRecord.TestCase.settings = settings(LAW, max_examples=20)
FewCells.TestCase.settings = FewCellsBesideTheWriter.TestCase.settings = settings(LAW, max_examples=3)
TestCells = pytest.mark.slow(Cells.TestCase)
TestCellsWithoutTheRecord = pytest.mark.slow(CellsWithoutTheRecord.TestCase)
TestFewCells = FewCells.TestCase
TestCellsBesideTheWriter = pytest.mark.slow(CellsBesideTheWriter.TestCase)
TestFewCellsBesideTheWriter = FewCellsBesideTheWriter.TestCase


LONG = 1500

COLUMN = "f = pd.DataFrame(np.zeros((3, 2))); v = f[1].array._ndarray"
FRAME, WIDE = f"f = pd.DataFrame({{'p': np.zeros({LONG})}})", f"f = pd.DataFrame([[0] * {LONG}])"

DIFFERENCES = {
    "attribute of a class": ("class C:\n    size = §", "1", "2"),
    "list of a class": ("class C:\n    parts = [§]", "1", "2"),
    "class shares": ("a = [1]\nclass C:\n    parts = §", "a", "[*a]"),
    "method": ("class C:\n    def f(self): return §", "1", "2"),
    "class of an instance": ("class C:\n    n = §\no = C()\ndel C", "1", "2"),
    "default": ("def f(part=§): pass", "1", "2"),
    "default by name": ("def f(*, part=§): pass", "1", "2"),
    "default shares": ("a = [1]\ndef f(part=§): pass", "a", "[1]"),
    "cell of a closure": ("f = (lambda a: lambda: a)(§)", "1", "2"),
    "variable of a function": ("def f(): §.append(1)", "a", "b"),
    "dtype": ("f = pd.DataFrame({'p': [1, 2]}, dtype=§)", "None", "'int32'"),
    "dtype of a series": ("f = pd.Series([1, 2], dtype=§)", "None", "'int32'"),
    "dtype of a long frame": (f"{FRAME}.astype(§)", "'float64'", "'float32'"),
    "column of a long frame": (f"{FRAME}; f.columns = [§]", "'p'", "'q'"),
    "value in a long frame": (f"{FRAME}; f.loc[1400, 'p'] = §", "0", "1"),
    "wide frame": (f"{WIDE}; f.loc[0, 1400] = §", "0", "1"),
    "index": ("f = pd.DataFrame({'p': [1]}, index=§)", "None", "[5]"),
    "object in a frame": ("f = pd.DataFrame({'p': [[§]]})", "1", "2"),
    "frame shares an object": ("a = [1]; f = pd.DataFrame({'p': [§]})", "a", "[1]"),
    "frame shares memory": ("a = np.zeros((3, 2)); f = pd.DataFrame(a, copy=§)", "False", "True"),
    "array shares the memory of a frame": (f"{COLUMN}§", "", ".copy()"),
    "another column": ("f = pd.DataFrame(np.zeros((3, 2))); v = f[§].array._ndarray", "0", "1"),
    "view": ("a = np.zeros(9); v = a[§:§ + 2]", "1", "2"),
    "number of NumPy": ("a = np.§(1)", "int64", "int32"),
    "type of a number": ("a = §", "1", "True"),
}
"""Programs, and two texts for the place of §."""


def made(source: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__", "np": np, "pd": pd}
    exec(source, namespace)
    return graph(namespace)


def test_a_difference_is_seen(subtests: pytest.Subtests) -> None:
    for case, (source, *texts) in DIFFERENCES.items():
        with subtests.test(case):
            one, again, other = (made(source.replace("§", text)) for text in (texts[0], *texts))
            assert one == again
            assert one != other


def test_nan_is_no_difference() -> None:
    source = "a = float('nan'); b = np.array([a]); f = pd.DataFrame({'p': [a], 'q': [[a]]})"
    assert made(source) == made(source)
