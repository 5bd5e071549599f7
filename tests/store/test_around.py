from __future__ import annotations

from collections.abc import Callable

import pytest

from nbckpt.errors import NotFoundError, StoreError
from nbckpt.store import MemoryStore, Store
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
