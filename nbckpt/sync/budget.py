"""Budget: how many bytes the calls of one transfer may hold in memory together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nbckpt.store import Cancel


class MemoryBudget:
    """A number of bytes that threads share.

    Args:
        size: The number of bytes.

    Attributes:
        free: The number of bytes that no call holds.
    """

    def __init__(self, size: int = 64 << 20) -> None:
        self._size = self.free = size
        self._changed = threading.Condition()

    @contextmanager
    def holding(self, size: int, cancel: Cancel) -> Iterator[None]:
        """Run the block when *size* bytes are free, and take them; a larger size takes the whole budget.

        Raises:
            CancelledError: The work was cancelled before.
        """
        size = min(size, self._size)
        with cancel.calling(self._wake), self._changed:
            self._changed.wait_for(lambda: cancel.cancelled or self.free >= size)
            cancel.check()
            self.free -= size
        try:
            yield
        finally:
            with self._changed:
                self.free += size
                self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
