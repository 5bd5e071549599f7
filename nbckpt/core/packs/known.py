"""Known: the blobs that a store has, so that a save writes none of them again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from nbckpt.core.packs.format import Blob, pack_of, read_index, size_of
from nbckpt.errors import CorruptError, FormatError, NotFoundError
from nbckpt.store import Store


class Known:
    """The blobs that a store has, by digest: a cache of the packs' indexes, never the truth."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._packs: dict[str, int] = {}
        self._blobs: dict[bytes, tuple[str, int]] = {}

    def refresh(self) -> None:
        """Take in the packs that came, and forget those that went or have another size than their index says.

        A damaged pack offers nothing to share; `verify` is what reports it.
        """
        # see docs/decisions/0044
        present = {pack_of(key): size for key, size in self._sizes() if key.endswith(".pack")}
        if any(present.get(pack, -1) not in {None, size} for pack, size in self._packs.items()):
            self._packs.clear()
            self._blobs.clear()
        for pack in present.keys() - self._packs.keys():
            with contextlib.suppress(NotFoundError, CorruptError, FormatError):
                blobs = read_index(self._store, pack)
                if present[pack] in {None, size_of(blobs)}:
                    self.add(pack, blobs)

    def _sizes(self) -> Iterable[tuple[str, int | None]]:
        """Return the keys of packs with their sizes; None in a store that would read them all to tell."""
        if type(self._store).sizes is Store.sizes:
            return ((key, None) for key in self._store.keys("packs/"))
        return self._store.sizes("packs/")

    def forget(self, packs: Iterable[str]) -> None:
        """Share no blob of *packs* any more."""
        gone = set(packs)
        self._packs = {pack: size for pack, size in self._packs.items() if pack not in gone}
        self._blobs = {name: place for name, place in self._blobs.items() if place[0] not in gone}

    def add(self, pack: str, blobs: Sequence[Blob]) -> None:
        """Take in one pack, whose blobs are these in order."""
        self._packs[pack] = size_of(blobs)
        for place, blob in enumerate(blobs):
            self._blobs.setdefault(blob.digest, (pack, place))

    def find(self, name: bytes) -> tuple[str, int] | None:
        """Return the pack and the place of a blob; None if the store does not have it."""
        return self._blobs.get(name)
