"""Renewal: writes the catalogue of a store; see catalogue.py.

Any number of writers may do that at once. Only a writer whose top counts deletes the notes that it settles.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from nbckpt.core.catalogue import LISTED, MANIFESTS, Catalogue, Top
from nbckpt.core.changes import FOLDER, Changes
from nbckpt.core.history import History
from nbckpt.core.packs.format import pack_of, parse_index, read_head, size_of
from nbckpt.core.shelf import filled
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError
from nbckpt.store import Store

MOST_ROWS = 1 << 16
"""The most keys in one part."""

SMALLEST = 1_000
"""A store with fewer keys has no catalogue: they are one page of a listing."""

MOST_NOTES = 400
"""If there are more notes, a push writes the whole catalogue."""

NEWEST, FEWEST = 60, 20  # manifests
_MOST_MANIFEST = 1 << 20
_LARGEST_HEAD = 4 << 20
_MOST_HEADS = 3  # parts
_WRITTEN = f"{FOLDER}tops/", f"{FOLDER}parts/"

_log = logging.getLogger("nbckpt")


def renew_catalogue(history: History, *, whole: bool = True, near: Store | None = None) -> None:
    """Write the catalogue of a store whose listings take many requests. A failure is logged.

    Args:
        history: The store.
        whole: List all keys. Otherwise only what is new is added, unless that is much.
        near: A store that has most of the packs, too, and that is faster to read.
    """
    store = history.store
    if store.lists_in_pages:
        try:
            _Renewal(Catalogue(store, lambda: history.algorithms), near or store).run(whole=whole)
        except StoreError as error:
            _log.warning("the catalogue of %s was not renewed: %s", store.url, error)


@dataclass
class _Renewal:
    catalogue: Catalogue
    near: Store

    @property
    def store(self) -> Store:
        return self.catalogue.store

    def run(self, *, whole: bool) -> None:
        present = list(self.store.keys(FOLDER))  # before the keys: a note comes before its key
        changes, old = Changes.of(present), self._old(self.catalogue.shelf.newest(present))
        if not (whole or old.number == 0 or changes.removed or len(changes) > MOST_NOTES):
            if not changes:
                return
            newest = self._newest_of(self._page(old).keys() | changes.added.keys(), changes)
            if len(newest) >= FEWEST:
                self._put(present, old, Top(0, old.keys, self._manifests(old, newest), old.heads))
                return
        trash = self._trash(changes)
        keys = {key for folder in LISTED for key in self.store.keys(folder)}
        trash += self._trash(changes)  # a removal or an undo may be on its way
        if len(keys) < SMALLEST:
            settled = changes.settled(self.store, keys, trash)
            stale = [key for key in present if key.startswith(_WRITTEN)]
            for key in (*stale, *settled):
                self.store.delete(key)
            return
        newest = self._newest_of(keys, Changes())
        top = Top(0, self._keys(keys), self._manifests(old, newest), self._heads(old))
        if self._put(present, old, top):
            for note in changes.settled(self.store, keys, trash):
                self.store.delete(note)

    def _trash(self, changes: Changes) -> list[str]:
        return list(self.store.keys("trash/")) if changes.removed else []

    def _old(self, key: str) -> Top:
        try:
            return self.catalogue.top(key)
        except (NotFoundError, CorruptError, FormatError):
            return Top()

    def _put(self, present: list[str], old: Top, top: Top) -> bool:
        """Put the next top and tell whether it counts. If so, delete what only older ones need."""
        if (old.keys, old.manifests, old.heads) == (top.keys, top.manifests, top.heads):
            return True
        return self.catalogue.shelf.put_top(top.encode(), present, top.parts | old.parts)

    def _part(self, data: bytes) -> str:
        return self.catalogue.shelf.put_part(data)

    def _keys(self, keys: Iterable[str]) -> tuple[tuple[str, str], ...]:
        rows = sorted(key for key in keys if key.isascii() and key.isprintable())
        parts = (rows[at : at + MOST_ROWS] for at in range(0, len(rows), MOST_ROWS))
        return tuple((part[0], self._part("\n".join(part).encode())) for part in parts)

    # Manifests.

    def _newest_of(self, keys: Iterable[str], changes: Changes) -> list[str]:
        """Return the keys of the newest manifests of each kind."""
        living = [key for key in keys if key.startswith(MANIFESTS) and key not in changes.removed]
        return [
            key
            for kind in MANIFESTS
            for key in sorted((key for key in living if key.startswith(kind)), reverse=True)[:NEWEST]
        ]

    def _page(self, old: Top) -> dict[str, bytes]:
        with suppress(NotFoundError, CorruptError):
            return dict(chain.from_iterable(map(self.catalogue.manifests, old.manifests)))
        return {}

    def _manifests(self, old: Top, keys: Iterable[str]) -> tuple[str, ...]:
        known = self._page(old)
        read = ((key, known.get(key) or self._manifest(key)) for key in keys)
        lines = [b"%s\t%s" % (key.encode(), manifest) for key, manifest in read if manifest]
        return tuple(self._part(b"\n".join(group)) for group in filled(lines))

    def _manifest(self, key: str) -> bytes:
        """Return a manifest; b"" if it is gone, or not one that a line can hold."""
        with suppress(NotFoundError):
            data = self.store.get(key, 0, _MOST_MANIFEST + 1)
            return b"" if len(data) > _MOST_MANIFEST or b"\n" in data else data
        return b""

    # Heads of packs.

    def _heads(self, old: Top) -> tuple[str, ...]:
        """Return the parts with the heads of the whole packs, those that were put last at the end."""
        sizes = {pack_of(key): size for key, size in self.store.sizes("packs/") if key.endswith(".pack")}
        known = {pack: head for pack, head in self._known(old).items() if pack in sizes}
        heads = known | dict(self._read(sizes.keys() - known.keys(), sizes))
        groups = filled(heads.values())[-_MOST_HEADS:]
        return tuple(self._part(b"".join(group)) for group in groups)

    def _known(self, old: Top) -> dict[str, bytes]:
        """Return the heads in a former catalogue."""
        with suppress(NotFoundError, CorruptError, FormatError):
            return dict(chain.from_iterable(map(self.catalogue.heads, old.heads)))
        return {}

    def _read(self, packs: Iterable[str], sizes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
        """Yield the heads of packs that are whole."""
        for pack in sorted(packs):
            with suppress(NotFoundError, CorruptError, FormatError):
                head = self._head(pack)
                if len(head) < _LARGEST_HEAD and size_of(parse_index(head, pack)) == sizes[pack]:
                    yield pack, head

    def _head(self, pack: str) -> bytes:
        with suppress(NotFoundError, CorruptError, FormatError):
            return read_head(self.near, pack)
        return read_head(self.store, pack)
