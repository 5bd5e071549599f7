"""A store with a gate, for tests of what goes on in the background."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

from nbckpt.errors import StoreError
from nbckpt.store import MemoryStore


class Gated(MemoryStore):
    """A store of which some acts wait while its gate is shut, and then may fail.

    Attributes:
        acts: The acts that wait, `put`, `delete` and `keys`, each with the beginning of its keys.
        gate: Set while the gate is open.
        waits: Set once an act waits.
        left: How many acts succeed before the first that fails.
    """

    def __init__(self, **acts: str) -> None:
        super().__init__()
        self.acts = acts
        self.gate, self.waits = threading.Event(), threading.Event()
        self.gate.set()
        self.left = math.inf

    def shut(self) -> None:
        self.waits.clear()
        self.gate.clear()

    def put(self, key: str, data: Any) -> None:
        self._wait("put", key)
        super().put(key, data)

    def delete(self, key: str) -> None:
        self._wait("delete", key)
        super().delete(key)

    def keys(self, prefix: str = "") -> Iterator[str]:
        self._wait("keys", prefix)
        return super().keys(prefix)

    def _wait(self, act: str, key: str) -> None:
        if act in self.acts and key.startswith(self.acts[act]):
            if not self.gate.is_set():
                self.waits.set()
            assert self.gate.wait(60)
            self.left -= 1
            if self.left < 0:
                raise StoreError("no space left on device")
