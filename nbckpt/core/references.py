"""References: the checkpoints in a store and the versions of their names.

    checkpoints/<moment>-<id>.json       manifests; their keys sort by time
    points/…, cells/…                    manifests that nobody asked for by name; see docs/decisions/0097
    refs/<name>/<version>-<id>           a version of a name; the content says where its manifest is

Every key is put once and never changed, so writers never have to wait for each other.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Self

from nbckpt.core.changes import note_added
from nbckpt.core.manifest import Manifest
from nbckpt.core.names import CELL, check_name, decode_name, encode_name
from nbckpt.errors import NotFoundError, UsageError
from nbckpt.store import Store

SHORT = 8
"""The number of characters of an id that people see."""

Kind = Literal["checkpoints", "points", "cells"]
KINDS: tuple[Kind, ...] = "checkpoints", "points", "cells"
"""The folders of manifests: saved by the user, made after each cell, and kept results of cells."""

_FOLDER = rf"(?:{'|'.join(KINDS)})"
_ENTRY = re.compile(rf"(?:{_FOLDER}|trash(?:/{_FOLDER})?)/([0-9TZ]+)-([0-9a-f]{{64}})\.json")
_REF = re.compile(r"(?:trash/)?refs/([^/]+)/([0-9]{8})-([0-9a-f]{64})")
_ID = len("-") + 64
_VERSION = len("00000001") + _ID
_MOST_VERSIONS = 10**8 - 1
_MOST = 64 << 10  # the most bytes of the id and the moment in a ref
PATIENCE_S = tuple(0.05 * 1.25**attempt for attempt in range(12))
"""How long a writer waits for another one to give a number up, at each number that both take."""


_Numbered = tuple[str, int, str]
"""The name, the number and the checkpoint in the key of a ref."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A checkpoint in the listing: its time, its id and its key. Sorts by time, oldest first."""

    moment: str
    id: str
    key: str

    def __repr__(self) -> str:
        return f"Entry({self.id[:SHORT]}, {self.moment})"

    @classmethod
    def of(cls, manifest: Manifest, kind: Kind = "checkpoints") -> Self:
        """Return the entry of a checkpoint."""
        moment = re.sub(r"[^0-9TZ]", "", manifest.created_at)
        return cls(moment, manifest.id, f"{kind}/{moment}-{manifest.id}.json")

    @classmethod
    def parse(cls, key: str) -> Self | None:
        """Return the entry of the checkpoint under *key*, or None if no checkpoint has such a key."""
        parts = _ENTRY.fullmatch(key)
        return cls(parts[1], parts[2], key) if parts else None

    @property
    def kind(self) -> str:
        """The kind of the checkpoint; `trash` for a removed one."""
        return self.key.partition("/")[0]

    def claim(self, packs: Iterable[str]) -> bytes:
        """Return the content of a key that names this checkpoint and claims *packs* for it."""
        return "".join(f"{line}\n" for line in (self.id, self.moment, *packs)).encode()


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """One version of a name."""

    version: int
    id: str
    name: str
    key: str

    @property
    def is_of_cell(self) -> bool:
        """Whether the name is that of kept results of a cell."""
        return self.name.startswith(CELL)

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    def __repr__(self) -> str:
        return f"Ref({str(self)!r}, {self.id[:SHORT]})"


def is_ref(key: str) -> bool:
    """Tell whether a key has the form of a ref's."""
    return _REF.fullmatch(key) is not None


