"""Catalogue: the keys of a store in a few objects, for stores where a listing takes many requests.

    catalogue/tops/<number>-<digest>     which parts there are; see shelf.py
    catalogue/parts/<digest>             sorted keys, the newest manifests, or heads of packs, compressed

Keys are the truth, and a catalogue is a cache of them: `gc` and `push` write it (renewal.py), looks read it,
and nothing is deleted or copied because of it. Everything in it is checked as the original would be. Without
a catalogue, and if it is damaged, everything is listed as before. See docs/decisions/0089.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Self

from nbckpt.core.algorithms import Algorithms
from nbckpt.core.changes import FOLDER, Changes
from nbckpt.core.manifest_json import canonical, decode
from nbckpt.core.packs.format import index_size
from nbckpt.core.references import Entry
from nbckpt.core.schema import read
from nbckpt.core.shelf import Shelf
from nbckpt.errors import CorruptError, FormatError, NbckptError, NotFoundError
from nbckpt.store import Data, Store

LISTED = ("cells/", "checkpoints/", "points/", "refs/", "signatures/", "trash/refs/")
"""The prefixes of the keys in a catalogue."""

MANIFESTS = ("checkpoints/", "points/", "cells/")

FORMAT = 1
_MOST_PARTS = 16  # of manifests or heads
_DIGEST = re.compile("[0-9a-f]{64}")
_FORM = {"format": int, "keys": [(str, _DIGEST)], "manifests": [_DIGEST], "heads": [_DIGEST]}

_log = logging.getLogger("nbckpt")


@dataclass(frozen=True)
class Top:
    """The parts of one catalogue.

    Attributes:
        number: Counts up from 1.
        keys: For each part of the sorted keys: its first key and its digest.
        manifests: The parts with the newest manifests.
        heads: The parts with the heads of packs, oldest first.
    """

    number: int = 0
    keys: tuple[tuple[str, str], ...] = ()
    manifests: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()

    @property
    def parts(self) -> set[str]:
        """The digests of all parts."""
        return {part for _, part in self.keys} | {*self.manifests, *self.heads}

    def covering(self, prefix: str) -> Iterator[str]:
        """Yield the digest of each part that can have keys with this prefix."""
        firsts = [first for first, _ in self.keys]
        for first, part in self.keys[max(0, bisect_right(firsts, prefix) - 1) :]:
            if first > prefix and not first.startswith(prefix):
                return
            yield part

    def encode(self) -> bytes:
        """Return the document."""
        fields = {"keys": self.keys, "manifests": self.manifests, "heads": self.heads}
        return canonical({"format": FORMAT, **fields})

    @classmethod
    def decode(cls, number: int, data: bytes, label: str) -> Self:
        """Return the top in a document.

        Raises:
            CorruptError: It is not the document of a top, or names impossible parts.
            FormatError: A newer nbckpt wrote it.
        """
        fields: dict[str, Any] = read(data, _FORM, label)
        if fields["format"] > FORMAT:
            raise FormatError(f"{label} was written by a newer nbckpt. To use it, upgrade nbckpt")
        keys = tuple((first, part) for first, part in fields["keys"])
        is_repeated = len({part for _, part in keys}) < len(keys)
        if is_repeated or any(before[0] >= after[0] for before, after in pairwise(keys)):
            raise CorruptError(f"{label} is damaged: its parts are not in order")
        if max(len(fields["manifests"]), len(fields["heads"])) > _MOST_PARTS:
            raise CorruptError(f"{label} is damaged: it has too many parts")
        return cls(number, keys, tuple(fields["manifests"]), tuple(fields["heads"]))


class Catalogue:
    """Reads the catalogue of one store.

    Args:
        store: The store.
        algorithms: Returns the algorithms of the store.

    Attributes:
        shelf: Holds it.
    """

    def __init__(self, store: Store, algorithms: Callable[[], Algorithms]) -> None:
        self.store = store
        self.shelf = Shelf(store, algorithms, FOLDER)
        self._top = ("", Top())

    def view(self) -> View | None:
        """Return the store as the catalogue shows it now; None if it has no catalogue that can be read."""
        if not self.store.lists_in_pages:
            return None
        if not self._top[0] and not has_catalogue(self.store):
            return None
        return self._view(list(self.store.keys(FOLDER)))

    def taken(self, *prefixes: str) -> list[str]:
        """Return the keys with these prefixes, including those that writers have noted and not put yet."""
        listed = self._listed_with_notes()
        return [key for prefix in prefixes for key in listed(prefix)]

    def _listed_with_notes(self) -> Callable[[str], Iterable[str]]:
        """Return what lists the keys with a prefix, and those that are noted."""
        if not self.store.lists_in_pages:
            return self.store.keys  # there are no notes
        keys = list(self.store.keys(FOLDER))
        if view := self._view(keys):
            return view.keys
        changes = Changes.of(keys)
        return lambda prefix: changes.apply(self.store.keys(prefix), prefix)

    def _view(self, keys: list[str]) -> View | None:
        """Return the store as the catalogue with these keys and notes shows it, if it can be read."""
        # Notes sort before tops: see docs/decisions/0089.
        try:
            top = self.top(self.shelf.newest(keys))
        except NotFoundError:
            return None  # it was replaced just now
        except (CorruptError, FormatError) as error:
            _log.warning("%s. Everything is listed instead; %%ckpt gc writes it again", error)
            return None
        changes = Changes.of(keys)
        return View(self, top, changes) if top.number and not changes.again else None

    def top(self, key: str) -> Top:
        """Return the top under *key*; an empty one for "".

        Raises:
            NotFoundError: It is gone.
            CorruptError: It is damaged.
            FormatError: A newer nbckpt wrote it.
        """
        if key != self._top[0]:
            top = Top()
            if key:
                top = Top.decode(self.shelf.number_of(key), self.shelf.top(key), self.shelf.label)
            self.shelf.keep(top.parts)
            self._top = key, top
        return self._top[1]

    def heads(self, digest: str) -> Iterator[tuple[str, bytes]]:
        """Yield the packs in a part of heads, each with its head, which its id vouches for.

        Raises:
            NotFoundError: The part is gone.
            CorruptError: It is damaged.
        """
        data, at = memoryview(self.shelf.part(digest)), 0
        while at < len(data):
            head = bytes(data[at : at + index_size(data[at:], "of a catalogue")])
            yield self.shelf.algorithms().digest(head).hex(), head
            at += len(head)

    def manifests(self, digest: str) -> Iterator[tuple[str, bytes]]:
        """Yield the keys in a part of manifests, each with the manifest's bytes.

        Raises:
            NotFoundError: The part is gone.
            CorruptError: It is damaged.
        """
        for line in self.shelf.part(digest).split(b"\n"):
            key, _, manifest = line.partition(b"\t")
            yield key.decode("ascii", "replace"), manifest


def has_catalogue(store: Store) -> bool:
    """Tell whether a store has a catalogue, by one request."""
    return store.lists_in_pages and any(True for _ in store.keys(f"{FOLDER}tops/"))


def _lines(part: bytes, prefix: str) -> list[str]:
    """Return the lines of a sorted text that begin with *prefix*."""
    wanted = prefix.encode()
    start = 0 if part.startswith(wanted) else part.find(b"\n" + wanted) + 1
    last = max(start, part.rfind(b"\n" + wanted) + 1)
    end = part.find(b"\n", last)
    lines = part[start : end if end >= 0 else None].decode("ascii", "replace").split("\n")
    return [line for line in lines if line.startswith(prefix)]


def _is_manifest(data: bytes, key: str) -> bool:
    """Tell whether these are the bytes of a manifest with this key."""
    with suppress(CorruptError, FormatError):
        return bool(data) and Entry.of(decode(data)).key.partition("/")[2] == key.partition("/")[2]
    return False


class View(Store):
    """A store whose checkpoints and names are listed by its catalogue; all else comes from the store itself.

    Attributes:
        top: The catalogue.
        changes: What was put and removed since.
    """

    def __init__(self, catalogue: Catalogue, top: Top, changes: Changes) -> None:
        self.url = catalogue.store.url
        self.top, self.changes = top, changes
        self._catalogue, self._store = catalogue, catalogue.store
        self._is_usable = True

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Store.keys`."""
        if self._is_usable and prefix.startswith(LISTED):
            try:
                yield from self.changes.apply(self._rows(prefix), prefix)
            except (NotFoundError, CorruptError) as error:
                self._give_up(error)
            else:
                return
        yield from self._store.keys(prefix)

    def _rows(self, prefix: str) -> set[str]:
        """Return the keys of the catalogue that `Changes.apply` needs for *prefix*."""
        below = prefix.removeprefix("trash/")
        prefixes = {prefix, below} if self.changes.ids else {prefix}
        rows: set[str] = set()
        for wanted in prefixes:
            for part in self.top.covering(wanted):
                rows.update(_lines(self._catalogue.shelf.part(part), wanted))
        return rows

    def _give_up(self, error: NbckptError) -> None:
        self._is_usable = False
        _log.warning("%s. Everything is listed instead; %%ckpt gc writes it again", error)

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """See `Store.get`. The newest manifests, and which signatures exist, come from the catalogue."""
        if key.startswith(MANIFESTS) and _is_manifest(data := self._manifests.get(key, b""), key):
            return data[start:stop]
        if key.startswith("signatures/") and key not in self.keys(key):
            raise NotFoundError(f"no {key!r} in {self.url}")
        return self._store.get(key, start, stop)

    @cached_property
    def _manifests(self) -> dict[str, bytes]:
        try:
            return dict(chain.from_iterable(map(self._catalogue.manifests, self.top.manifests)))
        except (NotFoundError, CorruptError) as error:
            self._give_up(error)
            return {}

    def heads(self, read: Container[str]) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
        """Yield the parts of heads that were not *read* yet: the digest, and the packs with their heads.

        It ends at a part that cannot be read.
        """
        try:
            for part in self.top.heads:
                if part not in read:
                    yield part, list(self._catalogue.heads(part))
        except (NotFoundError, CorruptError, FormatError) as error:
            self._give_up(error)

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        return self._store.exists(key)

    def put(self, key: str, data: Data) -> None:
        """See `Store.put`."""
        self._store.put(key, data)

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        self._store.delete(key)
