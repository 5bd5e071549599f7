from __future__ import annotations

import pytest

from nbckpt.store import MemoryStore, Store, open_store
from nbckpt.testing import StoreTests


class TestMemoryStore(StoreTests):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    def get_behind(self, store: Store, key: str) -> bytes:
        assert isinstance(store, MemoryStore)
        return store._data[key]

    def put_behind(self, store: Store, key: str, data: bytes) -> None:
        assert isinstance(store, MemoryStore)
        store._data[key] = data


def test_two_stores_share_nothing() -> None:
    one, other = MemoryStore(), MemoryStore()
    one.put("a", b"x")
    assert not other.exists("a")


def test_a_store_opens_as_itself() -> None:
    store = MemoryStore()
    assert open_store(store) is store