class References:
    """The checkpoints and names of one store.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def entries(self, folder: Kind | Literal["trash"] = "checkpoints") -> list[Entry]:
        """Return the checkpoints of one kind, newest first. Their manifests are not read."""
        return sorted(filter(None, map(Entry.parse, self.store.keys(f"{folder}/"))), reverse=True)

    def living(self, kinds: Iterable[Kind] = KINDS) -> list[Entry]:
        """Return the checkpoints of several kinds, newest first, each once."""
        by_id = {entry.id: entry for kind in reversed([*kinds]) for entry in self.entries(kind)}
        return sorted(by_id.values(), reverse=True)

    def refs(self, name: str = "") -> list[Ref]:
        """Return the versions of *name*, or of every name, sorted.

        If two versions have one number, the one whose id sorts later counts as the next. The key of a writer
        that died, or that is about to take another number, changes no number: see docs/decisions/0172.
        """
        return [ref for ref in self.all_refs(name) if not ref.key.startswith("trash/")]

    def named(self, refs: Iterable[Ref]) -> list[tuple[Ref, Entry]]:
        """Return the refs whose checkpoint is there, each with its checkpoint.

        The kept result of a cell that also has another name is there twice: each name leads to its own copy.
        The others belong to a save or a pull that still runs or that died, or to a removal.
        """
        if not (refs := [*refs]):
            return []
        kept = saved = {entry.id: entry for entry in self.entries()}
        if any(ref.is_of_cell for ref in refs):
            kept = saved | {entry.id: entry for entry in self.entries("cells")}
        targets = ((kept if ref.is_of_cell else saved).get(ref.id) for ref in refs)
        return [(ref, entry) for ref, entry in zip(refs, targets, strict=True) if entry]

    def all_refs(self, name: str = "") -> list[Ref]:
        """Return all versions, including removed ones. A version keeps its number if another is removed."""
        below = f"refs/{encode_name(name)}/" if name else "refs/"
        keys, unshown = self._numbered(below), set[_Numbered]()
        if len({key[:2] for key in keys}) < len(keys):
            shown = self._shown()
            keys = self._numbered(below)  # afterwards: who is shown by then has its number for good
            shared = Counter(key[:2] for key in keys)
            there = {key for key, path in keys.items() if key[2] in shown or path.startswith("trash/")}
            unshown = {key for key in keys.keys() - there if shared[key[:2]] > 1}
        refs = [Ref(number, target, label, keys[label, number, target]) for label, number, target in unshown]
        last = dict[str, int]()
        for label, number, target in sorted(keys.keys() - unshown):
            last[label] = max(number, last.get(label, 0) + 1)
            refs.append(Ref(last[label], target, label, keys[label, number, target]))
        # Of one number, what is shown comes last.
        return sorted(refs, key=lambda ref: (ref.name, ref.version))

    def _shown(self) -> set[str]:
        """Return the ids of all checkpoints, including removed ones."""
        return {entry.id for entry in (*self.living(), *self.entries("trash"))}

    def _numbered(self, below: str) -> dict[_Numbered, str]:
        """Return the keys of refs below a prefix, each by its name, its number and its checkpoint."""
        keys = [*self.store.keys(f"trash/{below}"), *self.store.keys(below)]
        matches = (match for match in map(_REF.fullmatch, keys) if match)
        return {(label, int(m[2]), m[3]): m[0] for m in matches if (label := decode_name(m[1]))}

    def spent_refs(self, ids: Container[str]) -> list[str]:
        """Return the keys of the removed names of these checkpoints that are no longer needed.

        The last version of a name stays, and so does every version if two keys have one number. Therefore
        no number is used again, and no version changes its number.
        """
        by_name: dict[str, list[Ref]] = {}
        shown = self._shown()
        for ref in self.all_refs():
            if ref.id in shown or ref.key.startswith("trash/"):  # others may go, and their numbers with them
                by_name.setdefault(ref.name, []).append(ref)
        keys = []
        for refs in by_name.values():
            if all(ref.key.endswith(f"/{ref.version:08d}-{ref.id}") for ref in refs):
                trashed = (ref for ref in refs[:-1] if ref.key.startswith("trash/"))
                keys += [ref.key for ref in trashed if ref.id in ids]
        return keys

    def add_ref(self, name: str, target: Entry, packs: Iterable[str] = ()) -> Ref:
        """Give a checkpoint the next version of *name*.

        Writers that do so at once get different numbers, with the exceptions of docs/decisions/0172. The
        number of a removed version is not used again. Until the checkpoint is published, the key claims
        *packs*.

        Raises:
            UsageError: The name is not valid, or it has reached the last possible version.
        """
        name = check_name(name)
        # see docs/decisions/0172
        for patience in PATIENCE_S:
            ref, note = self._claim_next(name, target, packs)
            if self._is_alone(ref.key, patience):
                break
            self.store.delete(note or ref.key)
        else:
            ref, note = self._claim_next(name, target, packs)
        if note:
            self.store.put(ref.key, target.claim(packs))
        return ref

    def _claim_next(self, name: str, target: Entry, packs: Iterable[str]) -> tuple[Ref, str]:
        """Show other writers that a checkpoint takes the next version. Return it, and the note that shows it.

        If the store has no notes, the key itself shows it, and the note is "".
        """
        version = self.last_version(name) + 1
        if version > _MOST_VERSIONS:
            raise UsageError(f"{name!r} has reached version {version - 1}, the last. Choose another name")
        key = f"refs/{encode_name(name)}/{version:08d}-{target.id}"
        note = note_added(self.store, target.key, key)
        if not note:
            self.store.put(key, target.claim(packs))
        return Ref(version, target.id, name, key), note

    def _is_alone(self, key: str, patience: float) -> bool:
        """Tell whether no other writer takes the number of a key. One that sorts later gets time to go."""
        for pause in (patience, 0.0):
            others = {*self._taken(key[: 1 - _ID])} - {key}
            if not others or min(others) < key:
                break
            time.sleep(pause)
        return not others

    def _taken(self, *prefixes: str) -> list[str]:
        """Return the keys of refs with these prefixes, including those that writers are about to put."""
        return [key for prefix in prefixes for key in self.store.keys(prefix)]

    def last_version(self, name: str) -> int:
        """Return the number of the last version of *name*, including removed versions.

        Every save calls this, so it reads only the numbers in the keys.
        """
        below = f"refs/{encode_name(name)}/"
        keys = self._taken(f"trash/{below}", below)
        numbers = [key[-_VERSION:-_ID] for key in keys]
        if len(set(numbers)) == len(numbers):
            return int(max(filter(str.isdecimal, numbers), default="0"))
        last = 0
        # Two keys have one number: the second counts as the next.
        for version in sorted({key[-_VERSION:] for key in keys}):
            if version[:8].isdecimal():
                last = max(int(version[:8]), last + 1)
        return last

    def named_by(self, key: str) -> Entry | None:
        """Return the checkpoint whose place a ref records, or None if it records none or it is gone."""
        ref = _REF.fullmatch(key)
        with suppress(NotFoundError):
            moment = self.store.get(key, 0, _MOST).decode("ascii", "replace").split()[1:2]
            entry = Entry.parse(f"checkpoints/{''.join(moment)}-{ref[3]}.json") if ref else None
            if entry and self.store.exists(entry.key):
                return entry
        return None
