"""A store that counts requests as an object store does: a listing takes one for each page of keys."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

from nbckpt.store import Data, MemoryStore


class PagedStore(MemoryStore):
    """Counts its requests.

    Attributes:
        page: The number of keys in a page of a listing.
        requests: The requests, by what was asked.
    """

    def __init__(self, page: int = 1_000, *, lists_in_pages: bool = True) -> None:
        super().__init__()
        self.url = "paged"
        self.page = page
        self.lists_in_pages = lists_in_pages
        self.requests: Counter[str] = Counter()
        self._sorted: list[str] = []
        self._lock = threading.Lock()

    def count(self, work: Callable[[], object]) -> int:
        """Return the number of requests that *work* makes."""
        self.requests.clear()
        work()
        return self.requests.total()

    def lose(self, key: str) -> None:
        """Delete a key as another machine does after a reader has listed it: listings still name it."""
        del self._data[key]

    def _list(self, prefix: str, keys: int) -> None:
        self._note(f"list {prefix.partition('/')[0]}", max(1, -(-keys // self.page)))

    def _note(self, asked: str, times: int = 1) -> None:
        with self._lock:
            self.requests[asked] += times

    def _below(self, prefix: str) -> list[str]:
        with self._lock:
            if not self._sorted:
                self._sorted = sorted(self._data.copy())
            start = bisect_left(self._sorted, prefix)
            return self._sorted[start : bisect_left(self._sorted, f"{prefix}\U0010ffff", start)]

    def keys(self, prefix: str = "") -> Iterator[str]:
        keys = self._below(prefix)
        self._list(prefix, len(keys))
        return iter(keys)

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        sizes = [(key, len(self._data[key])) for key in self._below(prefix)]
        self._list(prefix, len(sizes))
        return iter(sizes)

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        self._note(f"get {key.partition('/')[0]}")
        return super().get(key, start, stop)

    def put(self, key: str, data: Data) -> None:
        self._note(f"put {key.partition('/')[0]}")
        super().put(key, data)
        with self._lock:
            self._sorted.clear()

    def exists(self, key: str) -> bool:
        self._note(f"exists {key.partition('/')[0]}")
        return super().exists(key)

    def delete(self, key: str) -> None:
        self._note(f"delete {key.partition('/')[0]}")
        super().delete(key)
        with self._lock:
            self._sorted.clear()
