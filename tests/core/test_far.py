"""Stores without local files: many values or files are fetched at once, and a damaged value fails alone."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.gc import collect
from nbckpt.errors import CorruptError
from nbckpt.store import CachedStore, LocalStore, MemoryStore, Store
from nbckpt.testing import FaultyStore
from nbckpt.testing.faults import Call
from nbckpt.tracker import Tracker

KB, MB = 1 << 10, 1 << 20
LARGE = 48 * KB


class Far(MemoryStore):
    """A store whose large reads of packs wait at *gate*.

    Attributes:
        read: The sizes of the reads of packs.
        most: The largest number of reads that were under way at once.
        on_read: Called with the number of bytes before each read of a pack.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Barrier(1)
        self.read: list[int] = []
        self.most = self._running = 0
        self.on_read: Callable[[int], None] = lambda _: None
        self._lock = threading.Lock()

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        if not key.startswith("packs/") or not start or stop is None:
            return super().get(key, start, stop)
        with self._lock:
            self.read.append(stop - start)
            self._running += 1
            self.most = max(self.most, self._running)
            self.on_read(stop - start)
        try:
            if stop - start > LARGE:
                self.gate.wait(timeout=60)
            return super().get(key, start, stop)
        finally:
            with self._lock:
                self._running -= 1

    @property
    def large(self) -> int:
        """The number of large reads."""
        return sum(size > LARGE for size in self.read)


def arrays(count: int, size: int) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    return {f"v{at}": np.frombuffer(draw.bytes(size), np.uint8) for at in range(count)}


def lists(count: int, length: int) -> dict[str, Any]:
    draw = random.Random(0)
    return {f"v{at}": [draw.random() for _ in range(length)] for at in range(count)}


def saved(values: dict[str, Any]) -> Far:
    """Return a store that has *values* under the name `x`."""
    far = Far()
    with Tracker(far) as tracker:
        tracker.save(values, "x", variables=list(values))
    far.read.clear()
    far.most = 0
    return far


