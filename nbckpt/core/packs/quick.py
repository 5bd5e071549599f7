"""Quick: digests of bytes that were hashed before, found by xxhash where Linux's page record does not work.

xxhash is some eight times as fast as BLAKE3. It is seeded for each process, so that nobody can make bytes in
advance that have the value of others. Only automatic points rely on it: an explicit save hashes all. See
docs/decisions/0099.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from nbckpt.core.algorithms import Algorithms
from nbckpt.core.memory.pages import page_record
from nbckpt.store import Buffer

_LEAST = 64 << 10
"""Of fewer bytes, the digest is computed each time."""
MOST_DIGESTS = 1 << 18


def has_xxhash() -> bool:
    """Tell whether xxhash is installed."""
    return find_spec("xxhash") is not None


class QuickDigests:
    """The digests of the bytes that one kernel's points hashed, by a seeded xxhash. Any thread may ask.

    Attributes:
        known: The digests, by the xxhash and the size of the bytes.
    """

    def __init__(self) -> None:
        self._seed = secrets.randbits(64)
        self._lock = threading.Lock()
        self.known: dict[tuple[bytes, int], bytes] = {}

    def of(self, algorithms: Algorithms) -> Callable[[Buffer], bytes]:
        """Return the digest of these algorithms, quick for bytes that it has hashed before if that helps."""
        if not page_record().why_off or not has_xxhash():
            return algorithms.digest
        xxhash: Any = import_module("xxhash")

        def digest(data: Buffer) -> bytes:
            if len(data) < _LEAST:
                return algorithms.digest(data)
            key = xxhash.xxh3_128_digest(data, self._seed), len(data)
            known = self.known.get(key)
            if known is None:
                known = algorithms.digest(data)
                if xxhash.xxh3_128_digest(data, self._seed) == key[0]:  # no thread wrote to it meanwhile
                    self._keep(key, known)
            return known

        return digest

    def _keep(self, key: tuple[bytes, int], digest: bytes) -> None:
        with self._lock:
            while len(self.known) >= MOST_DIGESTS:
                del self.known[next(iter(self.known))]
            self.known[key] = digest
