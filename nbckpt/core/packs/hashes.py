"""Hashes: digests of large buffers, remembered while the page record proves that the bytes are unwritten.

See docs/decisions/0094.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence

from nbckpt.core.algorithms import Algorithms
from nbckpt.core.memory.pages import LEAST, Look, Round, page_record
from nbckpt.core.packs.content import Stored
from nbckpt.core.spans import address_of

_Key = tuple[int, int, int, str]
"""The address and the size of a buffer, the size of its blobs, and the algorithms."""

MOST_BUFFERS, _MOST_DIGESTS = 4096, 1 << 18


class _Memory:
    """The digests that this process remembers, least recently used first. Any thread may use it.

    Attributes:
        buffers: The last look at each buffer, and the digests of its blobs.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.buffers: dict[_Key, tuple[Look, Sequence[bytes]]] = {}
        self._count = 0

    def get(self, key: _Key) -> tuple[Look | None, Sequence[bytes]]:
        with self._lock:
            return self.buffers.get(key, (None, ()))

    def keep(self, key: _Key, look: Look, digests: Sequence[bytes]) -> None:
        with self._lock:
            self._drop(key)
            self.buffers[key] = look, digests
            self._count += len(digests)
            while len(self.buffers) > MOST_BUFFERS or self._count > _MOST_DIGESTS:
                self._drop(next(iter(self.buffers)))

    def _drop(self, key: _Key) -> None:
        _, digests = self.buffers.pop(key, (None, ()))
        self._count -= len(digests)


DIGESTS = _Memory()
if hasattr(os, "register_at_fork"):  # another thread may hold the lock, and looks prove nothing in a fork
    os.register_at_fork(after_in_child=lambda: DIGESTS.__init__())  # type: ignore[misc]


class Hashes:
    """The digests that one packer need not compute. Its buffers must be alive until `keep` returns."""

    def __init__(self, algorithms: Algorithms) -> None:
        self._algorithms = algorithms.name
        self._round: Round | None = None
        self._looks: dict[int, tuple[_Key, Look, Stored]] = {}

    def known(self, memory: memoryview, blob: int, stored: Stored) -> None:
        """Fill in the digests of a buffer's blobs that are proven unwritten since they were hashed.

        The others are empty. They must be hashed after this call, which begins to watch the buffer.
        """
        if len(memory) < LEAST:
            return
        self._round = self._round or page_record().round()
        key = address_of(memory), len(memory), blob, self._algorithms
        earlier, digests = DIGESTS.get(key)
        look = self._round.at(*key[:2], since=earlier)
        if len(digests) == len(stored.digests) and look.dirty != [(0, len(memory))]:
            stored.digests[:] = digests
            for at in _blobs(look, blob):
                stored.digests[at] = b""
        self._looks[id(stored)] = key, look, stored

    def touched(self, stored: Stored) -> Iterable[int]:
        """Return the positions of the blobs that may have changed since `known` looked at them."""
        if id(stored) not in self._looks:
            return range(len(stored.digests))
        (address, size, blob, _), look, _ = self._looks[id(stored)]
        if self._round is not None:
            return _blobs(self._round.at(address, size, since=look), blob)
        with page_record().round() as looks:
            now = looks.at(address, size, since=look)
        return _blobs(now, blob) if looks.is_sound else range(len(stored.digests))

    def keep(self) -> None:
        """Remember the digests of all buffers, which are complete now."""
        self.end()
        for key, look, stored in self._looks.values():
            if look.proves:
                DIGESTS.keep(key, look, stored.digests)
        self._looks.clear()

    def end(self) -> None:
        """End the looks. What is not kept is forgotten."""
        if self._round is not None:
            self._round.end()
        self._round = None


def _blobs(look: Look, blob: int) -> Iterable[int]:
    """Return the positions of the blobs in which a buffer is dirty, in order."""
    return dict.fromkeys(at for low, high in look.dirty for at in range(low // blob, -(-high // blob)))
