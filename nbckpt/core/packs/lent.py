"""Lent: memory that other threads may change while a packer stores it. See docs/decisions/0043."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from nbckpt.core.packs.content import Stored
from nbckpt.core.packs.format import RAW, Piece
from nbckpt.core.packs.pools import others_run
from nbckpt.store import Buffer


@dataclass(frozen=True, slots=True)
class _Range:
    """One range of lent memory, and the size of its blobs."""

    stored: Stored
    memory: memoryview
    blob: int

    def blobs(self) -> Iterator[tuple[int, bytes, memoryview]]:
        """Yield the position, the digest and the memory of each blob."""
        for at, name in enumerate(self.stored.digests):
            yield at, name, self.at(at)

    def at(self, position: int) -> memoryview:
        """Return the memory of one blob."""
        return self.memory[position * self.blob : (position + 1) * self.blob]


class Lent:
    """The memory lent to one packer.

    Args:
        digest: Returns the digest of a blob.
        touched: Returns the positions of those blobs of a range that may have changed during the save.

    Attributes:
        has_lost: Whether a pack was not put, because memory in it had changed.
    """

    def __init__(self, digest: Callable[[Buffer], bytes], touched: Callable[[Stored], Iterable[int]]) -> None:
        self.has_lost = False
        self._digest = digest
        self._touched = touched
        self._ranges: list[_Range] = []
        self._lost: list[Piece] = []
        self._is_watched = False

    def add(self, stored: Stored, memory: memoryview, blob: int) -> None:
        """Take a range of memory, which *stored* describes, in blobs of *blob* bytes."""
        self._is_watched = self._is_watched or others_run()
        self._ranges.append(_Range(stored, memory, blob))

    def lose(self, pieces: Iterable[Piece]) -> None:
        """Keep the pieces of a pack that was not put, except for those in lent memory."""
        self.has_lost = True
        self._lost += [piece for piece in pieces if not piece.lent]

    def copies(self, is_stored: Callable[[bytes], bool]) -> Iterator[Piece]:
        """Yield the pieces of packs that were not put. Copy each blob of lent memory before hashing it."""
        yield from self._lost
        for part in self._ranges:
            for at, name, memory in part.blobs():
                if is_stored(name):
                    continue
                copy = bytes(memory)
                part.stored.digests[at] = new = self._digest(copy)
                part.stored.changed |= new != name
                yield Piece(new, copy, len(copy), RAW, aligned=True)

    def checks(self) -> list[Callable[[], None]]:
        """Return calls that compare the memory with its blobs and mark changes, if other threads ran.

        Equal blobs are all of one state.
        """
        if not (self._is_watched or (self._ranges and others_run())):
            return []
        return [partial(self._check, part) for part in self._ranges if not part.stored.changed]

    def _check(self, part: _Range) -> None:
        names = part.stored.digests
        part.stored.changed |= any(
            self._digest(part.at(at)) != names[at] for at in self._touched(part.stored)
        )
