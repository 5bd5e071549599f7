from __future__ import annotations

from pathlib import Path

import pytest

from nbckpt.errors import UsageError
from nbckpt.store import CachedStore, LocalStore, MemoryStore, PrefixStore, Store
from nbckpt.testing import StoreTests


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
