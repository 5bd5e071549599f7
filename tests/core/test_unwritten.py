"""Saves that do not hash what the page record proves unwritten, and the same saves without the record."""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attack import share
from nbckpt import Tracker
from nbckpt.core.algorithms import PORTABLE, PREFERRED
from nbckpt.core.gc import collect
from nbckpt.core.memory.pages import PageRecord
from nbckpt.core.packs import hashes
from nbckpt.core.packs.format import pack_key
from nbckpt.core.packs.writer import Packer
from nbckpt.errors import StoreError
from nbckpt.store import Data, LocalStore, MemoryStore, Store
from nbckpt.testing import FaultyStore

pytestmark = [
    pytest.mark.usefixtures("way"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # it forks
]
MB = 1 << 20
BLOB = 256 << 10


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sizes of the blobs that are hashed, in a process that looks as if no thread of the user ran."""
    monkeypatch.setattr("nbckpt.core.packs.lent.others_run", lambda: False)
    sizes: list[int] = []
    digest = PREFERRED.digest

    def count(data: Any) -> bytes:
        sizes.append(len(data))
        return digest(data)

    object.__setattr__(PREFERRED, "digest", count)
    yield sizes
    object.__setattr__(PREFERRED, "digest", digest)


def noise(seed: int = 0, size: int = 4 * MB) -> np.ndarray:
    """Random bytes in a mapping of their own, so that no address of an earlier test comes back."""
    array = np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    array[:] = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
    return array


def restored(store: Store, ref: str = "n") -> dict[str, Any]:
    tracker, namespace = Tracker(store), dict[str, Any]()
    assert tracker.verify([ref]).damages == []
    assert tracker.restore(ref, namespace).failed == ()
    return namespace


def test_an_unwritten_array_is_not_hashed_again(way: str, hashed: list[int]) -> None:
    array, tracker = noise(), Tracker(MemoryStore())
    tracker.save({"array": array}, "n")
    hashed.clear()
    array[2 * MB] += 1
    tracker.save({"array": array}, "n")
    blobs = hashed.count(BLOB)
    assert blobs == (2 if way == "record" else 17)  # the changed blob is hashed again when it is written
    assert (restored(tracker.store)["array"] == array).all()


def test_another_store_gets_what_the_first_one_has() -> None:
    array, first, second = noise(), MemoryStore(), MemoryStore()
    Tracker(first).save({"array": array}, "n")
    array[5] += 1
    Tracker(second).save({"array": array}, "n")
    assert (restored(second)["array"] == array).all()


def test_a_store_with_another_digest_gets_its_own_digests() -> None:
    array, second = noise(), Tracker(MemoryStore())
    second.history.check_format(create=True, algorithms=PORTABLE)
    Tracker(MemoryStore()).save({"array": array}, "n")
    for _ in range(2):
        second.save({"array": array}, "n")
    assert (restored(second.store)["array"] == array).all()


def test_a_damaged_pack_is_written_again_from_unwritten_arrays() -> None:
    array, store = noise(), MemoryStore()
    tracker = Tracker(store)
    (pack,) = tracker.save({"array": array}, "n").manifest.packs()
    data = bytearray(store.get(pack_key(pack)))
    data[-7] ^= 1
    store.put(pack_key(pack), bytes(data))
    assert len(tracker.verify().damages) == 1
    tracker.save({"array": array}, "n")
    assert (restored(store, "n@1")["array"] == array).all()
    assert (restored(store, "n@2")["array"] == array).all()


def test_what_another_kernel_collected_is_written_again() -> None:
    array, store = noise(), MemoryStore()
    tracker = Tracker(store)
    tracker.save({"array": array}, "n")
    other = Tracker(store)
    other.remove(["n"])
    assert collect(other.history, wait=lambda _: None).packs
    tracker.save({"array": array}, "n")
    assert (restored(store)["array"] == array).all()


def test_a_failed_save_vouches_for_nothing() -> None:
    array, store = noise(), MemoryStore()
    Tracker(store).save({"array": array}, "n")
    array[MB] += 1
    full = FaultyStore(store, when=lambda call: call.op == "put" and call.key.startswith("packs/"))
    with pytest.raises(StoreError):
        Tracker(full).save({"array": array}, "n")
    array[2 * MB] += 1
    Tracker(store).save({"array": array}, "n")
    assert (restored(store)["array"] == array).all()


class Meddler(MemoryStore):
    """A store during whose puts of packs a thread of the user writes to an array."""

    def __init__(self) -> None:
        super().__init__()
        self.array: np.ndarray | None = None

    def put(self, key: str, data: Data) -> None:
        if key.startswith("packs/") and self.array is not None:
            writer = threading.Thread(target=self.array.__setitem__, args=(2 * MB, self.array[2 * MB] ^ 1))
            writer.start()
            writer.join()
        super().put(key, data)


def test_a_write_during_the_save_of_others_is_marked() -> None:
    array, store = noise(), Meddler()
    tracker = Tracker(store)
    tracker.save({"array": array}, "n")
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    store.array = array
    saved = tracker.save({"array": array, "new": noise(1)}, "n")
    store.array = None
    again = tracker.save({"array": array}, "n")
    done.set()
    thread.join()
    assert [value.name for value in saved.manifest.values if value.changed] == ["array"]
    assert [value.name for value in again.manifest.values if value.changed] == []
    assert (restored(store)["array"] == array).all()


def test_a_write_after_the_save_is_in_the_next() -> None:
    array, store = noise(), Meddler()
    store.array = array  # written while its own pack is put
    tracker = Tracker(store)
    tracker.save({"array": array}, "n")
    store.array = None
    tracker.save({"array": array}, "n")
    assert (restored(store)["array"] == array).all()


def test_new_values_at_an_old_address_are_saved() -> None:
    store, size = MemoryStore(), 4 * MB
    libc = ctypes.CDLL(None)
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    array = np.frombuffer(memory, np.uint8)
    array[:] = 1
    Tracker(store).save({"array": array}, "n")
    libc.mmap.restype = ctypes.c_void_p
    where, length = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(size)
    assert libc.mmap(where, length, 3, 0x32, -1, ctypes.c_long(0)) == array.ctypes.data  # fixed
    for value in (0, 7):
        array[:] = value
        Tracker(store).save({"array": array}, "n")
        assert (restored(store)["array"] == value).all()


def test_arrays_of_a_reused_heap_are_saved() -> None:
    store = MemoryStore()
    for step in range(8):
        array = np.full(300_000 + step % 2 * 1000, step, np.int64)
        Tracker(store).save({"array": array}, "n")
        assert (restored(store)["array"] == step).all()
        del array


@pytest.mark.parametrize(
    "size", [2 * MB, pytest.param(40 * MB, marks=pytest.mark.slow)], ids=["heap", "mapping"]
)
def test_a_resized_array_is_saved(size: int) -> None:
    array, store = np.ones(size, np.uint8), MemoryStore()
    for step, length in enumerate((size * 2, size, size + 5, size * 3)):
        array.resize(length, refcheck=False)
        array[step * 1000] = step
        for _ in range(2):
            Tracker(store).save({"array": array}, "n")
        assert (restored(store)["array"] == array).all()


def test_views_under_other_names_are_saved() -> None:
    array, store = noise(), MemoryStore()
    view, tracker = array[MB : 3 * MB], Tracker(store)
    tracker.save({"array": array}, "n")
    tracker.save({"view": view}, "n")
    view[100] += 1
    tracker.save({"array": array}, "n")
    assert (restored(store)["array"] == array).all()
    array[MB + 300_000] += 1
    tracker.save({"view": view, "array": array}, "n")
    namespace = restored(store)
    assert (namespace["view"] == view).all()
    assert np.shares_memory(namespace["view"], namespace["array"])


def a_bytearray() -> tuple[Any, Callable[[], None], Callable[[Any], bytes]]:
    memory = bytearray(noise())
    return memory, lambda: memory.__setitem__(2 * MB, memory[2 * MB] ^ 1), bytes


def a_frame() -> tuple[Any, Callable[[], None], Callable[[Any], bytes]]:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({name: np.arange(400_000.0) for name in "ab"})

    def change() -> None:
        frame.loc[200_000, "a"] = -1.0

    return frame, change, lambda saved: saved.to_numpy().tobytes()


def a_tensor() -> tuple[Any, Callable[[], None], Callable[[Any], bytes]]:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(1_000_000, dtype=torch.float64)
    return tensor, lambda: tensor[500_000:500_001].add_(1), lambda saved: saved.numpy().tobytes()


@pytest.mark.parametrize("make", [a_bytearray, a_frame, a_tensor])
def test_changes_of_other_kinds_of_buffers_are_saved(make: Callable[[], Any]) -> None:
    value, change, content = make()
    store = MemoryStore()
    for _ in range(3):
        Tracker(store).save({"value": value}, "n")
        assert content(restored(store)["value"]) == content(value)
        change()


def test_a_fork_saves_the_writes_of_its_own_process(tmp_path: Path) -> None:
    array = noise()
    Tracker(tmp_path / "s").save({"array": array}, "both")
    child = os.fork()
    if not child:
        status = 1
        try:
            for step in range(2):
                array[MB + step] = 77
                Tracker(tmp_path / "s").save({"array": array}, "child")
            status = 0
        finally:
            os._exit(status)
    array[3 * MB] = array[3 * MB] ^ 1
    Tracker(tmp_path / "s").save({"array": array}, "parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store = LocalStore(tmp_path / "s")
    assert (restored(store, "parent")["array"] == array).all()
    mine = restored(store, "child")["array"]
    assert mine[MB] == mine[MB + 1] == 77
    assert mine[3 * MB] == array[3 * MB] ^ 1


def _save_in_process(folder: Path, array: np.ndarray) -> None:
    array[MB] ^= 1
    Tracker(folder).save({"array": array}, "child")
    assert (restored(LocalStore(folder), "child")["array"] == array).all()


def test_a_process_of_multiprocessing_saves_its_own(tmp_path: Path) -> None:
    array = noise()
    Tracker(tmp_path / "s").save({"array": array}, "n")
    process = multiprocessing.get_context("fork").Process(
        target=_save_in_process, args=(tmp_path / "s", array)
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    Tracker(tmp_path / "s").save({"array": array}, "n")
    assert (restored(LocalStore(tmp_path / "s"))["array"] == array).all()


def test_a_comparison_sees_a_change() -> None:
    array, tracker = noise(), Tracker(MemoryStore())
    tracker.save({"array": array}, "n")
    assert [row.change for row in tracker.diff("n", "", {"array": array}).differences] == ["same"]
    array[MB] ^= 1
    assert [row.change for row in tracker.diff("n", "", {"array": array}).differences] == ["changed"]
    tracker.save({"array": array}, "n")
    assert (restored(tracker.store)["array"] == array).all()


@pytest.mark.slow
def test_many_saves_keep_files_and_memory_flat() -> None:
    array, tracker, saves = noise(), Tracker(MemoryStore()), share.of(1000, 300)
    names: dict[str, Any] = {"array": array}
    for step in range(saves):
        names["other"] = np.full(200_000, step)
        array[step * 4000] ^= 1
        tracker.save(names, "n")
        if step == 100:
            files, pages = open_files(), resident()
    assert open_files() == files
    assert resident() - pages < saves * 4 * BLOB + (64 << 20)  # the store is in memory
    assert len(hashes.DIGESTS.buffers) <= hashes.MOST_BUFFERS


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


WRITES = st.lists(
    st.one_of(
        st.tuples(st.just("save"), st.integers(0, 2), st.just(0), st.just(0)),
        st.tuples(
            st.sampled_from(["slice", "pointer", "thread", "view", "replace", "drop"]),
            st.integers(0, 2),
            st.integers(0, 5 * BLOB),
            st.integers(1, 2 * BLOB),
        ),
    ),
    min_size=3,
    max_size=14,
)


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(WRITES)
def test_every_save_restores_to_a_copy_made_then(steps: list[tuple[str, int, int, int]]) -> None:
    arrays = [np.zeros(5 * BLOB + 100 * n, np.uint8) for n in range(3)]
    tracker, copies = Tracker(MemoryStore()), list[list[np.ndarray]]()
    for number, (act, at, start, length) in enumerate([*steps, ("save", 0, 0, 0), ("save", 1, 0, 0)]):
        array, value = arrays[at], number % 255 + 1
        if act == "save":
            names = {f"a{n}": array for n, array in enumerate(arrays)}
            tracker.save(names if at else names | {"view": arrays[0][BLOB:]}, "n")
            copies.append([array.copy() for array in arrays])
        elif act == "replace":
            arrays[at] = np.empty(len(array), np.uint8)
            arrays[at][: length % 9] = value
        elif act == "drop":
            page = -(-(array.ctypes.data + start) // mmap.PAGESIZE) * mmap.PAGESIZE
            if page + mmap.PAGESIZE <= array.ctypes.data + len(array):
                ctypes.CDLL(None).madvise(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), 4)
        else:
            write(act, array, start, min(length, len(array) - start), value)
    for version, then in enumerate(copies, 1):
        namespace = restored(tracker.store, f"n@{version}")
        assert all((namespace[f"a{n}"] == array).all() for n, array in enumerate(then))


def write(act: str, array: np.ndarray, start: int, length: int, value: int) -> None:
    if act == "pointer":
        ctypes.memset(array.ctypes.data + start, value, length)
    elif act == "thread":
        thread = threading.Thread(target=array[start : start + length].fill, args=(value,))
        thread.start()
        thread.join()
    elif act == "view":
        np.frombuffer(memoryview(array)[start : start + length], np.uint8)[::7] = value
    else:
        array[start : start + length] = value


@pytest.mark.parametrize("number", [1, 38], ids=["EPERM", "ENOSYS"])
def test_saves_are_right_where_linux_refuses(
    number: int, monkeypatch: pytest.MonkeyPatch, hashed: list[int]
) -> None:
    def refuse() -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("nbckpt.core.memory.pages.PROCESS.record", PageRecord(refuse))
    array, tracker = noise(), Tracker(MemoryStore())
    tracker.save({"array": array}, "n")
    hashed.clear()
    array[MB] ^= 1
    tracker.save({"array": array}, "n")
    assert hashed.count(BLOB) >= 16
    assert (restored(tracker.store)["array"] == array).all()


def test_a_packer_that_fails_leaves_the_next_look_right() -> None:
    array, store = noise(), MemoryStore()
    packer = Packer(store)
    packer.add(memoryview(array))
    packer.__exit__(KeyboardInterrupt, None, None)
    array[MB] ^= 1
    Tracker(store).save({"array": array}, "n")
    assert (restored(store)["array"] == array).all()
