"""Stores around a store: one that fails when it is told to, and one that remembers every call.

None of them gives out local files, so that every byte goes through a call.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from nbckpt.errors import StoreError
from nbckpt.store import Data, MemoryStore, Store
from nbckpt.store.base import parts_of


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a store.

    Attributes:
        op: `get`, `put`, `exists`, `keys` or `delete`.
        key: The key; for `keys`, which `sizes` counts as too, the prefix.
        data: What is put; empty for the other calls.
    """

    op: str
    key: str
    data: bytes = b""


class _Around(Store):
    """Every call of *store*, with something around it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.url = store.url
        self._lock = threading.Lock()

    @abstractmethod
    def _around(self, call: Call) -> AbstractContextManager[None]:
        """Return what surrounds *call*; it may come from any thread."""

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """See `Store.get`."""
        with self._around(Call("get", key)):
            return self.store.get(key, start, stop)

    def put(self, key: str, data: Data) -> None:
        """See `Store.put`."""
        with self._around(Call("put", key, b"".join(parts_of(data)))):
            self.store.put(key, data)

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        with self._around(Call("exists", key)):
            return self.store.exists(key)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`."""
        with self._around(Call("keys", prefix)):
            yield from self.store.keys(prefix)

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """See `Store.sizes`; it is a call of `keys`."""
        with self._around(Call("keys", prefix)):
            yield from self.store.sizes(prefix)

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        with self._around(Call("delete", key)):
            self.store.delete(key)


class FaultyStore(_Around):
    """A store whose calls fail when they are told to.

    Args:
        store: Does the work.
        fail_at: Only this call fails, counted from 1 among those that *when* is true for; by
            default each of them fails.
        when: Which calls may fail; by default all.
        error: What is raised.
        halfway: The work is done and only the answer is lost; a listing fails behind its last key.

    Attributes:
        counted: How many calls *when* was true for.
        failed: How many calls failed.
    """

    def __init__(
        self,
        store: Store,
        *,
        fail_at: int | None = None,
        when: Callable[[Call], bool] = lambda _: True,
        error: BaseException | None = None,
        halfway: bool = False,
    ) -> None:
        super().__init__(store)
        self.counted = self.failed = 0
        self._fail_at = fail_at
        self._when = when
        self._error = error or StoreError("the storage failed, as the test asked")
        self._halfway = halfway

    @contextmanager
    def _around(self, call: Call) -> Iterator[None]:
        fails = self._next_fails(call)
        if fails and not self._halfway:
            raise self._error
        yield
        if fails:
            raise self._error

    def _next_fails(self, call: Call) -> bool:
        if not self._when(call):
            return False
        with self._lock:
            self.counted += 1
            fails = self._fail_at in {None, self.counted}
            self.failed += fails
        return fails


class RecordingStore(_Around):
    """A store that remembers every call that succeeded, in the order in which they did.

    What a crash could leave behind can be had again: `replay` gives the contents after any number
    of changes, and a reader of those must find what was there before or what is there after.

    Attributes:
        calls: The calls.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.calls: list[Call] = []
        self._before = {key: store.get(key) for key in list(store.keys())}

    @property
    def changes(self) -> list[Call]:
        """The puts and deletes among the calls."""
        return [call for call in self.calls if call.op in {"put", "delete"}]

    def replay(self, count: int) -> MemoryStore:
        """Return the contents as they were after the first *count* changes."""
        store = MemoryStore()
        for key, data in self._before.items():
            store.put(key, data)
        for call in self.changes[:count]:
            if call.op == "put":
                store.put(call.key, call.data)
            else:
                store.delete(call.key)
        return store

    def crashes(self) -> Iterator[MemoryStore]:
        """Yield the contents that a crash before, between and after the changes would leave."""
        for count in range(len(self.changes) + 1):
            yield self.replay(count)

    @contextmanager
    def _around(self, call: Call) -> Iterator[None]:
        yield
        with self._lock:
            self.calls.append(call)
