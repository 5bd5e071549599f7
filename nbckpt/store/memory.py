"""MemoryStore: a store in memory, which ends with its process."""

from __future__ import annotations

from collections.abc import Iterator

from nbckpt.errors import NotFoundError
from nbckpt.store.base import Data, Store, check_key, pieces_of


class MemoryStore(Store):
    """Keeps bytes in a dict. A put copies its data.

    Examples:
        >>> store = nbckpt.store.MemoryStore()
        >>> saved = nbckpt.Tracker(store).save({"lr": 0.1}, "clean")
        >>> len(list(store.keys("refs")))
        1
    """

    def __init__(self) -> None:
        self.url = "memory"
        self._data: dict[str, bytes] = {}

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """See `Store.get`."""
        try:
            data = self._data[check_key(key)]
        except KeyError:
            raise NotFoundError(f"no {key!r} in {self.url}") from None
        return data if start == 0 and stop is None else data[start:stop]

    def put(self, key: str, data: Data) -> None:
        """See `Store.put`."""
        self._data[check_key(key)] = b"".join(pieces_of(data))

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        return check_key(key) in self._data

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`."""
        yield from sorted(key for key in list(self._data) if key.startswith(prefix))

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """See `Store.sizes`."""
        yield from sorted(
            (key, len(data)) for key, data in list(self._data.items()) if key.startswith(prefix)
        )

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        self._data.pop(check_key(key), None)

    def move(self, source: str, target: str) -> None:
        """See `Store.move`."""
        try:
            self._data[check_key(target)] = self._data.pop(check_key(source))
        except KeyError:
            raise NotFoundError(f"no {source!r} in {self.url}") from None
