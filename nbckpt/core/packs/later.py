"""Later: the work that a packer puts off, so that its caller waits for pickling only.

See docs/decisions/0099.
"""

from __future__ import annotations

from collections.abc import Callable

from nbckpt.core.packs.content import Stored
from nbckpt.core.packs.known import Known

MOST_COPIED = 64 << 20
"""The most bytes of copies, if nothing else is said."""
_MOST_KEPT = 8 << 20


class KeptMemory:
    """Memory for copies that is kept from one packer to the next.

    The first use of new memory takes longer than the copy: 2 ms for 5 MiB, since Linux hands it out page by
    page. Large pages do not help: Linux may first move the pages of others, for 20 ms.
    """

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take(self) -> bytearray:
        """Return memory that nobody else uses."""
        return self._free.pop() if self._free else bytearray(_MOST_KEPT)

    def give_back(self, memory: bytearray) -> None:
        """Keep memory for the next packer."""
        self._free[:] = [memory]


class Later:
    """Work for later, in order, and copies of lent memory that it needs.

    Args:
        room: The most bytes of copies; None for 64 MiB.
        kept: The memory for the first copies.
    """

    def __init__(self, room: int | None = None, kept: KeptMemory | None = None) -> None:
        self._works: list[tuple[Callable[[], None], bool]] = []
        self._room = MOST_COPIED if room is None else room
        self._kept = kept or KeptMemory()
        self._memory: bytearray | None = None
        self._used = 0

    def copied(self, stored: Stored, blob: int, known: Known) -> list[int] | None:
        """Return where the blobs begin that may have to be written, or None if copies of them have no room.

        It takes the room. A blob that is proven unwritten and is in the store needs no copy.
        """
        if known.has_all(stored.digests):
            return []
        if not self._room:
            return None
        places = [at * blob for at, name in enumerate(stored.digests) if not known.find(name)]
        if len(places) * blob > self._room:
            return None
        self._room -= len(places) * blob
        return places

    def copy(self, part: memoryview) -> memoryview:
        """Return a copy of lent memory, which holds until `end`."""
        if self._used + len(part) > _MOST_KEPT:
            return memoryview(bytes(part))
        if self._memory is None:
            self._memory = self._kept.take()
        copied = memoryview(self._memory)[self._used : self._used + len(part)]
        copied[:] = part
        self._used += len(part)
        return copied

    def end(self) -> None:
        """Give back the memory of the copies. Nobody may use them any longer."""
        if self._memory is not None:
            self._kept.give_back(self._memory)
            self._memory = None

    def add(self, work: Callable[[], None], *, is_short: bool) -> None:
        """Put off one piece of work."""
        self._works.append((work, is_short))

    def take(self) -> list[tuple[Callable[[], None], bool]]:
        """Return the work, each with whether it is short, and forget it."""
        works, self._works = self._works, []
        return works
