"""Arrays that are proven unchanged stay apart from a point, and nothing that changed is missed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nbckpt.core.environment import is_same
from nbckpt.core.memory.pages import page_record
from nbckpt.core.values.variables import Print
from nbckpt.timeline.memory import Watch
from tests.timeline.test_timeline import Kernel

if page_record().why_off:
    pytest.skip("this system has no record of written pages", allow_module_level=True)

SIZE = 1 << 19


def prints_of(**arrays: Any) -> dict[str, Print]:
    return {
        name: Print("", frozenset({name}), b"", ((array.__array_interface__["data"][0], array.nbytes),))
        for name, array in arrays.items()
    }


def watched(array: Any) -> tuple[Watch, dict[str, Print]]:
    """Return a watch for the variable `a` after two looks, so that the next one can prove something."""
    watch, prints = Watch(), prints_of(a=array)
    for _ in range(2):
        watch.keep(watch.look({"a": array}, prints))
    return watch, prints


def reshape(array: Any) -> None:
    array.shape = (2, -1)


CHANGES: dict[str, Callable[[Any], object]] = {
    "its first byte": lambda array: array.__setitem__(0, 1),
    "its last byte": lambda array: array.__setitem__(-1, 1),
    "a byte between": lambda array: array.__setitem__(SIZE // 2, 1),
    "its shape": reshape,
    "its dtype": lambda array: setattr(array, "dtype", "i8"),
    "its flags": lambda array: array.setflags(write=False),
}


def test_an_untouched_array_is_proven() -> None:
    array = np.ones(SIZE)
    watch, prints = watched(array)
    glance = watch.look({"a": array}, prints)
    assert glance.proven == {"a": array}
    assert not glance.written


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_changed_array_is_not_proven(subtests: pytest.Subtests) -> None:
    for part, change in CHANGES.items():
        with subtests.test(part):
            array = np.full(SIZE, 7.0)
            watch, prints = watched(array)
            change(array)
            glance = watch.look({"a": array}, prints)
            assert (glance.written, glance.proven) == ({"a"}, {})


def test_another_array_over_the_same_memory_is_not_proven() -> None:
    array = np.ones(SIZE)
    watch, prints = watched(array)
    assert not watch.look({"a": array[:]}, prints).proven
    assert not watch.look({"a": array.view(np.matrix)}, prints).proven


def test_a_glance_that_is_not_kept_proves_nothing_later() -> None:
    array = np.ones(SIZE)
    watch, prints = watched(array)
    array[SIZE // 2] = 2
    assert watch.look({"a": array}, prints).written
    assert watch.look({"a": array}, prints).written


def apart(kernel: Kernel, source: str) -> bool:
    """Run a cell after the array was proven, and tell whether the array stayed apart."""
    kernel.run("big = np.ones(1 << 19); holder = {}; part = None", *["small = [1]"] * 3)
    return "big" not in kernel.step(source).looked_at


def test_a_proven_array_stays_apart_also_if_a_cell_reads_it() -> None:
    kernel = Kernel()
    assert apart(kernel, "total = [big.sum()]")
    assert "total" not in kernel.undone()


@pytest.mark.parametrize("source", ["holder['it'] = big", "part = big[:1000]", "other = big"])
def test_an_array_that_gets_shared_is_looked_at(source: str) -> None:
    kernel = Kernel()
    assert not apart(kernel, source)
    kernel.run("big[0] = 5")
    kernel.undo()
    names = kernel.redone()
    shared = names["holder"].get("it"), names["part"], names.get("other")
    assert [float(value[0]) for value in shared if value is not None] == [5.0]
    names["big"][0] = 6
    assert [float(value[0]) for value in shared if value is not None] == [6.0]


def test_what_an_undo_wrote_stays_apart_after_it() -> None:
    kernel = Kernel()
    assert not apart(kernel, "big[1000:2000] = 5")
    kernel.undo()
    assert "big" not in kernel.step("small = [2]").looked_at
    kernel.run("big[1500] = 6")
    assert (kernel.undone()["big"] == 1).all()


def test_an_array_of_a_failed_point_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    assert apart(kernel, "small = [2]")
    store = kernel.tracker.store
    put = store.put
    monkeypatch.setattr(store, "put", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        kernel.run("big[1] = 3")
    monkeypatch.setattr(store, "put", put)
    assert "big" in kernel.step("small = [3]").changed


def test_random_states_count_as_changed_only_if_they_are() -> None:
    kernel = Kernel()
    assert kernel.run("import random; random.seed(1); np.random.seed(1)", "len('')") is None
    first = kernel.after("a = [random.random(), np.random.rand()]")["a"]
    kernel.undo()
    assert kernel.after("a = [random.random(), np.random.rand()]")["a"] == first


def test_only_plain_states_can_be_the_same() -> None:
    state, now = random.getstate(), np.random.get_state()
    assert is_same(state, random.getstate())
    assert is_same(now, np.random.get_state())
    np.random.rand()
    assert not is_same(now, np.random.get_state())
    assert is_same({"precision": 8, "formatter": None}, {"precision": 8, "formatter": None})
    assert not is_same({"precision": 8}, {"precision": 8.0})
    assert not is_same({"threshold": 1, "edge": 2}, {"edge": 2, "threshold": 1})
    assert not is_same({"formatter": len}, {"formatter": len})
    assert not is_same((0.0,), (-0.0,))


@pytest.mark.parametrize(
    "source",
    ["large = np.array(['a', 'b'], object)[np.arange(1 << 21) % 2]", "large = np.ones((1 << 20, 2))[:, 0]"],
)
def test_memory_that_a_point_makes_for_a_moment_is_not_watched(source: str) -> None:
    kernel = Kernel()
    kernel.run(source, "small = [0]", "small = [1]", "small = [2]")
    step = kernel.step("other = np.full(1 << 21, 7, 'i1')")  # it may take the place of that memory
    assert "large" not in step.looked_at


def test_memory_below_a_strided_array_is_watched() -> None:
    kernel = Kernel()
    kernel.run("large = np.ones((1 << 20, 2))[:, 0]", "small = [0]", "small = [1]", "small = [2]")
    kernel.names["large"].base[1 << 19] = 5  # no cell names it
    assert "large" in kernel.step("small = [3]").changed
    assert (kernel.undone()["large"] == 1).all()


def test_a_rescue_that_is_cut_holds_what_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may end after the first point. It lacks only large memory that may have changed."""
    kernel = Kernel()
    kernel.run(f"a = [1]; kept = np.ones({SIZE}); written = np.ones({SIZE})")
    for _ in range(2):
        kernel.run("b = len(a)")
    kernel.names["a"].append(2)
    kernel.names["written"][5] = 7

    def is_cut(*_: Any, **__: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(kernel.timeline, "record", is_cut)
    with pytest.raises(SystemExit):
        kernel.timeline.rescue({})
    names: dict[str, Any] = {}
    kernel.tracker.restore("latest", names)
    assert {*names} == {"a", "b", "kept"}
    assert (names["a"], float(names["kept"].sum())) == ([1, 2], SIZE)


def test_a_rescue_hides_no_write_from_its_last_point() -> None:
    kernel = Kernel()
    kernel.run(f"kept = np.ones({SIZE}); written = np.ones({SIZE})")
    for _ in range(2):
        kernel.run("b = 1")
    kernel.names["written"][5] = 7
    kernel.timeline.rescue({})
    names: dict[str, Any] = {}
    kernel.tracker.restore("latest", names)
    assert (float(names["written"][5]), float(names["kept"].sum())) == (7, SIZE)
    assert len(kernel.timeline.history.entries("points")) == 4
