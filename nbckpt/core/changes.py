"""Changes: notes beside a catalogue of what was put and removed since it was written.

    catalogue/added/<kind>/<moment>-<id>/-                    a checkpoint
    catalogue/added/<kind>/<moment>-<id>/<version>-<name>     a checkpoint and a version of a name
    catalogue/added/signatures/<id>/<key>                     a signature by `trust`
    catalogue/again/<kind>/<moment>-<id>                      one that was removed, without some names
    catalogue/removed/<kind>/<moment>-<id>                    a checkpoint
    catalogue/waiting/<the rest of a note's key>              a renewal first saw this note without its key

A note is put before the key that it is about, so that a catalogue never hides that key. Its content is the
moment of the note. See docs/decisions/0089.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

from nbckpt.core.manifest import now
from nbckpt.core.names import is_ref_of_cell
from nbckpt.errors import NotFoundError
from nbckpt.store import Store

FOLDER = "catalogue/"
ADDED, AGAIN, REMOVED = f"{FOLDER}added/", f"{FOLDER}again/", f"{FOLDER}removed/"
WAITING = f"{FOLDER}waiting/"
GRACE = timedelta(hours=1)
"""How long a note may wait for its key. By then the save has ended or died."""

_STEM = r"((?:checkpoints|points|cells)/[0-9TZ]+-([0-9a-f]{64}))"
_ADDED = re.compile(rf"{ADDED}{_STEM}/(?:-|([0-9]{{8}})-([^/]+))")
_SIGNED = re.compile(rf"{ADDED}(signatures/[0-9a-f]{{64}}/[^/]+)")
_REMOVED = re.compile(rf"{REMOVED}{_STEM}")


def note_added(store: Store, key: str, ref: str = "") -> str:
    """Note that a manifest, and maybe a ref, are about to be put. Return the key of the note, if any.

    Args:
        store: The store.
        key: The manifest's key.
        ref: The ref's key.
    """
    if not store.lists_in_pages:
        return ""
    _, name, version = ref.split("/") if ref else ("", "", "")
    note = f"{ADDED}{key.removesuffix('.json')}/{version[:8]}-{name}"
    store.put(note, now().encode())
    return note


def note_signed(store: Store, key: str) -> None:
    """Note that a signature is about to be put under *key*."""
    if store.lists_in_pages:
        store.put(f"{ADDED}{key}", now().encode())


def note_removed(store: Store, key: str) -> None:
    """Note that the manifest under *key* is about to be deleted."""
    if store.lists_in_pages:
        store.put(_removal(key), now().encode())


def note_again(store: Store, key: str) -> None:
    """Note that a manifest that was removed is about to be put by other means than undo."""
    store.put(f"{AGAIN}{key.removesuffix('.json')}", now().encode())


def is_removed(store: Store, key: str) -> bool:
    """Tell whether the removal of a manifest was noted."""
    return store.lists_in_pages and store.exists(_removal(key))


def take_back_removal(store: Store, key: str) -> None:
    """Delete the note of a removal: the manifest under *key* is there again."""
    if store.lists_in_pages:
        store.delete(_removal(key))


def _removal(key: str) -> str:
    return f"{REMOVED}{key.removesuffix('.json')}"


@dataclass(frozen=True)
class Changes:
    """What the notes of a store say.

    Attributes:
        added: The keys of manifests, refs and signatures that were put, each with its notes.
        removed: The keys of manifests that were removed, each with its note.
        saved: The ids of the removed checkpoints, except for results of cells.
        cells: The ids of the removed results of cells.
        again: The notes of those that were put again, so that only the keys tell which names they have.
        marks: The marks of renewals at notes whose keys were missing.
    """

    added: dict[str, list[str]] = field(default_factory=dict)
    removed: dict[str, str] = field(default_factory=dict)
    saved: frozenset[str] = frozenset()
    cells: frozenset[str] = frozenset()
    again: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()

    @classmethod
    def of(cls, keys: Sequence[str]) -> Self:
        """Return the changes that the notes among *keys* name."""
        added: dict[str, list[str]] = {}
        removed = {}
        for note in keys:
            if match := _ADDED.fullmatch(note):
                added.setdefault(f"{match[1]}.json", []).append(note)
                if match[3]:
                    added.setdefault(f"refs/{match[4]}/{match[3]}-{match[2]}", []).append(note)
            elif match := _SIGNED.fullmatch(note):
                added[match[1]] = [note]
            elif match := _REMOVED.fullmatch(note):
                removed[f"{match[1]}.json"] = note
        again = tuple(note for note in keys if note.startswith(AGAIN))
        of_cells = {key for key in removed if key.startswith("cells/")}
        saved, cells = (frozenset(map(_id_of, ids)) for ids in (removed.keys() - of_cells, of_cells))
        marks = frozenset(key for key in keys if key.startswith(WAITING))
        return cls(added, removed, saved, cells, again, marks)

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all removed checkpoints."""
        return self.saved | self.cells

    @classmethod
    def in_store(cls, store: Store) -> Self:
        """Return the changes that the notes in a store name; none if the store needs no notes."""
        return cls.of(list(store.keys(FOLDER)) if store.lists_in_pages else [])

    def __len__(self) -> int:
        return (
            len({note for notes in self.added.values() for note in notes})
            + len(self.removed)
            + len(self.again)
        )

    def apply(self, keys: Iterable[str], prefix: str) -> list[str]:
        """Return the keys of a catalogue that begin with *prefix*, with these changes, sorted.

        Args:
            keys: The keys of the catalogue with this prefix, and those of `refs/` if it begins with `trash/`.
            prefix: The prefix.
        """
        below = prefix.removeprefix("trash/")
        known = {*keys, *(key for key in self.added if key.startswith(below))}
        gone = {key for key in known if key.startswith("refs/") and self._has_removed(key)}
        moved = known - gone | {f"trash/{key}" for key in gone}
        return sorted(key for key in moved - self.removed.keys() if key.startswith(prefix))

    def _has_removed(self, ref: str) -> bool:
        """Tell whether a ref went with its checkpoint; see `trash.names_of`.

        The name of an imported result of a cell stays listed, and leads to no checkpoint.
        """
        return ref[-64:] in (self.cells if is_ref_of_cell(ref) else self.saved)

    def _is_again(self, key: str) -> bool:
        return f"{AGAIN}{key.removesuffix('.json')}" in self.again

    def settled(self, store: Store, keys: set[str], trash: Iterable[str]) -> list[str]:
        """Return the notes, and their marks, that a catalogue with exactly these *keys* makes needless.

        A note whose key is missing is marked first if it seems to be old: its writer's clock may be wrong.

        Args:
            store: The store.
            keys: The keys.
            trash: The keys of the trash, listed before *keys* and after. A checkpoint that all these listings
                lack is gone for good.
        """
        there = {_id_of(key) for key in (*trash, *keys) if key.endswith(".json")}
        gone = self.ids - there
        waiting = {
            note
            for key, notes in self.added.items()
            if not {key, f"trash/{key}"} & keys and _id_of(key) not in gone
            for note in notes
        }
        # It may be about to be deleted; or an undo may be about to bring it back.
        doubtful = {
            key for key in self.removed.keys() & (self.added.keys() | keys) if _id_of(key) not in gone
        }
        waiting |= {self.removed[key] for key in doubtful if not self._is_again(key)}
        every = {note for notes in self.added.values() for note in notes}
        every |= {*self.removed.values(), *self.again}
        waiting = {note for note in waiting if not self._has_waited(store, note)}
        return sorted((every | self.marks) - waiting - set(map(_mark, waiting)))

    def _has_waited(self, store: Store, note: str) -> bool:
        """Return whether an old note was marked over an hour ago. If it has no mark, put one."""
        if not _is_old(store, note):
            return False
        if _mark(note) in self.marks:
            return _is_old(store, _mark(note))
        store.put(_mark(note), now().encode())
        return False


def _mark(note: str) -> str:
    return f"{WAITING}{note.removeprefix(FOLDER)}"


def _id_of(key: str) -> str:
    """Return the id at the end of the key of a manifest or of a ref."""
    return key.removesuffix(".json")[-64:]


def _is_old(store: Store, note: str) -> bool:
    try:
        written = datetime.fromisoformat(store.get(note, 0, 64).decode("ascii", "replace"))
        return datetime.now(UTC) - written > GRACE
    except (NotFoundError, ValueError, TypeError):
        return False
