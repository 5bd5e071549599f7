"""PrefixStore: one folder of a store, as a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nbckpt.store.base import Data, Store, check_key


class PrefixStore(Store):
    """The keys of *store* below *folder*, without that prefix.

    Examples:
        >>> store = nbckpt.store.MemoryStore()
        >>> nbckpt.store.PrefixStore(store, "team").put("a", b"data")
        >>> list(store.keys())
        ['team/a']
    """

    def __init__(self, store: Store, folder: str) -> None:
        self.url = f"{store.url}/{folder}"
        self.lists_in_pages = store.lists_in_pages
        self._store = store
        self._folder = f"{check_key(folder)}/"

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """See `Store.get`."""
        return self._store.get(self._folder + check_key(key), start, stop)

    def put(self, key: str, data: Data) -> None:
        """See `Store.put`."""
        self._store.put(self._folder + check_key(key), data)

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        return self._store.exists(self._folder + check_key(key))

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`."""
        for key in self._store.keys(self._folder + prefix):
            yield key[len(self._folder) :]

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """See `Store.sizes`."""
        for key, size in self._store.sizes(self._folder + prefix):
            yield key[len(self._folder) :], size

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        self._store.delete(self._folder + check_key(key))

    def settle(self, folder: str) -> None:
        """See `Store.settle`."""
        self._store.settle(self._folder + check_key(folder))

    def forget(self, key: str) -> None:
        """See `Store.forget`."""
        self._store.forget(self._folder + check_key(key))

    def copy(self, source: str, target: str) -> None:
        """See `Store.copy`."""
        self._store.copy(self._folder + check_key(source), self._folder + check_key(target))

    def move(self, source: str, target: str) -> None:
        """See `Store.move`."""
        self._store.move(self._folder + check_key(source), self._folder + check_key(target))

    def path(self, key: str) -> Path | None:
        """See `Store.path`."""
        return self._store.path(self._folder + check_key(key))
