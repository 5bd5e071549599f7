"""An array that changes while it is saved."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from nbckpt import Tracker, UsageError
from nbckpt.core import packer
from nbckpt.store import Data, MemoryStore


class Meddler(MemoryStore):
    """A store during whose puts someone writes to an array."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__()
        self.array = array

    def put(self, key: str, data: Data) -> None:
        if key.startswith("packs/"):
            self.array[0] += 1
        super().put(key, data)


@contextmanager
def a_thread_of_the_users() -> Iterator[None]:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    yield
    done.set()
    thread.join()


def test_a_save_during_which_an_array_changes_fails_and_leaves_nothing() -> None:
    array = np.arange(1_000_000.0)
    tracker = Tracker(Meddler(array))
    with a_thread_of_the_users(), pytest.raises(UsageError, match="an array changed while it was saved"):
        tracker.save({"array": array}, "n")
    assert tracker.entries() == []


def test_the_next_save_works_when_nothing_changes() -> None:
    array = np.arange(1_000_000.0)
    tracker = Tracker(MemoryStore())
    with a_thread_of_the_users():
        tracker.save({"array": array}, "n")
    restored: dict[str, np.ndarray] = {}
    tracker.restore("n", restored)
    assert (restored["array"] == array).all()


def test_a_thread_of_the_users_is_suspected() -> None:
    with a_thread_of_the_users():
        assert packer._others_run()


def test_a_kernels_own_threads_are_not_suspected(notebook_kernel: str) -> None:
    assert notebook_kernel == "False"


@pytest.fixture
def notebook_kernel() -> str:
    """What a real kernel says, that runs nothing of the user's."""
    import nbclient
    import nbformat

    source = "from nbckpt.core.packer import _others_run\nprint(_others_run())"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbclient.NotebookClient(notebook, kernel_name="python3").execute()
    return "".join(it["text"] for it in notebook.cells[0].outputs if it.get("name") == "stdout").strip()


def test_a_small_array_may_change_at_any_time() -> None:
    array = np.arange(1000.0)
    tracker = Tracker(Meddler(array))
    tracker.save({"array": array, "large": np.arange(100_000.0)}, "n")
    restored: dict[str, np.ndarray] = {}
    tracker.restore("n", restored)
    assert restored["array"][0] == 0
