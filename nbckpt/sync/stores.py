"""Stores: copy the checkpoints that one store has and another one lacks.

A key is put once and never changed. So a key that the target has with the same size is not copied again.
Any number of machines may write to one target at once. Nothing is ever removed from either store.

The source is not trusted. A pack is put only if all its blobs match its id. A manifest is put only if it
matches its key and the target has the packs that it needs.
"""

from __future__ import annotations

import mmap
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from nbckpt.core.catalogue import has_catalogue
from nbckpt.core.changes import Changes, note_added, note_again, note_signed
from nbckpt.core.history import decode_entry
from nbckpt.core.manifest_json import MOST
from nbckpt.core.packs.format import LARGEST_PACK, check_pack, pack_key, pack_of
from nbckpt.core.packs.relocation import moved_key
from nbckpt.core.references import Entry, is_ref
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError
from nbckpt.store import Buffer, Store
from nbckpt.sync.progress import ProgressTracker
from nbckpt.sync.transfer import Moved, TransferOptions, TransferPool

# Nothing is deleted at the target: see docs/decisions/0027.
ORDER = ("store.json", "packs/", "signatures/", "refs/", "cells/", "checkpoints/")
"""The order of puts: contents, then names, and last the manifests. A manifest shows its checkpoint.

Points stay where they were made; see docs/decisions/0097.
"""

_MOST_TRIES = 3
_MOST_CLAIM = 256  # bytes; the moment in a ref comes before them


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
    for _ in range(_MOST_TRIES + 1):
        there = work.one(partial(_sizes, target))
        here = here or work.one(partial(_sizes, source))
        missing = {key: size for key, size in here.items() if _is_due(key, size, there.get(key))}
        of_points |= work.one(partial(_only_of_points, source, missing))
        for key in (*left_out, *of_points):
            missing.pop(key, None)
        if not missing:
            same = len(here.keys() - moved.keys() - left_out.keys())
            more = sum(key.startswith("checkpoints/") for key in there.keys() - here.keys())
            return Moved(len(moved), sum(moved.values()), same, left_out=left_out, only_there=more)
        meter.plan(len(missing), sum(missing.values()))
        is_listed = work.one(partial(has_catalogue, target))
        removed = work.one(partial(Changes.in_store, target)).removed
        transfer = _Transfer(source, target, meter, set(there), left_out, removed, is_listed=is_listed)
        try:
            transfer.move(missing, work)
        except NotFoundError:
            here, of_points = {}, set()  # gc runs in the source: list the remaining keys again
        else:
            moved |= {key: size for key, size in missing.items() if key not in left_out}
        # List again: gc in the target may have deleted packs before their manifest was there.
    raise StoreError(f"{source.url} or {target.url} is changed by gc again and again: try again later")


def _is_due(key: str, size: int, there: int | None) -> bool:
    """Tell whether to copy a key: the target lacks it, or has a pack of another size, which is not whole."""
    return there is None or (key.endswith(".pack") and size != there)


def _sizes(store: Store) -> dict[str, int]:
    """Return the keys of a store that belong to checkpoints."""
    sizes = dict(store.sizes())
    return {key: size for key, size in sizes.items() if key.startswith(ORDER)}


def _only_of_points(store: Store, missing: Iterable[str]) -> set[str]:
    """Return the keys of those packs, among the missing ones, that only points need."""
    packs = _packs_of(store, "points/") & {pack_of(key) for key in missing if key.endswith(".pack")}
    if packs:
        packs -= _packs_of(store, "checkpoints/") | _packs_of(store, "cells/")
    return {pack_key(pack) for pack in packs}


def _packs_of(store: Store, folder: str) -> set[str]:
    """Return the packs that the readable checkpoints of one kind need."""
    packs: set[str] = set()
    for key in list(store.keys(folder)):
        with suppress(CorruptError, FormatError, NotFoundError):
            packs |= decode_entry(key, store.get(key, 0, MOST + 1)).packs()
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
        removed: The keys of manifests that were removed from the target lately.
        is_listed: Whether the target has a catalogue; see docs/decisions/0089.
    """

    source: Store
    target: Store
    meter: ProgressTracker
    there: set[str]
    left_out: dict[str, str]
    removed: Container[str]
    is_listed: bool

    def move(self, missing: Mapping[str, int], work: TransferPool) -> None:
        for prefix in ORDER:
            keys = [key for key in missing if key.startswith(prefix)]
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
            moment = bytes(data[:_MOST_CLAIM]).decode("ascii", "replace").split()[1:2]
            manifest = f"checkpoints/{''.join(moment)}-{key[-64:]}.json"
            if Entry.parse(manifest):
                note_added(self.target, manifest, key)

    def _checked(self, key: str, size: int) -> Buffer:
        """Return the bytes of a key, after checking that they match the key."""
        if key.endswith(".pack") and size > LARGEST_PACK:
            raise CorruptError(f"{key} has {size} bytes, and no pack is that large")
        data = _data(self.source, key, size)
        if key.endswith(".pack"):
            check_pack(data, pack_of(key))
        elif key.startswith(("cells/", "checkpoints/")):
            for pack in decode_entry(key, bytes(data)).packs():
                if not {pack_key(pack), moved_key(pack)} & self.there:
                    raise CorruptError(f"it needs pack {pack[:12]}, which is damaged or missing")
        return data


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
