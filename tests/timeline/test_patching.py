"""Undo of a change inside arrays: the same memory gets its former bytes, or the group is replaced."""

from __future__ import annotations

import gc
import mmap
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nbckpt.store import LocalStore
from tests.timeline.test_timeline import Kernel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose memory it is")


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(LocalStore(tmp_path))


def test_an_alias_that_no_variable_has_sees_the_undo(kernel: Kernel) -> None:
    kernel.run("a = np.zeros(1_000_000); view = a[10:20]; parts = {'a': a, 'more': [np.ones(100_000)]}")
    alias, array = memoryview(kernel.names["a"]), kernel.names["a"]
    kernel.run("a[15] = 7; parts['more'][0][3] = 9")
    assert kernel.undone()["a"] is array
    assert (alias[15], kernel.names["view"][5], kernel.names["parts"]["more"][0][3]) == (0, 0, 1)
    kernel.redo()
    assert (alias[15], kernel.names["view"][5], kernel.names["parts"]["more"][0][3]) == (7, 7, 9)
    assert kernel.timeline.record({}) is None


def test_a_patched_variable_is_named_as_changed(kernel: Kernel) -> None:
    kernel.run("a = np.zeros(100_000); b = 1", "a[0] = 1")
    assert kernel.undo().changes == {"a": "changed"}


@pytest.mark.parametrize("change", ["a = a.reshape(100, -1)", "a = a.view('i8')", "a = np.ones(200_000)"])
def test_another_form_of_an_array_is_replaced(kernel: Kernel, change: str) -> None:
    array = kernel.after("a = np.zeros(100_000)", f"a[0] = 1; {change}")["a"]
    was = array.copy()
    assert kernel.undone()["a"].shape == (100_000,)
    assert (array == was).all()


@pytest.mark.parametrize("part", ["[:, 0]", "[::2, ::2]", "[::-2].T"])
def test_an_array_that_is_saved_as_a_copy_is_replaced(kernel: Kernel, part: str) -> None:
    kernel.run(f"a = np.zeros((100_000, 2)){part}", "a[0] = 7")
    assert (kernel.undone()["a"] == 0).all()
    assert (kernel.redone()["a"][0] == 7).all()


def test_memory_that_cannot_be_written_to_is_replaced(kernel: Kernel) -> None:
    array = kernel.after("a = np.zeros(100_000)", "a = np.ones(100_000); a.flags.writeable = False")["a"]
    kernel.undo()
    assert array[0] == 1
    assert kernel.names["a"][0] == 0


def test_a_file_that_an_array_maps_is_never_written_to(kernel: Kernel, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(800_000))
    with file.open("r+b") as opened:
        memory = mmap.mmap(opened.fileno(), 0)
    kernel.names["a"] = np.frombuffer(memory)
    kernel.timeline.record({})
    kernel.run("a[0] = 5")
    kernel.undo()
    assert np.fromfile(file)[0] == 5
    assert kernel.names["a"][0] == 0


def test_an_index_finds_its_labels_after_an_undo(kernel: Kernel) -> None:
    frame = pytest.importorskip("pandas").DataFrame
    kernel.names["f"] = frame({"x": np.arange(10_000)}, index=np.arange(10_000))
    kernel.timeline.record({})
    kernel.run("f.index = np.arange(10_000)[::-1].copy(); f.loc[9_999]")
    assert kernel.undone()["f"].loc[9_999, "x"] == 9_999


def test_memory_is_replaced_while_a_thread_of_the_user_runs(kernel: Kernel) -> None:
    kernel.run("a = np.zeros(100_000)", "a[0] = 1")
    array, done = kernel.names["a"], threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    kernel.undo()
    done.set()
    thread.join()
    assert (array[0], kernel.names["a"][0]) == (1, 0)


def test_damaged_bytes_are_named_and_nothing_is_patched(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run("a = np.zeros(1_000_000); a[:] = np.random.rand(1_000_000)")
    first = sorted(tmp_path.rglob("*.pack"))
    array = kernel.after("a[0] = 1")["a"]
    for pack in first:
        pack.write_bytes(pack.read_bytes()[:4096] + bytes(pack.stat().st_size - 4096))
    arrived = kernel.undo()
    gc.collect()
    assert [failure.names for failure in arrived.failed] == [("a",)]
    assert kernel.names["a"] is array
    assert array[0] == 1


def test_what_changed_while_it_was_saved_is_replaced(kernel: Kernel) -> None:
    kernel.run("a = np.zeros(1_000_000)", "a[0] = 1")
    here = kernel.timeline.here
    assert here is not None
    mixed = tuple(replace(value, changed=True) for value in here.manifest.values)
    kernel.timeline.here = replace(here, manifest=replace(here.manifest, values=mixed))
    array = kernel.names["a"]
    kernel.undo()
    assert (array[0], kernel.names["a"][0]) == (1, 0)
