"""Memory and containers that change while they are saved."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernels
import nbckpt
from nbckpt import Tracker
from nbckpt.core.packs import pools
from nbckpt.core.packs.format import PACK_SIZE
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer
from nbckpt.core.values.codec import dump, load
from nbckpt.errors import StoreError
from nbckpt.store import Data, MemoryStore
from nbckpt.store.base import parts_of
from nbckpt.testing import FaultyStore
from nbckpt.tracker import Saved

pytestmark = pytest.mark.usefixtures("way")
MB = 1 << 20


class Meddler(MemoryStore):
    """A store during whose first puts of packs someone writes to an array, before and between the parts."""

    def __init__(self, array: np.ndarray, times: int = 1) -> None:
        super().__init__()
        self.array = array
        self.times = times

    def put(self, key: str, data: Data) -> None:
        if key.startswith("packs/") and self.times:
            self.times -= 1
            parts = []
            for part in parts_of(data):
                self.array[0] += 1
                self.array[-1] += 1
                parts.append(part)
            data = parts
        super().put(key, data)


@contextmanager
def a_thread(name: str = "users") -> Iterator[None]:
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name=name)
    thread.start()
    yield
    done.set()
    thread.join()


def restored(tracker: Tracker, ref: str = "n") -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    assert tracker.verify([ref]).damages == []
    assert tracker.restore(ref, namespace).failed == ()
    return namespace


def marked(saved: Saved) -> list[str]:
    return [value.name for value in saved.manifest.values if value.changed]


def test_an_array_that_changes_is_saved_and_marked() -> None:
    array, still = np.arange(1_000_000.0), np.arange(300_000.0)
    tracker = Tracker(Meddler(array))
    saved = tracker.save({"array": array, "still": still}, "n")
    assert marked(saved) == ["array"]
    namespace = restored(tracker)
    assert (namespace["still"] == still).all()
    assert (namespace["array"] == array).all()
    assert [value.name for value in tracker.manifest("n").values if value.changed] == ["array"]


@pytest.mark.slow
def test_no_pack_of_a_changing_array_contradicts_its_index() -> None:
    array = np.random.default_rng(0).random(PACK_SIZE // 4)  # three packs
    store = Meddler(array, times=2)
    tracker = Tracker(store)
    tracker.save({"array": array}, "n")
    restored(tracker)
    again = Tracker(store)
    assert marked(again.save({"copy": array.copy()}, "m")) == []
    assert (restored(again, "m")["copy"] == array).all()


def test_later_saves_share_no_wrong_data_of_a_failed_save() -> None:
    array = np.random.default_rng(0).random(200_000)
    untouched = array.copy()
    store = Meddler(array)
    full = FaultyStore(store, when=lambda call: call.key.startswith("refs/"))
    with pytest.raises(StoreError):
        Tracker(full).save({"array": array}, "n")
    tracker = Tracker(store)
    tracker.save({"untouched": untouched}, "n")
    assert (restored(tracker)["untouched"] == untouched).all()


def test_private_bytes_are_not_shared_with_a_changing_buffer() -> None:
    array = np.random.default_rng(0).random(32 * 1024)  # one blob, as large as the private one
    private = array.tobytes()
    store = Meddler(array)
    with Packer(store) as packer:
        lent, own = packer.add(memoryview(array).cast("B")), packer.add(private)
        packer.finish()
    reader = Reader(store)
    assert (lent.changed, own.changed) == (True, False)
    assert reader.read(packer.runs(own)) == private
    assert reader.read(packer.runs(lent)) == array.tobytes()


def test_a_record_in_a_lost_pack_is_put_again() -> None:
    array = np.random.default_rng(0).random(200_000)
    record = np.random.default_rng(1).bytes(3 * MB)
    store = Meddler(array)
    with Packer(store) as packer:
        lent, own = packer.add(memoryview(array).cast("B")), packer.add_record(record)
        packer.finish()
    assert Reader(store).read(packer.runs(own)) == record
    assert Reader(store).read(packer.runs(lent)) == array.tobytes()
    assert sorted(packer.packs) == sorted(key[9:-5] for key in store.keys("packs/"))


class Late(MemoryStore):
    """A store that writes to an array after it has put a pack of it."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__()
        self.array = array

    def put(self, key: str, data: Data) -> None:
        super().put(key, data)
        if key.startswith("packs/"):
            self.array[0] += 1


def test_a_change_after_its_blob_was_written_is_marked() -> None:
    array = np.arange(1_000_000.0)
    tracker = Tracker(Late(array))
    with a_thread():
        assert marked(tracker.save({"array": array}, "n")) == ["array"]
    assert restored(tracker)["array"][0] == 0


