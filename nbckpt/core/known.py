"""Known: which blobs a store has, so that a save writes none of them again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from nbckpt.core.pack import pack_of, read_index
from nbckpt.errors import CorruptError, FormatError, NotFoundError
from nbckpt.store import Store


class Known:
    """Which blobs a store has, by digest: a cache of the packs' indexes, never the truth."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._packs: set[str] = set()
        self._blobs: dict[bytes, tuple[str, int]] = {}

    def refresh(self) -> None:
        """Take in the packs that came and forget those that went."""
        present = {pack_of(key) for key in self._store.keys("packs/") if key.endswith(".pack")}
        if not self._packs <= present:
            self._packs.clear()
            self._blobs.clear()
        for pack in present - self._packs:
            # A damaged pack offers nothing to share; `verify` is what reports it.
            with contextlib.suppress(NotFoundError, CorruptError, FormatError):
                self.add(pack, (blob.digest for blob in read_index(self._store, pack)))

    def forget(self, packs: Iterable[str]) -> None:
        """Offer nothing of *packs* any more."""
        gone = set(packs)
        self._packs -= gone
        self._blobs = {name: place for name, place in self._blobs.items() if place[0] not in gone}

    def add(self, pack: str, digests: Iterable[bytes]) -> None:
        """Take in one pack."""
        self._packs.add(pack)
        for place, name in enumerate(digests):
            self._blobs.setdefault(name, (pack, place))

    def find(self, name: bytes) -> tuple[str, int] | None:
        """Return the pack and the place of a blob, where the store has it."""
        return self._blobs.get(name)
