"""A store in memory, and stores around another: faults, records, a prefix, and a cache that is checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nbckpt
from nbckpt import Tracker
from nbckpt.errors import NotFoundError, StoreError, UsageError
from nbckpt.store import CachedStore, LocalStore, MemoryStore, PrefixStore, Store, open_store
from nbckpt.testing import Call, FaultyStore, RecordingStore, StoreTests


class TestFaultyStoreWithoutFaults(StoreTests):
    @pytest.fixture
    def store(self) -> Store:
        return FaultyStore(MemoryStore(), when=lambda _: False)


class TestRecordingStore(StoreTests):
    @pytest.fixture
    def store(self) -> Store:
        return RecordingStore(MemoryStore())


def test_every_call_can_fail(subtests: pytest.Subtests) -> None:
    calls: dict[str, Callable[[Store], object]] = {
        "get": lambda store: store.get("a"),
        "put": lambda store: store.put("a", b"x"),
        "exists": lambda store: store.exists("a"),
        "keys": lambda store: list(store.keys()),
        "sizes": lambda store: list(store.sizes()),
        "delete": lambda store: store.delete("a"),
    }
    for name, call in calls.items():
        store = FaultyStore(MemoryStore())
        with subtests.test(name):
            with pytest.raises(StoreError, match="as the test asked"):
                call(store)
            assert store.failed == 1


def test_only_the_nth_call_fails() -> None:
    store = FaultyStore(MemoryStore(), fail_at=2)
    store.put("a", b"x")
    with pytest.raises(StoreError):
        store.put("b", b"x")
    store.put("b", b"x")
    assert (store.counted, store.failed) == (3, 1)


def test_a_fault_before_the_work_changes_nothing() -> None:
    store = FaultyStore(MemoryStore())
    with pytest.raises(StoreError):
        store.put("a", b"x")
    assert not store.store.exists("a")


def test_a_halfway_fault_is_raised_after_the_work() -> None:
    store = FaultyStore(MemoryStore(), halfway=True)
    with pytest.raises(StoreError):
        store.put("a", b"x")
    assert store.store.get("a") == b"x"
    listing = store.keys()
    assert next(listing) == "a"
    with pytest.raises(StoreError):
        next(listing)


def test_the_calls_that_fail_can_be_chosen() -> None:
    chosen = FaultyStore(
        MemoryStore(), fail_at=2, when=lambda call: call.key.startswith("a/"), error=OSError("unplugged")
    )
    chosen.put("b", b"x")
    chosen.put("a/1", b"x")
    with pytest.raises(OSError, match="unplugged"):
        chosen.put("a/2", b"x")
    assert list(chosen.store.keys()) == ["a/1", "b"]


def test_calls_are_recorded_when_they_succeeded() -> None:
    store = RecordingStore(MemoryStore())
    store.put("a", [b"x", b"y"])
    store.delete("a")
    with pytest.raises(NotFoundError):
        store.get("a")
    assert list(store.keys("a")) == []
    assert store.calls == [Call("put", "a", b"xy"), Call("delete", "a"), Call("keys", "a")]


def test_a_recording_gives_every_state_that_a_crash_leaves() -> None:
    inner = MemoryStore()
    inner.put("old", b"0")
    store = RecordingStore(inner)
    store.put("new", b"1")
    store.delete("old")
    states = [{key: contents.get(key) for key in list(contents.keys())} for contents in store.crashes()]
    assert states == [{"old": b"0"}, {"old": b"0", "new": b"1"}, {"new": b"1"}]


class TestMemoryStore(StoreTests):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


def test_two_stores_share_nothing() -> None:
    one, other = MemoryStore(), MemoryStore()
    one.put("a", b"x")
    assert not other.exists("a")


def test_a_store_opens_as_itself() -> None:
    store = MemoryStore()
    assert open_store(store) is store


def test_the_default_sizes_skip_keys_that_vanish() -> None:
    class Vanishing(MemoryStore):
        sizes = Store.sizes

        def keys(self, prefix: str = "") -> Iterator[str]:
            yield from [*super().keys(prefix), "gone"]

    store = Vanishing()
    store.put("b", b"22")
    store.put("a", b"1")
    assert list(store.sizes()) == [("a", 1), ("b", 2)]


class TestPrefixStore(StoreTests):
    @pytest.fixture
    def store(self) -> PrefixStore:
        self.whole = MemoryStore()
        return PrefixStore(self.whole, "some/folder")

    def get_behind(self, store: Store, key: str) -> bytes:
        return self.whole.get(f"some/folder/{key}")

    def put_behind(self, store: Store, key: str, data: bytes) -> None:
        self.whole.put(f"some/folder/{key}", data)


def test_keys_outside_the_prefix_are_invisible() -> None:
    whole = MemoryStore()
    for key in ("a", "a2/b", "ab/c", "b/a/x"):
        whole.put(key, b"x")
    part = PrefixStore(whole, "a")
    assert list(part.keys()) == []
    assert not part.exists("b")


def test_a_prefix_store_drops_the_cached_copy_of_a_key(tmp_path: Path) -> None:
    whole = MemoryStore()
    store = PrefixStore(CachedStore(whole, tmp_path, 1 << 20), "packs")
    store.put("x", b"1")
    assert store.get("x") == b"1"
    whole.put("packs/x", b"2")
    store.forget("x")
    assert store.get("x") == b"2"


def test_a_folder_must_be_a_key(subtests: pytest.Subtests) -> None:
    for folder in ("", "..", "a/../b", "/a", "a/"):
        with subtests.test(folder), pytest.raises(UsageError):
            PrefixStore(MemoryStore(), folder)


def test_a_prefix_store_uses_the_files_of_its_store(tmp_path: Path) -> None:
    store = PrefixStore(LocalStore(tmp_path), "a/b")
    store.put("c", b"x")
    assert store.path("c") == tmp_path / "a" / "b" / "c"
    assert PrefixStore(MemoryStore(), "a").path("c") is None


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
