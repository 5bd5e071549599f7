"""Known: the blobs that a store already has, so that a save does not write them again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from nbckpt.core.packs.format import Blob, pack_of, read_index, size_of
from nbckpt.errors import CorruptError, FormatError, NotFoundError
from nbckpt.store import Store


class Known:
    """The blobs of a store, by digest: a cache of the packs' indexes, which may be out of date."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._packs: dict[str, int] = {}
        self._blobs: dict[bytes, tuple[str, int]] = {}

    def refresh(self) -> None:
        """Add new packs, and forget packs that are gone or whose size does not match their index.

        The blobs of a damaged pack are not shared. Only `verify` reports the damage.
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
        """Return the keys of packs with their sizes. None if the store would have to read every pack."""
        if type(self._store).sizes is Store.sizes:
            return ((key, None) for key in self._store.keys("packs/"))
        return self._store.sizes("packs/")

    def forget(self, packs: Iterable[str]) -> None:
        """Stop sharing the blobs of *packs*."""
        gone = set(packs)
        self._packs = {pack: size for pack, size in self._packs.items() if pack not in gone}
        self._blobs = {name: at for name, at in self._blobs.items() if at[0] not in gone}

    def add(self, pack: str, blobs: Sequence[Blob]) -> None:
        """Add one pack with its blobs, in order."""
        self._packs[pack] = size_of(blobs)
        for at, blob in enumerate(blobs):
            self._blobs.setdefault(blob.digest, (pack, at))

    def find(self, name: bytes) -> tuple[str, int] | None:
        """Return the pack of a blob and its position there, or None if the store does not have the blob."""
        return self._blobs.get(name)
