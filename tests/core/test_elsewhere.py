"""What lives outside of the kernel is named at the save and at the restore, or comes back whole."""

from __future__ import annotations

import os
import sqlite3
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nbckpt import Tracker
from nbckpt.store import MemoryStore
from notebook import conftest
from notebook.conftest import Notebook

notebook = conftest.notebook


def warnings_of(**values: Any) -> list[str]:
    return list(Tracker(MemoryStore()).save(values, "a").manifest.warnings)


def restored(**values: Any) -> dict[str, Any]:
    tracker, new = Tracker(MemoryStore()), dict[str, Any]()
    assert tracker.save(values, "a").manifest.skipped == ()
    tracker.restore("a", new)
    return new


@pytest.mark.parametrize(
    "derive",
    [
        pytest.param(lambda array: array[2:5], id="part"),
        pytest.param(lambda array: np.asarray(array)[1:], id="plain array"),
        pytest.param(lambda array: np.asarray(array)[::2], id="strided array"),
        pytest.param(lambda array: pd.DataFrame(np.asarray(array).reshape(5, 2), copy=False), id="frame"),
    ],
)
def test_data_in_a_mapped_file_is_named(tmp_path: Path, derive: Any) -> None:
    array = np.memmap(tmp_path / "data", np.float64, "w+", shape=10)
    said = f"v: comes back with its contents, but apart from the file {tmp_path / 'data'}"
    assert warnings_of(v=derive(array)) == [said]


def test_memory_that_nbckpt_maps_is_not_named(tmp_path: Path) -> None:
    tracker, new = Tracker(str(tmp_path)), dict[str, Any]()
    tracker.save({"v": np.arange(100_000.0)}, "a")
    tracker.restore("a", new)
    assert warnings_of(v=new["v"][5:], w=np.frombuffer(b"12345678", np.uint8)) == []


def test_an_array_in_shared_memory_is_named() -> None:
    memory = SharedMemory(create=True, size=80)
    array = np.ndarray(10, np.float64, buffer=memory.buf)
    try:
        said = "v: comes back with its contents, but apart from the mapped file or shared memory"
        assert warnings_of(v=array) == [said]
    finally:
        del array
        memory.close()
        memory.unlink()


def test_a_restore_names_what_lives_elsewhere(notebook: Notebook) -> None:
    notebook.run("import numpy as np\nv = np.memmap('data', np.uint8, 'w+', shape=9)\nn = 1\n%ckpt save a")
    assert "v: comes back with its contents, but apart from the file" in str(notebook.run("%ckpt restore a"))
    assert "apart from" not in str(notebook.run("%ckpt restore a n"))


def test_an_undo_names_what_it_detaches(notebook: Notebook) -> None:
    notebook.run(conftest.AUTO_ON)
    notebook.run("import numpy as np\nv = np.memmap('data', np.uint8, 'w+', shape=9)[2:]\nn = 1")
    notebook.run("v = 5")
    assert "v: comes back with its contents, but apart from the file" in str(notebook.run("%ckpt undo"))


def test_a_lazy_frame_over_a_file_is_named(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    polars.DataFrame({"a": [1]}).write_csv(tmp_path / "a.csv")
    assert warnings_of(v=polars.DataFrame({"a": [1]}).lazy()) == []
    said = f"v: refers to {tmp_path / 'a.csv'}, whose contents are not saved"
    assert warnings_of(v=polars.scan_csv(tmp_path / "a.csv").select("a")) == [said]


def test_a_database_in_memory_comes_back_twice() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("CREATE TABLE t (a)")
    connection.execute("INSERT INTO t VALUES (5)")
    again = restored(v=restored(v=connection)["v"])["v"]
    assert (again.execute("SELECT a FROM t").fetchone()["a"], again.isolation_level) == (5, None)
    assert restored(v=sqlite3.connect(":memory:"))["v"].execute("SELECT 1").fetchall() == [(1,)]


def test_a_connection_to_a_file_is_named(tmp_path: Path) -> None:
    values = {"v": sqlite3.connect(tmp_path / "db"), "n": 1}
    (skip,) = Tracker(MemoryStore()).save(values, "a").manifest.skipped
    assert skip.name == "v"
    assert f"it refers to {tmp_path / 'db'}" in skip.reason


@pytest.mark.parametrize("mode", ["r", "rb"])
def test_a_file_comes_back_at_its_position(tmp_path: Path, mode: str) -> None:
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")
    with (tmp_path / "lines").open(mode) as file:
        file.readline()
        with restored(v=file)["v"] as again:
            assert (again.read(), again.name, again.mode) == (file.read(), file.name, file.mode)


def test_a_file_that_was_changed_is_named_at_the_restore(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one")
    tracker, new = Tracker(MemoryStore()), dict[str, Any]()
    with (tmp_path / "lines").open() as file:
        tracker.save({"v": file, "n": 1}, "a")
    os.utime(tmp_path / "lines", (1, 1))
    (failure,) = tracker.restore("a", new).failed
    assert failure.names == ("v",)
    assert "was changed after the save" in failure.reason
    assert new["n"] == 1


@pytest.mark.parametrize("mode", ["w", "a", "r+", "wb"])
def test_a_file_that_is_written_is_named(tmp_path: Path, mode: str) -> None:
    (tmp_path / "lines").write_text("one")
    with (tmp_path / "lines").open(mode) as file:
        (skip,) = Tracker(MemoryStore()).save({"v": file, "n": 1}, "a").manifest.skipped
    assert skip.name == "v"
