"""Reader: mapped, read from a file or from memory, the bytes are the same, and they are checked."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbckpt.core.gc import collect
from nbckpt.core.packs.content import Run
from nbckpt.core.packs.format import pack_key
from nbckpt.core.packs.mapping import MAPS
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer
from nbckpt.errors import CorruptError
from nbckpt.store import CachedStore, LocalStore, MemoryStore, Store
from nbckpt.testing import RecordingStore
from nbckpt.tracker import Tracker

KB, MB = 1 << 10, 1 << 20
EDGES = [n + d for n in (4 * KB, 64 * KB, 256 * KB, MB) for d in (-1, 0, 1)]
WAYS = ["mapped", "plain", "memory"]


def noise(size: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def kept(store: Store, *buffers: bytes) -> list[list[Run]]:
    with Packer(store, inline=False) as packer:
        stored = [packer.add(data) for data in buffers]
        packer.finish()
    return [packer.runs(part) for part in stored]


def reader(way: str, store: Store) -> Reader:
    return Reader(store, mapping=way == "mapped")


def get(reader: Reader, runs: list[Run], *, verify: bool) -> memoryview:
    return reader.load(runs) if verify else reader.load_later([runs], None)[0][0]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(way: str, tmp_path: Path) -> Store:
    return MemoryStore() if way == "memory" else LocalStore(tmp_path / "s")


@pytest.mark.slow
def test_the_bytes_are_those_that_were_saved(store: Store, way: str, subtests: pytest.Subtests) -> None:
    for size in (0, 1, *EDGES, 9 * MB + 1):
        data = noise(size)
        (runs,) = kept(store, data)
        for verify in (True, False):
            with subtests.test(size=size, verify=verify):
                memory = get(reader(way, store), runs, verify=verify)
                assert memory == data
                assert not memory.readonly


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.lists(st.tuples(st.sampled_from([0, 1, *EDGES]), st.integers(0, 2)), min_size=1, max_size=6))
def test_mapped_and_copied_reads_are_equal(tmp_path: Path, parts: list[tuple[int, int]]) -> None:
    buffers = [noise(size, seed) for size, seed in parts]
    local, memory = LocalStore(tmp_path / "s"), MemoryStore()
    for store, mapping in ((local, True), (local, False), (memory, True)):
        for data, runs in zip(buffers, kept(store, *buffers), strict=True):
            assert Reader(store, mapping=mapping).load(runs) == Reader(store).read(runs) == data


def test_an_array_from_several_packs_is_contiguous(store: Store, way: str) -> None:
    data = noise(2 * MB)
    kept(store, data[: MB // 2], data[3 * MB // 2 :])
    tracker = Tracker(store)
    array = np.frombuffer(data, np.uint8)
    tracker.save({"a": array}, "s", variables=["a"])
    namespace: dict[str, np.ndarray] = {}
    tracker.restore("s", namespace)
    assert np.array_equal(namespace["a"], array)
    assert way in WAYS


def test_a_flipped_bit_is_found(store: Store, way: str) -> None:
    data = noise(3 * MB)
    (runs,) = kept(store, data)
    key = pack_key(runs[0][0])
    whole = store.get(key)
    for at in (0, 100 * KB, 256 * KB, 3 * MB - 1):
        flipped = bytearray(whole)
        flipped[whole.index(data[:64]) + at] ^= 4
        store.put(key, bytes(flipped))
        with pytest.raises(CorruptError, match=r"pack \w{12} is damaged in bytes \d+ to \d+.*`%ckpt verify`"):
            reader(way, store).load(runs)
        with pytest.raises(CorruptError):
            reader(way, store).read(runs)


def test_a_pack_that_was_cut_short_is_found(store: Store, way: str, subtests: pytest.Subtests) -> None:
    (runs,) = kept(store, noise(3 * MB))
    key = pack_key(runs[0][0])
    whole = store.get(key)
    for keep in (0, 10, 16, 1000, 4096, 1 << 20, -1):
        store.put(key, whole[:keep])
        for verify in (True, False):
            with subtests.test(keep=keep, verify=verify), pytest.raises(CorruptError):
                get(reader(way, store), runs, verify=verify)


def test_a_missing_pack_is_named(store: Store, way: str) -> None:
    (runs,) = kept(store, noise(MB))
    store.delete(pack_key(runs[0][0]))
    with pytest.raises(CorruptError, match=f"pack {runs[0][0][:12]} is missing"):
        reader(way, store).load(runs)


def test_a_run_outside_the_pack_is_refused(store: Store, way: str, subtests: pytest.Subtests) -> None:
    (runs,) = kept(store, noise(MB))
    for run in ((0, 5), (4, 1), (-1, 1), (0, -1), (10**9, 1), (0, 10**18)):
        with (
            subtests.test(run=run),
            pytest.raises(CorruptError, match="has 4 blobs, not those that the manifest names"),
        ):
            reader(way, store).load([(runs[0][0], *run)])


def mostly_lost(store: Store, keep: int, lose: int) -> tuple[Tracker, list[Run], bytes]:
    """Save an array beside a larger one, and alone as `one`. Return where it is, and its bytes."""
    tracker = Tracker(store)
    kept, lost = (np.frombuffer(noise(size, size), np.uint8) for size in (keep, lose))
    tracker.save({"keep": kept, "lose": lost}, "both", variables=["keep", "lose"])
    tracker.save({"keep": kept}, "one", variables=["keep"])
    return tracker, list(tracker.manifest("one").groups[0].roots[0].runs), kept.tobytes()


def test_a_reader_finds_blobs_that_gc_moved_to_another_pack(store: Store, way: str) -> None:
    tracker, runs, data = mostly_lost(store, 300 * KB, 3 * MB)
    open_already = reader(way, store)
    assert open_already.blobs(runs)
    tracker.remove(["both"])
    assert collect(tracker.history, wait=lambda _: None).rewritten
    assert open_already.load(runs) == open_already.read(runs) == data


def compacted(store: Store, cached: Path, count: int = 2) -> tuple[Reader, list[list[Run]], list[bytes]]:
    """Return a reader whose cache has the heads of *count* packs, which another machine compacted."""
    far = Tracker(store)
    data = [noise(300 * KB, seed) for seed in range(count)]
    for number, part in enumerate(data):
        keep, lose = np.frombuffer(part, np.uint8), np.frombuffer(noise(3 * MB, 100 + number), np.uint8)
        far.save({"keep": keep, "lose": lose}, "both", variables=["keep", "lose"])
        far.save({"keep": keep}, f"one{number}", variables=["keep"])
    runs = [list(far.manifest(f"one{number}").groups[0].roots[0].runs) for number in range(count)]
    here = CachedStore(store, cached, 1 << 30)
    Reader(here).blobs([run for part in runs for run in part])
    far.remove([f"both@{number + 1}" for number in range(count)])
    assert len(collect(far.history, wait=lambda _: None).rewritten) == count
    return Reader(here), runs, data


@pytest.mark.parametrize("how", ["load", "read", "chunks"])
def test_packs_that_another_machine_moved_are_found(tmp_path: Path, how: str) -> None:
    reading, runs, data = compacted(MemoryStore(), tmp_path)
    loaded = getattr(reading, how)([run for part in runs for run in part])
    assert (b"".join(loaded) if how == "chunks" else loaded) == b"".join(data)


def test_values_in_packs_that_moved_are_read_together(tmp_path: Path) -> None:
    reading, runs, data = compacted(MemoryStore(), tmp_path, 3)
    loaded = reading.load_together([[part] for part in runs])
    assert [bytes(memory) for (memory,) in loaded] == data


def test_a_stream_goes_on_in_a_pack_that_moved(store: Store, way: str) -> None:
    tracker, runs, data = mostly_lost(store, 2 * MB, 9 * MB)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nbckpt.core.packs.stretches.READ_STEP", 256 * KB)
        patch.setattr("nbckpt.core.packs.reader.AT_ONCE", 1)
        chunks = iter(reader(way, store).chunks(runs))
        read = bytes(next(chunks))
        tracker.remove(["both"])
        assert collect(tracker.history, wait=lambda _: None).rewritten
        assert read + b"".join(chunks) == data


def test_a_lazy_load_does_not_read_the_body(tmp_path: Path) -> None:
    if not MAPS:
        pytest.skip("this system cannot map files")
    store = LocalStore(tmp_path / "s")
    (runs,) = kept(store, noise(3 * MB))
    file = store.path(pack_key(runs[0][0]))
    assert file
    with file.open("r+b") as opened:
        opened.seek(MB)
        opened.write(b"\0" * 100)
    assert len(get(Reader(store), runs, verify=False)) == 3 * MB
    with pytest.raises(CorruptError):
        Reader(store).load(runs)


def test_a_lazy_load_verifies_bytes_to_be_unpickled(store: Store, way: str) -> None:
    data = noise(MB)
    (runs,) = kept(store, data)
    key = pack_key(runs[0][0])
    whole = bytearray(store.get(key))
    whole[-1] ^= 1
    store.put(key, bytes(whole))
    with pytest.raises(CorruptError):
        reader(way, store).load_later([runs], None, checked=1)


def test_adjacent_blobs_are_fetched_together() -> None:
    store = RecordingStore(MemoryStore())
    (runs,) = kept(store, noise(4 * MB))
    store.calls.clear()
    Reader(store).read(runs)
    assert len([call for call in store.calls if call.op == "get"]) == 2  # the index and the body


def test_writing_to_the_memory_changes_no_file(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "s")
    (runs,) = kept(store, noise(MB))
    memory = Reader(store).load(runs)
    memory[:] = bytes(MB)
    assert Reader(store).load(runs) == noise(MB)


def test_a_file_that_shrank_never_ends_the_process(tmp_path: Path) -> None:
    code = """
        import os, sys
        from nbckpt import Tracker
        import numpy
        tracker = Tracker(sys.argv[1])
        tracker.save({"a": numpy.arange(1_000_000), "b": 1}, "s", variables=["a", "b"])
        for size in (7_999_999, 4_000_000, 4096, 100, 10, 0):
            (pack,) = [it for it in tracker.store.keys() if it.startswith(("packs/", "damaged/"))]
            os.truncate(tracker.store.path(pack), size)
            namespace = {}
            failed = tracker.restore("s", namespace).failed
            print(len(failed), "a" in namespace)
    """
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "s")],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(line.split()[1] == "False" for line in done.stdout.splitlines())


# Over a network.


class Far(MemoryStore):
    """A store whose reads of blobs wait until *together* of them are under way."""

    def __init__(self, together: int = 1) -> None:
        super().__init__()
        self.gate = threading.Barrier(together)
        self.reads = 0

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        if key.startswith("packs/") and start:
            self.gate.wait(timeout=60)
            self.reads += 1
        return super().get(key, start, stop)


def far(together: int, pieces: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Far, bytes, list[Run]]:
    """Return a store, what it holds, and where: each piece is read alone."""
    store = Far()
    data = noise(pieces << 18)
    (runs,) = kept(store, data)
    store.gate = threading.Barrier(together)
    monkeypatch.setattr("nbckpt.core.packs.stretches.READ_STEP", 1 << 18)
    return store, data, runs


def test_eight_pieces_are_fetched_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    store, data, runs = far(8, 32, monkeypatch)
    assert Reader(store).read(runs) == data
    assert store.reads == 32


def test_prefetching_does_not_run_ahead_of_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    store, data, runs = far(1, 32, monkeypatch)
    chunks = Reader(store).chunks(runs)
    assert bytes(next(iter(chunks))) == data[: 1 << 18]
    chunks.close()  # type: ignore[attr-defined]  # it is a generator
    assert store.reads <= 8


def test_damage_at_the_end_is_found_and_ends_the_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _, runs = far(1, 32, monkeypatch)
    (key,) = store.keys("packs/")
    broken = bytearray(store.get(key))
    broken[-5] ^= 1
    store.put(key, bytes(broken))
    with pytest.raises(CorruptError, match="is damaged in bytes"):
        Reader(store).read(runs)


def test_a_pack_deleted_during_the_fetch_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _, runs = far(1, 32, monkeypatch)
    (key,) = store.keys("packs/")
    reading = Reader(store)
    reading.blobs(runs)
    store.delete(key)
    with pytest.raises(CorruptError, match="is missing"):
        reading.read(runs)
