"""Later: the work that a packer puts off, so that its caller waits for pickling only.

See docs/decisions/0099.
"""

from __future__ import annotations

from collections.abc import Callable

from nbckpt.core.packs.content import Stored
from nbckpt.core.packs.known import Known

_MOST_COPIED = 64 << 20


class Later:
    """Work for later, in order, and the room for copies of lent memory that it needs."""

    def __init__(self) -> None:
        self._works: list[tuple[Callable[[], None], bool]] = []
        self._room = _MOST_COPIED

    def has_room(self, stored: Stored, blob: int, known: Known) -> bool:
        """Tell whether all blobs that may have to be written can be copied, and take the room for that."""
        size = blob * sum(not (name and known.find(name)) for name in stored.digests)
        if size > self._room:
            return False
        self._room -= size
        return True

    def add(self, work: Callable[[], None], *, is_short: bool) -> None:
        """Put off one piece of work."""
        self._works.append((work, is_short))

    def take(self) -> list[tuple[Callable[[], None], bool]]:
        """Return the work, each with whether it is short, and forget it."""
        works, self._works = self._works, []
        return works