def restored(store: Any, names: tuple[str, ...] = (), **options: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the restored values, and the names of those that failed."""
    namespace: dict[str, Any] = {}
    with Tracker(store) as tracker:
        failed = tracker.restore(options.pop("ref", "x"), namespace, names, **options).failed
    return namespace, [failure.names for failure in failed]


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def restore(store: Far) -> dict[str, Any]:
    return restored(store)[0]


def to_dict(store: Far) -> dict[str, Any]:
    return dict(Checkpoint.from_store(store, "x").to_dict())


@pytest.mark.parametrize("load", [restore, to_dict])
@pytest.mark.parametrize(("make", "size"), [(arrays, MB), (lists, 8000)], ids=["arrays", "records"])
def test_eight_values_are_fetched_at_once(
    make: Callable[[int, int], dict[str, Any]], size: int, load: Callable[[Far], dict[str, Any]]
) -> None:
    values = make(40, size)
    store = saved(values)
    store.gate = threading.Barrier(8)
    assert same(load(store), values)
    assert store.large == 40
    assert store.most == 8


def test_records_of_many_arrays_are_fetched_together() -> None:
    store = saved(arrays(40, 64 * KB))
    restore(store)
    assert len(store.read) == 41


def test_neighbouring_short_values_are_fetched_together() -> None:
    store = saved(lists(100, 800))
    restore(store)
    assert len(store.read) == 1


def files(count: int, size: int) -> dict[str, bytes]:
    draw = random.Random(0)
    return {f"part/{at:03}.bin": draw.randbytes(size) for at in range(count)} | {"empty.txt": b""}


def with_files(contents: dict[str, bytes]) -> Far:
    """Return a store that has a checkpoint of these files under the name `x`."""
    far = Far()
    Checkpoint.from_dict({"n": 1, Checkpoint.FILES: contents}).to_store(far, "x")
    far.read.clear()
    far.most = 0
    return far


def to_directory(store: Store, folder: Path) -> dict[str, bytes]:
    made = Path(Checkpoint.from_store(store, "x").to_directory(folder / "made"))
    paths = {path.relative_to(made).as_posix(): path for path in made.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in paths.items() if not name.startswith(".nbckpt/")}


def to_store(store: Store, _: Path) -> dict[str, bytes]:
    other = MemoryStore()
    Checkpoint.from_store(store, "x").to_store(other, "x")
    return dict(Checkpoint.from_store(other, "x").to_dict()[Checkpoint.FILES])


def to_uri(store: Store, folder: Path) -> dict[str, bytes]:
    uri = Checkpoint.from_store(store, "x").to_uri(f"file://{folder}/made")
    return dict(Checkpoint.from_uri(uri).to_dict()[Checkpoint.FILES])


FORMS = pytest.mark.parametrize("form", [to_directory, to_store, to_uri])
Form = Callable[[Store, Path], dict[str, bytes]]


@FORMS
def test_eight_files_are_fetched_at_once(form: Form, tmp_path: Path) -> None:
    contents = files(40, MB)
    store = with_files(contents)
    store.gate = threading.Barrier(8)
    assert form(store, tmp_path) == contents
    assert store.large == 40
    assert store.most == 8


@FORMS
def test_neighbouring_short_files_are_fetched_together(form: Form, tmp_path: Path) -> None:
    contents = files(200, 2000)
    store = with_files(contents)
    assert form(store, tmp_path) == contents
    assert len(store.read) <= 2


@FORMS
def test_files_whose_packs_move_meanwhile_are_whole(
    form: Form, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for at in range(1, 8):
        with subtests.test(at=at):
            move_before_read(at, form, tmp_path / str(at))


def move_before_read(at: int, form: Form, folder: Path) -> None:
    """Compact the packs of a checkpoint right before the read number *at* of a conversion."""
    contents, store = files(6, 300 * KB), MemoryStore()
    lost = {f"lost{number}.bin": random.Random(number).randbytes(900 * KB) for number in range(3)}
    Checkpoint.from_dict({Checkpoint.FILES: contents | lost}).to_store(store, "both")
    Checkpoint.from_dict({Checkpoint.FILES: contents}).to_store(store, "x")
    Tracker(store).remove(["both"])
    reads, moved = itertools.count(1), list[object]()

    def collects(call: Call) -> bool:
        if call.op == "get" and call.key.endswith(".pack") and next(reads) == at:
            moved.append(collect(Tracker(store).history, wait=lambda _: None).rewritten)
        return False

    assert form(FaultyStore(store, when=collects), folder) == contents
    assert moved[0]


@FORMS
def test_a_damaged_file_makes_nothing_of_a_checkpoint(form: Form, tmp_path: Path) -> None:
    contents = files(12, 300 * KB)
    store = with_files(contents)
    for key in [key for key in store.keys("packs/") if contents["part/007.bin"][:99] in store.get(key)]:
        broken = bytearray(store.get(key))
        broken[broken.index(contents["part/007.bin"]) + 5] ^= 1
        store.put(key, bytes(broken))
    with pytest.raises(CorruptError):
        form(store, tmp_path)
    assert not (tmp_path / "made" / "part" / "007.bin").exists()


@pytest.mark.parametrize("verify", [True, False], ids=["verified", "lazy"])
def test_one_damaged_value_among_many_fails_alone(verify: bool) -> None:
    values = arrays(40, 64 * KB)
    store = saved(values)
    (key,) = store.keys("packs/")
    broken = bytearray(store.get(key))
    broken[broken.index(values["v17"].tobytes()) + 5] ^= 1
    store.put(key, bytes(broken))
    namespace, failed = restored(store, lazy=not verify)
    del values["v17"]
    assert failed == [("v17",)]
    assert same(namespace, values)


def test_values_of_a_missing_pack_fail_and_others_load() -> None:
    first, second = arrays(10, 64 * KB), lists(10, 8000)
    store = saved(first)
    (gone,) = store.keys("packs/")
    values = first | {f"w{name}": value for name, value in second.items()}
    with Tracker(store) as tracker:
        tracker.save(values, "y", variables=list(values))
    store.delete(gone)
    namespace, failed = restored(store, ref="y")
    assert sorted(failed) == sorted((name,) for name in first)
    assert same(namespace, {name: value for name, value in values.items() if name not in first})


def test_the_bytes_fetched_ahead_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbckpt.core.values.loading.BATCH_SIZE", MB)
    values = arrays(64, 128 * KB)
    store = saved(values)
    loaded, requested, ahead = [0], [0], [0]

    def on_read(size: int) -> None:
        requested[0] += size
        ahead.append(requested[0] - loaded[0])

    store.on_read = on_read
    namespace, _ = restored(store, progress=lambda done, _: loaded.__setitem__(0, done))
    assert same(namespace, values)
    assert MB // 2 < max(ahead) < MB + 64 * KB


def test_an_interrupt_of_a_fetch_ends_the_restore() -> None:
    store = saved(arrays(40, 64 * KB))

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    store.on_read = interrupt
    with pytest.raises(KeyboardInterrupt):
        restore(store)
    assert len(store.read) <= 8


def test_a_cache_has_the_arrays_that_other_restores_read(tmp_path: Path) -> None:
    values = arrays(20, 64 * KB)
    store = saved(values)
    cached = CachedStore(store, tmp_path, 1 << 30)
    restored(cached)
    assert store.large == 20
    values["v7"] = values["v7"][::-1].copy()
    with Tracker(store) as tracker:
        tracker.save(values, "x", variables=list(values))
    store.read.clear()
    assert same(restored(cached)[0], values)
    assert same(restored(cached, ("v3", "v4"))[0], {name: values[name] for name in ("v3", "v4")})
    assert store.large == 1


def test_a_refused_link_fails_the_values_behind_it(tmp_path: Path) -> None:
    values = arrays(3, 64 * KB)
    store = LocalStore(tmp_path / "s")
    with Tracker(store) as tracker:
        tracker.save(values, "x", variables=list(values))
    (tmp_path / "s" / "packs").rename(tmp_path / "outside")
    (tmp_path / "s" / "packs").symlink_to(tmp_path / "outside", target_is_directory=True)
    namespace, failed = restored(LocalStore(tmp_path / "s"))
    assert not namespace
    assert sorted(failed) == [("v0",), ("v1",), ("v2",)]
