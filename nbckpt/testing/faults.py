"""Stores that wrap a store: one fails on request, and one records every call.

They never return paths of local files, so that every byte passes through a call.
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
        key: The key; for `keys`, the prefix. A call of `sizes` counts as `keys`.
        data: The bytes of a put; empty for the other calls.
    """

    op: str
    key: str
    data: bytes = b""


class AroundStore(Store):
    """Wrap each call of *store* in a context manager."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.url = store.url
        self._lock = threading.Lock()

    @abstractmethod
    def around(self, call: Call) -> AbstractContextManager[None]:
        """Return the context manager for *call*; any thread may make the call."""

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """See `Store.get`."""
        with self.around(Call("get", key)):
            return self.store.get(key, start, stop)

    def put(self, key: str, data: Data) -> None:
        """See `Store.put`."""
        with self.around(Call("put", key, b"".join(parts_of(data)))):
            self.store.put(key, data)

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        with self.around(Call("exists", key)):
            return self.store.exists(key)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`."""
        with self.around(Call("keys", prefix)):
            yield from self.store.keys(prefix)

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """See `Store.sizes`; it counts as a call of `keys`."""
        with self.around(Call("keys", prefix)):
            yield from self.store.sizes(prefix)

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        with self.around(Call("delete", key)):
            self.store.delete(key)


class FaultyStore(AroundStore):
    """A store whose calls fail on request.

    Args:
        store: The wrapped store.
        fail_at: The number of the call that fails, counted from 1 among the calls for which *when* is true;
            by default each of these calls fails.
        when: Returns whether a call may fail; by default all may.
        error: The exception to raise.
        halfway: Do the work and fail afterwards, as if the answer were lost. A listing fails after its last
            key.

    Attributes:
        counted: The number of calls for which *when* was true.
        failed: The number of calls that failed.

    Examples:
        >>> store = nbckpt.testing.FaultyStore(nbckpt.store.MemoryStore(), fail_at=2)
        >>> store.put("a", b"0")
        >>> store.put("b", b"1")
        Traceback (most recent call last):
        nbckpt.errors.StoreError: the storage failed, as the test asked
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
    def around(self, call: Call) -> Iterator[None]:
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


class RecordingStore(AroundStore):
    """A store that records every successful call, in the order of success.

    It can reproduce the contents that a crash could leave: `replay` returns the contents after any number of
    changes. A reader of these contents must find either the former data or the new data.

    Attributes:
        calls: The recorded calls.

    Examples:
        >>> store = nbckpt.testing.RecordingStore(nbckpt.store.MemoryStore())
        >>> saved = nbckpt.Tracker(store).save({"lr": 0.1}, "clean")
        >>> {len(nbckpt.Tracker(crashed).entries()) for crashed in store.crashes()}
        {0, 1}
        >>> list(store.replay(0).keys())
        []
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
        """Yield the contents after a crash before, between and after the changes."""
        for count in range(len(self.changes) + 1):
            yield self.replay(count)

    @contextmanager
    def around(self, call: Call) -> Iterator[None]:
        yield
        with self._lock:
            self.calls.append(call)
