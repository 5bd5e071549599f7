"""Points of a namespace: what a step notes, what a way changes, and what it leaves alone."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from nbckpt.cells.analysis import touched
from nbckpt.core import trash
from nbckpt.core.gc import collect
from nbckpt.core.manifest import Manifest
from nbckpt.errors import NotFoundError, StoreError, UsageError
from nbckpt.store import LocalStore, MemoryStore
from nbckpt.timeline.step import Step
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker


class Kernel:
    """A namespace whose cells are followed by points."""

    def __init__(self, store: Any = None) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__", "np": np}
        self.tracker = Tracker(store or MemoryStore())
        self.timeline = Timeline(self.tracker, self.names, lambda: frozenset({"np"}))
        self.timeline.record({})

    def run(self, *sources: str) -> Step | None:
        """Run cells, one after the other, and return the step of the last."""
        for source in sources:
            before = touched(source, self.names)
            exec(source, self.names)
            both = before | touched(source, self.names)
            step = self.timeline.record({}, None if both.everything else both.names)
        return step

    def step(self, *sources: str) -> Step:
        """Run cells, and return the step of the last, which must change something."""
        step = self.run(*sources)
        assert step is not None
        return step

    def save(self, name: str) -> Manifest:
        return self.tracker.save(self.names, name, hidden={"np"}).manifest

    def undo(self, steps: int = 1) -> Any:
        return self.timeline.undo(steps, {})

    def redo(self, steps: int = 1) -> Any:
        return self.timeline.redo(steps, {})

    def undone(self, steps: int = 1) -> dict[str, Any]:
        """Undo cells, and return the variables."""
        self.undo(steps)
        return self.names

    def redone(self, steps: int = 1) -> dict[str, Any]:
        self.redo(steps)
        return self.names

    def after(self, *sources: str) -> dict[str, Any]:
        """Run cells, and return the variables."""
        self.run(*sources)
        return self.names

    def point(self) -> Manifest:
        """Return the present point."""
        assert self.timeline.here is not None
        return self.timeline.here.manifest


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


def test_a_step_names_what_changed_and_what_went(kernel: Kernel) -> None:
    step = kernel.step("a = [1]; b = 2; c = 3", "a.append(2); del b")
    assert (step.changed, step.removed) == (("a",), ("b",))


def test_a_cell_that_only_reads_leaves_no_point(kernel: Kernel) -> None:
    assert kernel.run("a = [1]; big = np.zeros(100_000)", "total = len(a); del total") is None
    assert kernel.run("big.sum(); a[0]") is None
    assert len(kernel.timeline.history.entries("points")) == 2


def test_reading_what_an_array_of_pandas_notes_leaves_no_point(kernel: Kernel) -> None:
    pytest.importorskip("pandas")
    kernel.run(
        "import pandas as pd; k = pd.array([1, None], dtype='Int64'); d = pd.date_range('2020', periods=2)"
    )
    assert kernel.run("k.dtype; k.isna(); k.sum(); d.is_unique; d.freq") is None
    assert kernel.run("k[0] = 2") is not None


def test_undo_and_redo_step_through_cells(kernel: Kernel) -> None:
    kernel.run("a = [1]", "a.append(2)", "b = a")
    assert kernel.undone(2)["a"] == [1]
    assert "b" not in kernel.names
    assert kernel.redone(2)["a"] == [1, 2]
    assert kernel.names["b"] is kernel.names["a"]


def test_equal_variables_stay_the_same_objects(kernel: Kernel) -> None:
    kernel.run("a = [1]; h = {'a': a}; other = [9]", "c = [2]", "c.append(3)")
    a, h, other = kernel.names["a"], kernel.names["h"], kernel.names["other"]
    kernel.undo()
    assert (kernel.names["a"], kernel.names["h"], kernel.names["other"]) == (a, h, other)
    assert kernel.names["a"] is a
    assert kernel.names["other"] is other
    assert kernel.names["h"]["a"] is a


def test_a_changed_group_keeps_its_objects(kernel: Kernel) -> None:
    old = dict(kernel.after("a = [1]; h = {'a': a}"))
    kernel.run("a.append(2)")
    assert kernel.undone()["h"] is old["h"]
    assert kernel.names["h"]["a"] is kernel.names["a"] is old["a"] == [1]


def test_parts_that_are_shared_otherwise_are_a_change(kernel: Kernel) -> None:
    kernel.run("x = [1]; y = [1]; a = [x, y]; b = [x, y]", "b[0], b[1] = y, x")
    assert kernel.names["a"][0] is kernel.names["b"][1]
    kernel.undo()
    assert kernel.names["a"][0] is kernel.names["b"][0]


def test_an_uncommon_change_before_undo_is_not_lost(kernel: Kernel) -> None:
    kernel.run("a = [1]")
    kernel.names["a"].append(2)  # no cell did this
    assert kernel.undone()["a"] == [1]
    assert kernel.redone()["a"] == [1, 2]


def test_a_value_that_cannot_be_saved_stays_and_is_named(kernel: Kernel) -> None:
    kernel.run("g = (i for i in [1, 2]); a = 1", "a = 2", "g = 7")
    arrived = kernel.undo(2)
    assert arrived.unheld == ("g",)
    assert kernel.names["g"] == 7
    assert kernel.names["a"] == 1


def test_redo_of_a_checkout_of_a_child_leaves_the_same_alive(kernel: Kernel) -> None:
    kernel.run("g = (i for i in [1])")
    parent = kernel.point().id
    kernel.run("g = [2]")
    child = kernel.point().id
    alive = kernel.after("g = (i for i in [3])")["g"]
    assert kernel.timeline.checkout(parent, {}).unheld == ("g",)
    assert kernel.timeline.checkout(child, {}).alive == ("g",)
    kernel.undo()
    assert kernel.redo().alive == ("g",)
    assert kernel.names["g"] is alive


def test_redo_of_checkouts_leaves_alive_only_what_was(kernel: Kernel) -> None:
    kernel.run("a = 1")
    first = kernel.point().id
    kernel.run("g = (i for i in [1])")
    made = kernel.point().id
    kernel.run("del g")
    kernel.timeline.checkout(first, {})
    kernel.run("g = (i for i in [2])")
    kernel.timeline.checkout(made, {})
    kernel.undo(2)
    assert kernel.redo(2).missing == ("g",)
    kernel.timeline.checkout(first, {})
    assert "g" in kernel.undone(2)
    assert "g" not in kernel.redone(2)


def test_a_change_after_undo_is_a_branch(kernel: Kernel) -> None:
    kernel.run("a = 1")
    first = kernel.point().id
    kernel.run("a = 2")
    kernel.undo()
    kernel.run("b = 1")
    assert kernel.point().parent == first
    with pytest.raises(UsageError, match="nothing to redo"):
        kernel.redo()


def test_a_save_after_a_checkout_is_a_child_of_it(kernel: Kernel) -> None:
    kernel.run("a = 1")
    kept = kernel.save("kept")
    kernel.run("a = 2")
    kernel.timeline.checkout("kept", {})
    assert kernel.save("branch").parent == kept.id
    kernel.run("a = 3")
    kernel.timeline.checkout(kept.parent, {})  # a point
    assert kernel.save("other").parent == kept.parent


def test_a_save_after_undo_is_a_child_of_that_point(kernel: Kernel) -> None:
    kernel.run("a = 1")
    first = kernel.point().id
    kernel.run("a = 2")
    kernel.undo()
    assert kernel.save("kept").parent == first


def test_checkout_of_a_saved_name_keeps_the_present(kernel: Kernel) -> None:
    kernel.run("a = 1")
    kernel.tracker.save(kernel.names, "kept", hidden={"np"})
    kernel.names["a"] = 5
    kernel.timeline.checkout("kept", {})
    assert kernel.names["a"] == 1
    newest = kernel.timeline.history.entries("points")[0]
    kernel.timeline.checkout(newest.id, {})
    assert kernel.names["a"] == 5


def test_a_checkout_of_part_of_a_notebook_is_refused(kernel: Kernel) -> None:
    from nbckpt.core.checkpoint import Checkpoint

    Checkpoint.from_dict({"w": 1}).to_store(kernel.tracker.store, "weights")
    with pytest.raises(NotFoundError, match="no variables of a notebook"):
        kernel.timeline.checkout("weights", {})


def test_a_failed_point_leaves_its_changes_to_the_next_one(kernel: Kernel) -> None:
    kernel.run("a = [1]")
    full = patch.object(kernel.timeline.history, "publish", side_effect=StoreError("no space left on device"))
    with full, pytest.raises(StoreError):
        kernel.run("a.append(2)")
    assert kernel.step("b = 1; a").changed == ("a", "b")
    assert kernel.undone()["a"] == [1]


def test_gc_between_two_points_takes_nothing_that_is_needed(tmp_path: Path) -> None:
    kernel = Kernel(LocalStore(tmp_path))
    kernel.run("a = np.arange(100_000.0); b = 'x' * 50_000", "a[0] = 5")
    for _ in range(2):
        collect(kernel.timeline.history, wait=lambda _: None)
    kernel.run("c = 1")
    assert kernel.undone(2)["a"][0] == 0
    assert kernel.names["b"] == "x" * 50_000


def test_a_point_that_another_kernel_removed_with_gc_is_no_loss(tmp_path: Path) -> None:
    kernel = Kernel(LocalStore(tmp_path))
    kernel.run("a = np.arange(100_000.0)")
    other = Tracker(LocalStore(tmp_path)).history
    for entry in other.entries("points"):
        trash.discard(other, entry)
    collect(other, wait=lambda _: None)
    kernel.run("b = 1")
    kernel.names["a"][:] = 7
    kernel.timeline.record({})
    assert kernel.undone()["a"][5] == 5


@pytest.mark.slow
def test_small_values_are_handed_on_without_growing(tmp_path: Path) -> None:
    kernel = Kernel(LocalStore(tmp_path))
    kernel.run("a = {'k': 'x' * 3000}; n = 0")
    sizes = []
    for at in range(40):
        kernel.run(f"n = {at + 1}")
        sizes.append(sum(map(len, kernel.point().inline.values())))
    assert max(sizes) - min(sizes) < 500
    assert kernel.undone(40)["a"] == {"k": "x" * 3000}


def test_what_a_decorator_added_to_a_class_goes_back(kernel: Kernel) -> None:
    kernel.run("class C:\n    'A class.'\n    size: int = 1")
    kernel.run("import dataclasses; dataclasses.dataclass(C); C.__version__ = [1]")
    live = kernel.undone()["C"]
    assert not dataclasses.is_dataclass(live)
    assert not hasattr(live, "__version__")
    assert (live.__doc__, live.__module__, [*live.__annotations__]) == ("A class.", "__main__", ["size"])
    kernel.redo()
    assert dataclasses.is_dataclass(kernel.names["C"])
    assert kernel.names["C"](2).size == 2


def test_a_class_that_no_variable_holds_is_set_back(kernel: Kernel) -> None:
    kernel.run("def make():\n    class C:\n        v = 1\n        def f(self): return self.v\n    return C()")
    kernel.run("o = make()", "type(o).v = 2", "o.more = True")
    assert kernel.undone(2)["o"].f() == 1
    kernel.redo(2)
    assert (kernel.names["o"].f(), kernel.names["o"].more) == (2, True)


def test_a_class_that_was_defined_again_keeps_its_former_self(kernel: Kernel) -> None:
    kernel.run("class C:\n    v = [1]", "o = C()", "C.v.append(2)", "class C:\n    v = [3]")
    kernel.undo(2)
    assert (kernel.names["o"].v, kernel.names["C"].v) == ([1], [1])
    kernel.redo(2)
    assert (kernel.names["o"].v, kernel.names["C"].v) == ([1, 2], [3])


def test_variables_share_with_their_class_again(kernel: Kernel) -> None:
    kernel.run("class C:\n    tags = []\n    def f(self): pass\n    @classmethod\n    def g(cls): pass")
    kernel.run("o = C(); p = C()", "tags = C.tags", "calls = [o.f]; f, g = C.f, C.g", "o.v = 1")
    names = kernel.undone()
    assert names["o"].f in names["calls"]
    assert (names["f"], names["g"]) == (names["C"].f, names["C"].g)
    kernel.run("tags.append(1)")
    kernel.undo()
    assert names["tags"] is names["C"].tags is names["p"].tags == []
    kernel.redo()
    assert names["tags"] is names["C"].tags is names["p"].tags == [1]


def test_views_of_a_dict_follow_it_again(kernel: Kernel) -> None:
    kernel.run("from types import MappingProxyType; d = {'a': 1}")
    kernel.run("k, i, p = d.keys(), d.items(), MappingProxyType(d)", "d.clear()")
    arrived = kernel.undo()
    assert (arrived.unseen, kernel.names["d"]) == ((), {"a": 1})
    kernel.run("d['b'] = 2")
    assert [*kernel.names["k"]] == [*kernel.names["p"]] == ["a", "b"]
    assert [*kernel.names["i"]] == [("a", 1), ("b", 2)]


def test_memory_that_no_name_leads_to_is_looked_at(kernel: Kernel) -> None:
    frame = pytest.importorskip("pandas").DataFrame
    kernel.run("a = np.zeros(1_000_000)")
    kernel.names["f"] = frame({"x": np.zeros(1_000_000)}, copy=False)
    kernel.timeline.record({})
    kernel.run("pass")
    array, column = kernel.names["a"], kernel.names["f"]["x"].to_numpy()
    for memory, name in ((array, "a"), (column, "f")):
        memory.setflags(write=True)
        memory[500_000] = 7  # by a way that no code of a cell shows
        step = kernel.timeline.record({}, frozenset())
        assert step is not None
        assert step.changed == (name,)
    assert kernel.timeline.record({}, frozenset()) is None


def test_what_an_undo_could_not_bring_back_is_in_the_next_point(kernel: Kernel) -> None:
    kernel.run("g = (i for i in [1]); a = 1", "g = [7]")
    kernel.undo()
    kernel.redo()
    assert kernel.undone()["g"] == [7]
    kernel.run("a = 2", "del g")
    assert kernel.undone()["g"] == [7]
    assert kernel.undone()["a"] == 1


def test_what_cannot_be_loaded_stays_and_is_in_the_next_point(kernel: Kernel) -> None:
    kernel.run("class Stuck:\n    def __reduce__(self):\n        return eval, ('open_ and 1 / 0 or 5',)")
    kernel.run("open_ = True; s = Stuck(); a = 1", "s = [8]; a = 2")
    arrived = kernel.undo()
    assert [failure.names for failure in arrived.failed] == [("s",)]
    assert (kernel.names["s"], kernel.names["a"]) == ([8], 1)
    kernel.run("a = 3", "s = None")
    assert kernel.undone()["s"] == [8]


def test_a_class_that_cannot_be_saved_any_more_is_set_back(kernel: Kernel) -> None:
    kernel.run("class C:\n    size = 1", "o = C(); g = (part for part in [1])", "C.size = g")
    kernel.undo()
    assert (kernel.names["C"].size, kernel.names["o"].size) == (1, 1)
    assert kernel.timeline.record({}) is None
    kernel.redo()
    assert kernel.timeline.record({}) is None


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    return first, second


def test_the_working_directory_goes_back_and_forward(folders: tuple[Path, Path]) -> None:
    first, second = folders
    kernel = Kernel()
    kernel.names["second"] = str(second)
    kernel.run("import os; a = 1; second", "a = 2; os.chdir(second)")
    assert kernel.undo().places == (f"The working directory is {first} again.",)
    assert Path.cwd() == first
    kernel.redo()
    assert Path.cwd() == second


def test_a_folder_that_is_gone_is_said(folders: tuple[Path, Path]) -> None:
    first, second = folders
    kernel = Kernel()
    kernel.run("a = 1")
    os.chdir(second)
    kernel.run("a = 2")
    first.rmdir()
    (note,) = kernel.undo().places
    assert note.startswith(f"The working directory stays {second}: ")
    assert kernel.names["a"] == 1


def test_another_environment_is_said_without_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    kernel.run("a = 1")
    monkeypatch.setenv("NBCKPT_TEST_TOKEN", "secret")
    kernel.run("a = 2")
    assert kernel.undo().places == ("os.environ stays as it is. It differs from then: NBCKPT_TEST_TOKEN.",)
    assert os.environ["NBCKPT_TEST_TOKEN"] == "secret"


def test_the_place_of_a_point_is_that_of_its_pause(folders: tuple[Path, Path]) -> None:
    first, second = folders
    kernel = Kernel()
    kernel.run("a = 1")
    kernel.names["a"] = 2
    kernel.timeline.begin({})
    os.chdir(second)  # the next cell, before the point is taken over
    kernel.run("a = 3")
    kernel.undo()
    assert Path.cwd() == first
