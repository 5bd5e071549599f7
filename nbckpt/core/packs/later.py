"""Later: the work that a packer puts off, so that its caller waits for pickling only.

See docs/decisions/0099.
"""

from __future__ import annotations

from collections.abc import Callable

from nbckpt.core.packs.content import Stored
from nbckpt.core.packs.known import Known

_MOST_COPIED = 64 << 20


class Later:
    """Work for later, in order, and the room for copies of lent memory that it needs.

    Args:
        room: The most bytes of copies; None for 64 MiB.
    """

    def __init__(self, room: int | None = None) -> None:
        self._works: list[tuple[Callable[[], None], bool]] = []
        self._room = _MOST_COPIED if room is None else room

    def copied(self, stored: Stored, blob: int, known: Known) -> list[int] | None:
        """Return where the blobs begin that may have to be written, or None if copies of them have no room.

        It takes the room. A blob that is proven unwritten and is in the store needs no copy.
        """
        if known.has_all(stored.digests):
            return []
        places = [at * blob for at, name in enumerate(stored.digests) if not known.find(name)]
        if len(places) * blob > self._room:
            return None
        self._room -= len(places) * blob
        return places

    def add(self, work: Callable[[], None], *, is_short: bool) -> None:
        """Put off one piece of work."""
        self._works.append((work, is_short))

    def take(self) -> list[tuple[Callable[[], None], bool]]:
        """Return the work, each with whether it is short, and forget it."""
        works, self._works = self._works, []
        return works
