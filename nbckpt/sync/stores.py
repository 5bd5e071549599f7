"""Stores: copy the checkpoints that one store has and another one lacks.

A key is put once and never changed. So a key that the target has with the same size is not copied again.
Any number of machines may write to one target at once. Nothing is ever removed from either store.

The source is not trusted. A pack is put only if all its blobs match its id. A manifest is put only if it
matches its key and the target has the packs that it needs.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from nbckpt.core.catalogue import has_catalogue
from nbckpt.core.changes import Changes, note_added, note_again, note_signed
from nbckpt.core.history import decode_entry
from nbckpt.core.manifest import Manifest
from nbckpt.core.manifest_json import MOST
from nbckpt.core.names import is_ref_of_cell
from nbckpt.core.packs.format import LARGEST_PACK, Blob, check_pack, pack_key, pack_of
from nbckpt.core.packs.relocation import check_table, find_index, join_tables, locate, moved_key
from nbckpt.core.references import Entry, Kind, is_ref
from nbckpt.core.uses import Places, Uses, add_uses
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError
from nbckpt.store import Buffer, Cancel, Store
from nbckpt.sync.progress import ProgressTracker
from nbckpt.sync.transfer import Moved, TransferOptions, TransferPool

# Nothing is deleted at the target: see docs/decisions/0027.
ORDER = ("store.json", "packs/", "signatures/", "refs/", "cells/", "checkpoints/")
"""The order of puts: contents, then names, and last the manifests. A manifest shows its checkpoint.


Points stay where they were made; see docs/decisions/0097.
"""

_ENDS = {"packs/": (".pack", ".moved")}
"""The order of the keys with a prefix, by their ends: a table comes after the packs that it leads to."""

_MOST_TRIES = 3
_MOST_CLAIM = 256  # bytes; the moment in a ref comes before them
_PATIENCE_S, _PAUSE_S = 30.0, 0.2
"""How long to wait for a collector at the target. The mark of one that died stays for an hour."""


def mirror(source: Store, target: Store, options: TransferOptions | None = None) -> Moved:
    """Copy every checkpoint that *source* has at the beginning to *target*.

    Checkpoints that are saved meanwhile are left to the next copy. A reader of the target finds each one
    whole or not at all, even if the copy is killed. Trials are not copied, see `upload`.

    Args:
        source: The store to read.
        target: The store to write.
        options: The timeout, the retries and the progress.

    Returns:
        The counts; its files are keys. Damaged keys of the source are in `left_out`.

    Raises:
        StoreError: A storage failed, or the copy was cancelled or took too long. Keys that were copied
            until then need not be copied again.
    """
    options = options or TransferOptions()
    work, meter = options.work(target.url), ProgressTracker(options.on_progress)
    left_out: dict[str, str] = {}
    moved: dict[str, int] = {}
    here, of_points = dict[str, int](), set[str]()  # once: points come and go meanwhile
    dead: set[str] = set()
    for _ in range(_MOST_TRIES + 1):
        if moved:
            work.one(partial(_wait_for_collectors, target, work.cancel, dead))
        there = work.one(partial(_sizes, target))
        here = here or work.one(partial(_shown, source))
        missing = {key: size for key, size in here.items() if _is_due(key, size, there.get(key))}
        of_points |= work.one(partial(_only_of_points, source, here, missing))
        for key in (*left_out, *of_points):
            missing.pop(key, None)
        if not missing:
            same = len(here.keys() - moved.keys() - left_out.keys())
            more = sum(key.startswith("checkpoints/") for key in there.keys() - here.keys())
            return Moved(len(moved), sum(moved.values()), same, left_out=left_out, only_there=more)
        meter.plan(len(missing), sum(missing.values()))
        is_listed = work.one(partial(has_catalogue, target))
        removed = work.one(partial(Changes.in_store, target)).removed
        transfer = _Transfer(source, target, meter, set(there), left_out, moved, removed, is_listed=is_listed)
        try:
            transfer.move(missing, work)
        except NotFoundError:
            here, of_points = {}, set()  # gc runs in the source: list the remaining keys again
        # List again: gc in the target may have deleted packs before their manifest was there.
    raise StoreError(f"{source.url} or {target.url} is changed by gc again and again: try again later")


def _wait_for_collectors(target: Store, cancel: Cancel, dead: set[str]) -> None:
    """Wait until no collector deletes at the target: it may have looked before a manifest was put there.

    What it deletes is seen as missing then, and copied again. See docs/decisions/0045. Marks that stay too
    long are added to the *dead* ones, which count no more.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while marks := {*target.keys("condemned/")} - dead:
        if time.monotonic() >= deadline:
            dead |= marks
        elif cancel.event.wait(_PAUSE_S):
            return


def _is_due(key: str, size: int, there: int | None) -> bool:
    """Tell whether to copy a key: the target lacks it, or has a pack of another size, which is not whole."""
    return there is None or (key.endswith(".pack") and size != there)


def _sizes(store: Store) -> dict[str, int]:
    """Return the keys of a store that belong to checkpoints."""
    sizes = dict(store.sizes())
    return {key: size for key, size in sizes.items() if key.startswith(ORDER)}


def _shown(store: Store) -> dict[str, int]:
    """Return `_sizes`, without the names of checkpoints that are not there.

    A writer that is about to show its checkpoint may still change the number. See docs/decisions/0172.
    """
    sizes = _sizes(store)
    ids = {entry.id for entry in map(Entry.parse, sizes) if entry}
    return {key: size for key, size in sizes.items() if not is_ref(key) or key[-64:] in ids}