def test_arrays_that_share_memory_are_marked_together() -> None:
    array = np.arange(1_000_000.0)
    tracker = Tracker(Meddler(array))
    saved = tracker.save({"array": array, "part": array[500_000:]}, "n")
    assert marked(saved) == ["array", "part"]
    namespace = restored(tracker)
    assert np.shares_memory(namespace["array"], namespace["part"])


def test_an_unchanged_array_is_not_marked_despite_a_thread() -> None:
    array = np.arange(1_000_000.0)
    tracker = Tracker(MemoryStore())
    with a_thread():
        assert marked(tracker.save({"array": array}, "n")) == []
    assert (restored(tracker)["array"] == array).all()


def test_threads_that_run_user_code_count_as_running() -> None:
    for name in ("users", "nbckpt-trial", "nbckpt-function", "nbckpt-syncer"):
        with a_thread(name):
            assert pools.others_run()


def test_another_thread_counts_the_main_thread_as_running() -> None:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(pools.others_run()))
    thread.start()
    thread.join()
    assert answers == [True]


@pytest.mark.slow
def test_threads_of_the_kernel_do_not_count_as_running(notebook_kernel: str) -> None:
    assert notebook_kernel == "False"


@pytest.fixture
def notebook_kernel(tmp_path: Path) -> str:
    """What a real kernel says, that runs nothing of the user's."""
    import nbformat

    source = "from nbckpt.core.packs.pools import others_run\nprint(others_run())"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    kernels.client_of(notebook, tmp_path).execute()
    return "".join(
        output["text"] for output in notebook.cells[0].outputs if output.get("name") == "stdout"
    ).strip()


def test_a_small_array_may_change_at_any_time() -> None:
    array = np.arange(1000.0)
    tracker = Tracker(Meddler(array))
    saved = tracker.save({"array": array, "large": np.arange(100_000.0)}, "n")
    assert restored(tracker)["array"][0] == 0
    assert marked(saved) == []


class Busy:
    """An object during whose pickling a dict gets one more key, so many times."""

    def __init__(self, target: dict[Any, Any], times: int) -> None:
        self.target = target
        self.times = times

    def __reduce__(self) -> Any:
        if self.times:
            self.times -= 1
            self.target[len(self.target)] = 0
        return int, ()


def changing(times: int) -> dict[Any, Any]:
    target: dict[Any, Any] = {}
    target["busy"] = Busy(target, times)
    target["more"] = 1
    return target


def test_a_dict_that_changes_twice_while_pickled_is_saved() -> None:
    tracker = Tracker(MemoryStore())
    saved = tracker.save({"history": changing(2), "x": 1}, "n")
    assert saved.manifest.skipped == ()
    assert restored(tracker)["history"]["more"] == 1


def test_a_dict_that_keeps_changing_is_left_out_by_name() -> None:
    tracker = Tracker(MemoryStore())
    saved = tracker.save({"history": changing(99), "x": 1}, "n")
    (skipped,) = saved.manifest.skipped
    assert (skipped.name, skipped.path) == ("history", "history")
    assert "changed while it was saved, 3 times" in skipped.reason
    assert restored(tracker) == {"x": 1}


def test_a_group_that_keeps_changing_is_left_out_by_name() -> None:
    shared = changing(99)
    shared["busy"].times = 0
    times = chain([0], repeat(99))  # alone first, then together with the other

    def arm() -> None:
        shared["busy"].times = next(times)

    namespace = {"a": [Hook(arm), shared], "b": [shared], "x": 1}
    tracker = Tracker(MemoryStore())
    saved = tracker.save(namespace, "n")
    assert sorted(skipped.name for skipped in saved.manifest.skipped) == ["a", "b"]
    assert [value.name for value in saved.manifest.values if value.name in "abx"] == ["x"]


class Hook:
    """An object whose pickling calls something."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        self.call()
        return int, ()


def test_the_codec_raises_for_a_dict_that_changes() -> None:
    with pytest.raises(RuntimeError, match="during iteration"):
        dump(changing(1), {})
    assert load(dump({1: 2}, {}).record, []) == {1: 2}


def test_every_other_thread_of_nbckpt_is_harmless() -> None:
    texts = [file.read_text("utf-8") for file in Path(nbckpt.__file__).parent.rglob("*.py")]
    names = {
        name
        for text in texts
        for name in re.findall(r'(?:name(?:: str)? ?=f? ?|Pool.*?)"(nbckpt-[a-z]+-?)', text)
    }
    unknown = {name for name in names if not name.startswith(pools.OURS)}
    assert unknown == {"nbckpt-function", "nbckpt-syncer", "nbckpt-trial"}
