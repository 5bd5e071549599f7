"""Shelf: objects that are named by their digests, below one folder of a store, and tops that list them.

    <folder>tops/<number>-<digest>     a list of parts; the top with the highest number counts
    <folder>parts/<digest>             a part, compressed

Any number of writers may put tops at once. If two took one number, neither counts. A writer whose top counts
deletes what only older ones need. See docs/decisions/0089.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container, Iterable

from nbckpt.core.algorithms import Algorithms
from nbckpt.errors import CorruptError
from nbckpt.store import Store

MOST_BYTES = 32 << 20
"""The most bytes of a part, decompressed."""

_MOST_KEPT = 512 << 20  # the bytes of all parts in memory: a catalogue of five million keys
_MOST_TOP = 4 << 20


class Shelf:
    """Reads and writes the tops and the parts in one folder. Parts that were read are kept.

    Args:
        store: The store.
        algorithms: Returns the algorithms of the store.
        folder: The folder, with a `/` at its end.

    Attributes:
        label: What the shelf is, for error messages.
    """

    def __init__(self, store: Store, algorithms: Callable[[], Algorithms], folder: str) -> None:
        self.store = store
        self.algorithms = algorithms
        self.tops, self._parts = f"{folder}tops/", f"{folder}parts/"
        self.label = f"the catalogue of {store.url}"
        self._top = re.compile(rf"{self.tops}([0-9]{{1,12}})-([0-9a-f]{{64}})")
        self._kept: dict[str, bytes] = {}

    def newest(self, keys: Iterable[str]) -> str:
        """Return the key of the top that counts among *keys*; "" if there is none."""
        tops = sorted((number, key) for key in keys if (number := self.number_of(key)))
        is_alone = tops and [number for number, _ in tops].count(tops[-1][0]) == 1
        return tops[-1][1] if is_alone else ""

    def number_of(self, key: str) -> int:
        """Return the number in the key of a top; 0 for another key."""
        match = self._top.fullmatch(key)
        return int(match[1]) if match else 0

    def top(self, key: str) -> bytes:
        """Return the bytes of a top.

        Raises:
            NotFoundError: It is gone.
            CorruptError: It is damaged.
        """
        data = self.store.get(key, 0, _MOST_TOP)
        if self.algorithms().digest(data).hex() != key[-64:]:
            raise CorruptError(f"{self.label} is damaged: it is not the one that was written")
        return data

    def part(self, digest: str) -> bytes:
        """Return the decompressed bytes of a part.

        Raises:
            NotFoundError: It is gone.
            CorruptError: It is damaged.
        """
        if digest not in self._kept:
            algorithms, key = self.algorithms(), f"{self._parts}{digest}"
            data = self.store.get(key, 0, MOST_BYTES)
            plain = algorithms.decompress(data, MOST_BYTES)
            if algorithms.digest(data).hex() != digest or not plain:
                self.store.forget(key)
                raise CorruptError(f"part {digest[:12]} of {self.label} is damaged")
            if sum(map(len, self._kept.values())) + len(plain) > _MOST_KEPT:
                raise CorruptError(f"{self.label} is too large")
            self._kept[digest] = plain
        return self._kept[digest]

    def keep(self, digests: Container[str]) -> None:
        """Drop the parts that were read, except these."""
        self._kept = {part: data for part, data in self._kept.items() if part in digests}

    def put_part(self, plain: bytes) -> str:
        """Put a part, unless it is there. Return its digest.

        Raises:
            StoreError: The storage failed.
        """
        algorithms = self.algorithms()
        data = bytes(memoryview(algorithms.compress(plain)))
        digest = algorithms.digest(data).hex()
        if not self.store.exists(f"{self._parts}{digest}"):
            self.store.put(f"{self._parts}{digest}", data)
        return digest

    def put_top(self, data: bytes, present: Iterable[str], needed: Container[str]) -> bool:
        """Put the next top, and tell whether it counts. If so, delete what only older ones need.

        Args:
            data: The top.
            present: The keys of the folder, listed before the new top was made.
            needed: The digests of the parts that this top and the former one list.

        Raises:
            StoreError: The storage failed. The former top counts.
        """
        present = list(present)
        former = self.newest(present)
        # Not below the clock: a top that a backup brings back must not count again.
        number = max(int(time.time()), *(self.number_of(key) + 1 for key in present), 1)
        key = f"{self.tops}{number:010d}-{self.algorithms().digest(data).hex()}"
        self.store.put(key, data)
        # Another writer's top came since the listing: what it settled is not in this one.
        if not {key}.issuperset({*self.store.keys(self.tops)}.difference(present)):
            self.store.delete(key)
            return False
        for stale in present:
            is_part = stale.startswith(self._parts)
            if (is_part and stale[-64:] not in needed) or (self.number_of(stale) and stale != former):
                self.store.delete(stale)
        return True


def filled(pieces: Iterable[bytes], most: int = MOST_BYTES) -> list[list[bytes]]:
    """Return the pieces in groups, each with at most *most* bytes and one between two pieces."""
    groups: list[list[bytes]] = []
    size = 0
    for piece in pieces:
        size += len(piece) + 1
        if not groups or size > most:
            groups.append([])
            size = len(piece) + 1
        groups[-1].append(piece)
    return groups