def _only_of_points(store: Store, here: Container[str], missing: Iterable[str]) -> set[str]:
    """Return the keys of those packs, among the missing ones, that only points need."""
    due = {pack_of(key) for key in missing if key.endswith(".pack")}
    packs = due & _packs_of(store, "points/", here) if due else set()
    if packs:
        packs -= _packs_of(store, "checkpoints/", here) | _packs_of(store, "cells/", here)
    return {pack_key(pack) for pack in packs}


def _packs_of(store: Store, folder: str, here: Container[str]) -> set[str]:
    """Return the packs that the readable checkpoints of one kind need, and where compacted ones went."""
    packs: set[str] = set()
    for key in list(store.keys(folder)):
        with suppress(CorruptError, FormatError, NotFoundError):
            packs |= decode_entry(key, store.get(key, 0, MOST + 1)).packs()
    for pack in [pack for pack in packs if pack_key(pack) not in here]:
        with suppress(CorruptError, FormatError, NotFoundError):
            packs.update(locate(store, pack)[1])
    return packs


@dataclass(frozen=True)
class _Transfer:
    """A copy of keys from one store to another.

    Attributes:
        source: The store to read.
        target: The store to write.
        meter: Counts the bytes moved.
        there: The keys of the target.
        left_out: Why keys are not copied, by key.
        moved: The sizes of the keys that were copied.
        removed: The keys of manifests that were removed from the target lately.
        is_listed: Whether the target has a catalogue; see docs/decisions/0089.
    """

    source: Store
    target: Store
    meter: ProgressTracker
    there: set[str]
    left_out: dict[str, str]
    moved: dict[str, int]
    removed: Container[str]
    is_listed: bool
    _indexes: dict[str, list[Blob | None]] = field(default_factory=dict)

    def move(self, missing: Mapping[str, int], work: TransferPool) -> None:
        for prefix in ORDER:
            for end in _ENDS.get(prefix, ("",)):
                keys = [key for key in missing if key.startswith(prefix) and key.endswith(end)]
                work.all(partial(self._put, key, missing[key]) for key in keys)

    def _put(self, key: str, size: int) -> None:
        with self.meter.file(key) as moved:
            try:
                data = self._checked(key, size)
            except (CorruptError, FormatError) as error:
                self.left_out[key] = str(error)
            else:
                self._note(key, data)
                self.target.put(key, data)
                self.there.add(key)
                self.moved[key] = size
            moved(size)

    def _note(self, key: str, data: Buffer) -> None:
        """Note a key beside the target's catalogue, if it has one."""
        if key in self.removed:
            note_again(self.target, key)
        if not self.is_listed:
            return
        if key.startswith("signatures/"):
            note_signed(self.target, key)
        elif Entry.parse(key):
            note_added(self.target, key)
        elif is_ref(key):
            kind: Kind = "cells" if is_ref_of_cell(key) else "checkpoints"
            moment = bytes(data[:_MOST_CLAIM]).decode("ascii", "replace").split()[1:2]
            manifest = f"{kind}/{''.join(moment)}-{key[-64:]}.json"
            if Entry.parse(manifest):
                note_added(self.target, manifest, key)

    def _checked(self, key: str, size: int) -> Buffer:
        """Return the bytes of a key, after checking that they match the key."""
        if key.endswith(".pack") and size > LARGEST_PACK:
            raise CorruptError(f"{key} has {size} bytes, and no pack is that large")
        data = _data(self.source, key, size)
        if key.endswith(".pack"):
            check_pack(data, pack_of(key))
        elif key.endswith(".moved"):
            check_table(bytes(data), pack_of(key.replace(".moved", ".pack")))
        elif key.startswith(("cells/", "checkpoints/")):
            self._check_packs(decode_entry(key, bytes(data)))
        return data

    def _check_packs(self, manifest: Manifest) -> None:
        """Check that the target has all blobs of a checkpoint, also those of packs that were compacted."""
        uses: Uses = {}
        add_uses(uses, manifest)
        for pack, places in uses.items():
            if pack_key(pack) in self.there or self._leads_on(pack, places):
                continue
            with suppress(NotFoundError, CorruptError):
                join_tables(self.target, self.source, pack)
                self._indexes.pop(pack, None)
                if self._leads_on(pack, places):
                    continue
            raise CorruptError(f"it needs pack {pack[:12]}, which is damaged or missing")

    def _leads_on(self, pack: str, places: Places) -> bool:
        """Tell whether the target's table of a compacted pack leads to all of these blobs."""
        if moved_key(pack) not in self.there:
            return False
        if pack not in self._indexes:
            with suppress(NotFoundError, CorruptError, FormatError):
                self._indexes[pack] = find_index(self.target, pack)
        blobs = self._indexes.get(pack, [])
        return not places.beyond(len(blobs)) and all(blobs[at] for at in places.of(len(blobs)))


def _data(store: Store, key: str, size: int) -> Buffer:
    """Return the bytes of a key. A large file is mapped, not read into memory."""
    path = store.path(key)
    if path is None or size < mmap.PAGESIZE:
        return store.get(key)
    try:
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError:
        raise NotFoundError(f"no {key!r} in {store.url}") from None
