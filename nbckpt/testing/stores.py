"""The conformance suite for stores: tests for everything that nbckpt expects of a store.

Your store is correct if this class passes:

    class TestMyStore(StoreTests):
        @pytest.fixture
        def store(self) -> Store:
            return MyStore(...)

        def get_behind(self, store: Store, key: str) -> bytes:
            return ...  # read the bytes in the storage, without the store
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product

import pytest

from nbckpt.errors import NotFoundError, UsageError
from nbckpt.store import Cancel, CancelledError, Data, Store

Fill = Callable[[Mapping[str, bytes]], Store]

# One store holds all of them, and no key is a folder of another.
KEYS = [
    "b",
    "a/b/c",
    "packs/ab/abcd.pack",
    "two words/and  more",
    "Grüße/日本語/🦆",
    "a.b.c/.hidden",
    "100%/%2F/a+b",
    "#1?&=",
    "trailing /dot.",
    "x" * 200,
]
RANGES = [
    *((0, None), (0, 0), (0, 3), (2, 5), (5, 5), (5, 3)),
    *((2, None), (8, 100), (10, None), (10, 20), (50, 60)),
]
PREFIXES = ["", "a/", "a/b", "a/b/", "a/bc", "a", "a-", "ab/", "c", "a/b/x", "zz/yy/"]
HOSTILE = ["", ".", "..", "/", "/a", "a/", "a//b", "a/./b", "a/../b", "../a", "a/..", "a\0b"]


def is_refused(call: Callable[[str], object], key: str) -> bool:
    """Tell whether a call with *key* raises a UsageError."""
    try:
        call(key)
    except UsageError:
        return True
    return False


class ReadingTests:
    """Tests for every store that can be read.

    A subclass defines the fixture `fill`: a function that returns a store with the given keys and bytes.
    """

    @pytest.fixture
    def fill(self) -> Fill:
        # A fixture cannot be abstract: pytest collects the class. The suite of a store overrides it.
        raise NotImplementedError("give a function that makes a store with these contents")

    def test_a_put_value_can_be_read(self, fill: Fill) -> None:
        items = {key: key.encode() for key in KEYS}
        store = fill(items)
        assert {key: store.get(key) for key in KEYS} == items
        assert [key for key in KEYS if not store.exists(key)] == []
        assert list(store.keys()) == sorted(KEYS)

    def test_any_bytes_are_read(self, fill: Fill) -> None:
        items = {"empty": b"", "one": b"\0", "large": bytes(range(256)) * 5000}
        store = fill(items)
        got = {key: store.get(key) for key in items}
        assert [key for key in items if got[key] != items[key]] == []
        assert {type(data) for data in got.values()} == {bytes}

    def test_a_range_is_a_slice(self, fill: Fill) -> None:
        data = b"0123456789"
        store = fill({"k": data})
        got = {(start, stop): store.get("k", start, stop) for start, stop in RANGES}
        assert got == {(start, stop): data[start:stop] for start, stop in RANGES}

    def test_a_missing_key_is_not_found(self, fill: Fill) -> None:
        store = fill({"a/b": b"data"})
        for stop in (None, 0, 5):
            with pytest.raises(NotFoundError, match="nothing/here"):
                store.get("nothing/here", 0, stop)
        assert not store.exists("nothing/here")

    def test_a_part_of_a_key_is_not_a_key(self, fill: Fill) -> None:
        store = fill({"a/b": b"data"})
        for key in ("a", "a/b/c"):
            assert not store.exists(key)
            with pytest.raises(NotFoundError):
                store.get(key)

    def test_keys_are_sorted(self, fill: Fill) -> None:
        keys = ["b", "a/b", "a-b", "a.b", "a/a/c", "B", "a/b2", "é"]
        assert list(fill(dict.fromkeys(keys, b"x")).keys()) == sorted(keys)

    def test_a_prefix_may_end_inside_a_name(self, fill: Fill) -> None:
        keys = ["a/b/x", "a/b/y", "a/bc", "ab/c", "b"]
        store = fill(dict.fromkeys(keys, b"x"))
        got = {prefix: list(store.keys(prefix)) for prefix in PREFIXES}
        assert got == {prefix: [key for key in keys if key.startswith(prefix)] for prefix in PREFIXES}

    def test_sizes_are_those_of_the_keys_in_order(self, fill: Fill) -> None:
        sizes = {"a-b": 2, "a/b/x": 1, "a/bc": 70_000, "b": 0, "ä/%2F": 3}
        store = fill({key: b"x" * size for key, size in reversed(sizes.items())})
        got = {prefix: list(store.sizes(prefix)) for prefix in PREFIXES}
        assert got == {prefix: [i for i in sizes.items() if i[0].startswith(prefix)] for prefix in PREFIXES}

    def test_an_empty_store_has_no_keys(self, fill: Fill) -> None:
        store = fill({})
        assert [*store.keys(), *store.keys("a/"), *store.sizes()] == []
        assert not store.exists("a")

    def test_an_invalid_key_is_refused(self, fill: Fill) -> None:
        store = fill({"a": b"x"})
        calls: dict[str, Callable[[str], object]] = {
            "get": store.get,
            "exists": store.exists,
            "delete": store.delete,
            "put": lambda key: store.put(key, b"x"),
        }
        rows = product(calls, HOSTILE)
        assert [(name, key) for name, key in rows if not is_refused(calls[name], key)] == []

    def test_no_prefix_leads_outside(self, fill: Fill) -> None:
        store = fill({"a/b": b"x"})
        for prefix in ("../", "a/../../", "/", "/etc/"):
            for listing in (store.keys, store.sizes):
                with suppress(UsageError):
                    assert list(listing(prefix)) == [], prefix

    def test_the_repr_contains_the_url(self, fill: Fill) -> None:
        store = fill({"a": b"x"})
        assert store.url in repr(store)


class StoreTests(ReadingTests):
    """Tests for every store.

    A subclass defines the fixture `store`: a new, empty store for each test. If possible, it also overrides
    `get_behind` and `put_behind`, which access the storage without the store. Otherwise the tests see the
    storage only through the store itself.
    """

    @pytest.fixture
    def store(self) -> Store:
        # As for `fill`: the suite of a store overrides it.
        raise NotImplementedError("give an empty store")

    @pytest.fixture
    def fill(self, store: Store) -> Fill:
        def fill(items: Mapping[str, bytes]) -> Store:
            for key, data in items.items():
                store.put(key, data)
            return store

        return fill

    def get_behind(self, store: Store, key: str) -> bytes:
        """Return the bytes that the storage holds under *key*, read without the store."""
        return store.get(key)

    def put_behind(self, store: Store, key: str, data: bytes) -> None:
        """Write *data* under *key* without the store, as another program or process would."""
        store.put(key, data)

    def test_every_form_of_data_is_kept(self, store: Store) -> None:
        forms: dict[str, Data] = {
            "bytes": b"0123",
            "bytearray": bytearray(b"0123"),
            "memoryview": memoryview(b"0123"),
            "slice": memoryview(b"x0123x")[1:5],
            "list": [b"0", bytearray(b"12"), memoryview(b"3")],
            "tuple": (b"", b"0123", b""),
            "bytewise": [bytes([c]) for c in b"0123"],
        }
        for form, data in forms.items():
            store.put(form, data)
        assert {form: store.get(form) for form in forms} == dict.fromkeys(forms, b"0123")
        assert {form: self.get_behind(store, form) for form in forms} == dict.fromkeys(forms, b"0123")

    def test_an_empty_value_is_stored(self, store: Store) -> None:
        forms: dict[str, Data] = {"none": [], "one": [b""], "two": [b"", b""]}
        for form, data in forms.items():
            store.put(form, data)
        for form in forms:
            assert store.get(form) == self.get_behind(store, form) == b""
        assert list(store.keys()) == list(forms)

    def test_many_buffers_are_kept_in_order(self, store: Store) -> None:
        parts = [str(n).encode() for n in range(5000)]
        store.put("k", parts)
        assert store.get("k") == b"".join(parts)

    def test_later_changes_to_the_buffer_do_not_reach_the_store(self, store: Store) -> None:
        data = bytearray(b"before")
        store.put("k", data)
        data[:] = b"after!"
        assert store.get("k") == b"before"

    def test_keys_of_other_writers_are_visible(self, store: Store) -> None:
        assert not store.exists("a/b")
        self.put_behind(store, "a/b", b"theirs")
        assert store.exists("a/b")
        assert store.get("a/b") == b"theirs"
        assert list(store.keys("a/")) == ["a/b"]

    def test_a_cancelled_put_stores_nothing(self, store: Store) -> None:
        cancel = Cancel()
        cancel.cancel()
        with cancel.covering(), pytest.raises(CancelledError):
            store.put("a/b", b"data")
        assert not store.exists("a/b")

    def test_a_repeated_put_changes_nothing(self, store: Store) -> None:
        for _ in range(3):
            store.put("a/b", b"same")
        assert store.get("a/b") == b"same"
        assert list(store.keys()) == ["a/b"]

    def test_a_copy_has_the_bytes_and_outlives_its_source(self, store: Store) -> None:
        for size in (0, 1, 300_000):
            store.put("a/b", b"x" * size)
            store.put("c", b"former")
            store.delete("d/e")
            for target in ("c", "d/e"):
                store.copy("a/b", target)
            store.put("a/b", b"other")
            store.delete("a/b")
            assert store.get("c") == self.get_behind(store, "d/e") == b"x" * size
            assert list(store.keys()) == ["c", "d/e"]

    def test_a_missing_key_cannot_be_copied(self, store: Store) -> None:
        store.put("a", b"x")
        with pytest.raises(NotFoundError, match="nothing/here"):
            store.copy("nothing/here", "a")
        assert store.get("a") == b"x"

    def test_a_moved_key_exists_only_under_its_new_name(self, store: Store) -> None:
        for target in ("c", "d/e"):
            store.put("a/b", target.encode())
            store.put("c", b"former")
            store.move("a/b", target)
            assert self.get_behind(store, target) == target.encode()
        assert list(store.keys()) == ["c", "d/e"]
        with pytest.raises(NotFoundError, match="a/b"):
            store.move("a/b", "c")

    def test_a_deleted_key_is_gone(self, store: Store) -> None:
        store.put("a/b", b"x")
        store.put("a/c", b"y")
        store.delete("a/b")
        assert not store.exists("a/b")
        assert list(store.keys()) == ["a/c"]
        with pytest.raises(NotFoundError):
            store.get("a/b")

    def test_deleting_a_missing_key_succeeds(self, store: Store) -> None:
        store.delete("a/b")
        store.put("a/b", b"x")
        store.delete("a/b")
        store.delete("a/b")
        assert list(store.keys()) == []

    def test_a_deleted_key_can_be_put_again(self, store: Store) -> None:
        store.put("a/b", b"x")
        store.delete("a/b")
        store.put("a/b", b"x")
        assert store.get("a/b") == b"x"

    def test_deleting_a_part_of_a_key_deletes_nothing(self, store: Store) -> None:
        store.put("a/b", b"x")
        for key in ("a", "a/b/c"):
            store.delete(key)
        assert list(store.keys()) == ["a/b"]

    def test_keys_can_be_deleted_while_they_are_listed(self, store: Store) -> None:
        for n in range(20):
            store.put(f"a/{n}", b"x")
        for key in store.keys("a/"):
            store.delete(key)
        assert list(store.keys()) == []

    def test_threads_put_at_once(self, store: Store) -> None:
        keys = [f"{n % 4}/{n}" for n in range(64)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: store.put(key, key.encode() * 100), keys))
        assert list(store.keys()) == sorted(keys)
        assert all(store.get(key) == key.encode() * 100 for key in keys)

    def test_threads_put_the_same_key_at_once(self, store: Store) -> None:
        data = b"0123456789abcdef" * 10_000
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: store.put("a/b", data), range(32)))
        assert store.get("a/b") == data
        assert list(store.keys()) == ["a/b"]

    def test_a_reader_sees_a_put_completely_or_not_at_all(self, store: Store) -> None:
        data = b"0123456789abcdef" * 100_000
        done = threading.Event()

        def read() -> set[int]:
            seen = set()
            while not done.is_set():
                with suppress(NotFoundError):
                    seen.add(len(store.get("a/b")))
            return seen

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(read) for _ in range(2)]
            try:
                for _ in range(30):
                    store.put("a/b", [data[:100], data[100:]])
                    store.delete("a/b")
            finally:
                done.set()
        assert set().union(*(reader.result() for reader in readers)) <= {len(data)}

    def test_a_listed_key_is_complete(self, store: Store) -> None:
        data = b"0123456789abcdef" * 50_000
        done = threading.Event()

        def look() -> bool:
            whole = True
            while not done.is_set():
                whole &= all(store.get(key) == data for key in list(store.keys()))
            return whole

        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(look)
            try:
                for n in range(20):
                    store.put(f"a/{n}", data)
            finally:
                done.set()
        assert looking.result()
