"""Trash: removed checkpoints and their names, under `trash/` in the store, until `gc` deletes them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from nbckpt.core.changes import note_added, note_removed, take_back_removal
from nbckpt.core.history import PENDING, History
from nbckpt.core.packs.relocation import find_index
from nbckpt.core.references import SHORT, Entry, Ref
from nbckpt.core.uses import Uses, add_uses
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError


def remove(history: History, entry: Entry) -> list[Ref]:
    """Move a checkpoint and its names into the trash. Return the names; see `names_of`."""
    refs = names_of(history, entry, history.refs())
    for key in (entry.key, *(ref.key for ref in refs)):
        history.store.copy(key, _trashed(key))
    note_removed(history.store, entry.key)
    history.store.delete(entry.key)
    history.store.settle(entry.kind)
    # From here on the names lead nowhere and are invisible. `gc` removes names that remain.
    with suppress(StoreError):
        for ref in refs:
            history.store.delete(ref.key)
    return refs


def names_of(history: History, entry: Entry, refs: Iterable[Ref]) -> list[Ref]:
    """Return those of *refs* that `remove` moves into the trash together with a checkpoint.

    The kept result of a cell that also has another name is there twice, in `cells/` and in `checkpoints/`.
    Each copy goes with its own names, and the other one stays.
    """
    names = [ref for ref in refs if ref.id == entry.id]
    if entry.kind == "cells":  # also while its other name is about to be given
        return [ref for ref in names if ref.is_of_cell]
    tags = [ref for ref in names if not ref.is_of_cell]
    # The imported result of a cell has a name of a cell and is in `checkpoints/` only.
    is_imported = tags != names and not history.store.exists(f"cells/{entry.key.partition('/')[2]}")
    return names if is_imported else tags


def discard(history: History, entry: Entry) -> None:
    """Move a checkpoint without a name into the trash. No undo brings it back, and `gc` deletes it."""
    history.store.copy(entry.key, _trashed(entry.key))
    history.store.delete(entry.key)


def contents(history: History) -> dict[str, list[tuple[Entry, list[Ref]]]]:
    """Return the checkpoints in the trash by id, each as the arguments of `bring_back`.

    The kept result of a cell that also had another name can be there twice; see `names_of`.
    """
    removed: dict[str, list[tuple[Entry, list[Ref]]]] = {}
    for entry in history.entries("trash"):
        removed.setdefault(entry.id, []).append((replace(entry, key=_back_from_trash(entry.key)), []))
    for ref in history.all_refs() if removed else ():
        if ref.id in removed and ref.key.startswith("trash/"):
            copies = removed[ref.id]
            own = [refs for entry, refs in copies if (entry.kind == "cells") == ref.is_of_cell]
            (own or [copies[0][1]])[0].append(replace(ref, key=ref.key.removeprefix("trash/")))
    return removed


def bring_back(history: History, entry: Entry, refs: Iterable[Ref]) -> None:
    """Undo `remove`, if `gc` has not emptied the trash. An interrupted call can be repeated.

    Raises:
        NotFoundError: `gc` has deleted the checkpoint, or is about to.
    """
    keys = [*(ref.key for ref in refs), entry.key]
    claim = f"{PENDING}{entry.id}"
    back = []
    try:
        if not history.store.exists(entry.key):
            # The claim comes before the look at the marks: see docs/decisions/0045.
            history.store.put(claim, entry.claim(()))
            _check_contents(history, replace(entry, key=_trashed(entry.key)))
        for ref in refs:
            note_added(history.store, entry.key, ref.key)
        note_added(history.store, entry.key)
        for key in keys:  # the checkpoint comes last and shows itself and its names at once
            if not history.store.exists(key):
                history.store.copy(_trashed(key), key)
                back.append(key)
    except NotFoundError:
        for key in (*reversed(back), claim):
            history.store.delete(key)
        raise NotFoundError(
            f"checkpoint {entry.id[:SHORT]} cannot be brought back: `gc` has deleted it, or is about to"
        ) from None
    take_back_removal(history.store, entry.key)
    for key in (claim, *map(_trashed, keys)):
        history.store.delete(key)


def _check_contents(history: History, entry: Entry) -> None:
    """Check that no collector has deleted, or is about to delete, a checkpoint or its data."""
    condemned, uses = history.condemned(), Uses()
    if entry.id in condemned:
        raise NotFoundError(f"checkpoint {entry.id[:SHORT]} is being collected")
    try:
        manifest = history.read(entry)
    except (CorruptError, FormatError):
        return  # it was damaged before, and its data cannot be read anyway
    add_uses(uses, manifest)
    for pack, places in uses.items():
        if pack in condemned:
            raise NotFoundError(f"pack {pack[:12]} is being collected")
        index = find_index(history.store, pack)
        blobs = (index[at] for at in places.of(len(index)))
        if any(blob is None or blob.pack in condemned for blob in blobs):
            raise NotFoundError(f"pack {pack[:12]} was collected")


def _trashed(key: str) -> str:
    return f"trash/{key.removeprefix('checkpoints/')}"


def _back_from_trash(key: str) -> str:
    below = key.removeprefix("trash/")
    return below if "/" in below else f"checkpoints/{below}"
