"""Known: the blobs that a store already has, so that a save does not write them again."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Sequence
from typing import Protocol

from nbckpt.core.packs.format import Blob, pack_key, pack_of, parse_index, read_index, size_of
from nbckpt.errors import CorruptError, FormatError, NotFoundError
from nbckpt.store import Store
from nbckpt.store.files import explained


class Heads(Protocol):
    """Knows the heads of many packs; see core/catalogue.py."""

    def heads(self, read: Container[str]) -> Iterable[tuple[str, Iterable[tuple[str, bytes]]]]:
        """Yield the parts that were not *read* yet: a name, and the packs with their heads."""


class Known:
    """The blobs of a store, by digest: a cache of the packs' indexes, which may be out of date."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._packs: dict[str, int] = {}
        self._blobs: dict[bytes, tuple[str, int]] = {}
        self._parts: set[str] = set()
        self._unchecked: set[str] = set()

    def learn(self, heads: Heads, packs: Iterable[str]) -> None:
        """Add the packs that a catalogue knows, and these *packs*. Before their blobs are shared: `stale`."""
        for part, known in heads.heads(self._parts):
            for pack, head in known:
                with contextlib.suppress(CorruptError, FormatError):
                    self._add_unchecked(pack, parse_index(head, pack))
            self._parts.add(part)
        for pack in packs:
            with contextlib.suppress(NotFoundError, CorruptError, FormatError):
                if pack not in self._packs:
                    self._add_unchecked(pack, read_index(self._store, pack))

    def _add_unchecked(self, pack: str, blobs: Sequence[Blob]) -> None:
        if pack not in self._packs:
            self._unchecked.add(pack)
            self.add(pack, blobs)

    def stale(self, packs: Iterable[str]) -> set[str]:
        """Return those of *packs* that were learned and are not whole in the store."""
        # see docs/decisions/0044
        doubtful = self._unchecked & {*packs}
        self._unchecked -= doubtful
        return {pack for pack in doubtful if self._size(pack_key(pack)) != self._packs.get(pack)}

    def _size(self, key: str) -> int | None:
        """Return the size of a pack, or None if it is gone. Each point asks for all packs that it carries."""
        file = self._store.path(key)
        if file is None:
            return dict(self._store.sizes(key)).get(key)
        with explained("look at", file), contextlib.suppress(FileNotFoundError):
            return file.stat().st_size
        return None

    def refresh(self) -> None:
        """Add new packs, and forget packs that are gone or whose size does not match their index.

        The blobs of a damaged pack are not shared. Only `verify` reports the damage. The sizes of packs in a
        folder are not known here: before their blobs are shared, see `stale`.
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
        self._unchecked = {*self._packs} if self._is_local else set()

    def _sizes(self) -> Iterable[tuple[str, int | None]]:
        """Return the keys of packs with their sizes; None where each size takes a call, or a whole pack."""
        if self._is_local or type(self._store).sizes is Store.sizes:
            return ((key, None) for key in self._store.keys("packs/"))
        return self._store.sizes("packs/")

    @property
    def _is_local(self) -> bool:
        return self._store.path(pack_key("0" * 64)) is not None

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

    def has_all(self, names: Iterable[bytes]) -> bool:
        """Tell whether the store has all of these blobs."""
        return all(map(self._blobs.__contains__, names))
