from __future__ import annotations

from collections.abc import Iterator

import pytest

from nbckpt.store import MemoryStore, Store, open_store
from nbckpt.testing import StoreTests


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
