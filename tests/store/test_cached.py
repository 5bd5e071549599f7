"""CachedStore: what was read of a remote store is not asked for again, and never trusted blindly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbckpt
from nbckpt import Tracker
from nbckpt.errors import NotFoundError
from nbckpt.store import CachedStore, MemoryStore, Store
from nbckpt.testing import RecordingStore, StoreTests

DATA = os.urandom(10_000)


class TestStore(StoreTests):
    """It is a store like any other."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        return CachedStore(MemoryStore(), tmp_path, 1 << 20)


@pytest.fixture
def below() -> RecordingStore:
    store = MemoryStore()
    store.put("packs/ab/abc", DATA)
    store.put("refs/one/00000001-abc", b"abc")
    return RecordingStore(store)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def gets(below: RecordingStore) -> int:
    return sum(call.op == "get" for call in below.calls)


def test_a_cached_range_is_not_requested_again_by_a_new_process(
    below: RecordingStore, tmp_path: Path
) -> None:
    for _ in range(2):
        store = CachedStore(below, tmp_path, 1 << 20)
        assert store.get("packs/ab/abc", 100, 200) == DATA[100:200]
        assert store.get("packs/ab/abc") == DATA
    assert gets(below) == 2


def test_names_are_never_cached(below: RecordingStore, tmp_path: Path) -> None:
    store = CachedStore(below, tmp_path, 1 << 20)
    for _ in range(2):
        assert store.get("refs/one/00000001-abc") == b"abc"
    assert gets(below) == 2


def test_a_damaged_cached_range_is_requested_again(below: RecordingStore, tmp_path: Path) -> None:
    store = CachedStore(below, tmp_path, 1 << 20)
    store.get("packs/ab/abc")
    (file,) = files(tmp_path)
    whole = file.read_bytes()
    for data in (b"", b"x", whole[:-1], bytes([whole[0] ^ 1]) + whole[1:]):
        file.write_bytes(data)
        assert store.get("packs/ab/abc") == DATA
    assert gets(below) == 5


def test_tables_of_moved_packs_are_never_cached(below: RecordingStore, tmp_path: Path) -> None:
    below.store.put("packs/ab/abc.moved", b"1")
    store = CachedStore(below, tmp_path, 1 << 20)
    assert store.get("packs/ab/abc.moved") == b"1"
    below.store.put("packs/ab/abc.moved", b"2")
    assert store.get("packs/ab/abc.moved") == b"2"


def test_two_stores_do_not_share_cached_data(tmp_path: Path) -> None:
    one, other = MemoryStore(), MemoryStore()
    one.url, other.url = "s3://one", "s3://other"
    one.put("packs/a", b"1")
    other.put("packs/a", b"2")
    assert [CachedStore(store, tmp_path, 1 << 20).get("packs/a") for store in (one, other)] == [b"1", b"2"]


def test_the_least_recently_used_data_is_evicted_first(below: RecordingStore, tmp_path: Path) -> None:
    store = CachedStore(below, tmp_path, 1 << 20)
    store.get("packs/ab/abc", 0, 4000)
    (old,) = files(tmp_path)
    os.utime(old, (1, 1))
    store.get("packs/ab/abc", 4000, 8000)
    CachedStore(below, tmp_path, 6000).get("packs/ab/abc", 8000, 9000)
    assert not old.exists()
    assert len(files(tmp_path)) == 2


def test_without_a_writable_cache_every_read_asks_the_store(below: RecordingStore, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = CachedStore(below, tmp_path / "file", 1 << 20)
    assert [store.get("packs/ab/abc") for _ in range(2)] == [DATA] * 2
    assert gets(below) == 2


def test_a_missing_key_is_not_cached(below: RecordingStore, tmp_path: Path) -> None:
    store = CachedStore(below, tmp_path, 1 << 20)
    for _ in range(2):
        with pytest.raises(NotFoundError):
            store.get("packs/none")
    store.put("packs/none", b"1")
    assert store.get("packs/none") == b"1"


@pytest.mark.slow
def test_a_remote_tracker_fetches_only_the_needed_data_and_once(
    s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numpy = pytest.importorskip("numpy")
    arrays = {"small": 1, "large": numpy.random.default_rng(0).bytes(2 << 20), "other": os.urandom(1 << 20)}
    with Tracker(f"{s3_bucket}/store") as tracker:
        tracker.save(arrays, "one")
    asked: list[int] = []
    get = nbckpt.store.RemoteStore.get

    def counted(self: Store, key: str, start: int = 0, stop: int | None = None) -> bytes:
        data = get(self, key, start, stop)  # type: ignore[arg-type]
        asked.append(len(data))
        return data

    monkeypatch.setattr(nbckpt.store.RemoteStore, "get", counted)
    for most in (200_000, 2_000):
        asked.clear()
        with Tracker(f"{s3_bucket}/store") as tracker:
            namespace: dict[str, object] = {}
            tracker.restore("one", namespace, ["small"])
            assert namespace == {"small": 1}
        assert sum(asked) < most
    with Tracker(f"{s3_bucket}/store") as tracker:
        tracker.restore("one", namespace)
    assert namespace == arrays
