"""Damage: sets aside a pack that does not match its id, and restores it from a copy of the store.

A damaged pack under its own key would be shared by later saves. Under `damaged/<pack>`, the checkpoints
that name it can still read it, and each blob is checked; see `relocation.find_index`. A save that makes the
same pack, a pull, or `repair` restores it. `gc` deletes a pack set aside when nothing needs it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import suppress

from nbckpt.core.packs.format import (
    LARGEST_PACK,
    MAGIC,
    Blob,
    aside_key,
    build,
    check_pack,
    pack_key,
    pack_of,
    parse_index,
    piece_of,
    read_index,
    salt,
)
from nbckpt.core.packs.relocation import find_index, moved_key, read_table, table
from nbckpt.errors import CorruptError, FormatError, NbckptError, NotFoundError, StoreError
from nbckpt.store import Store


def set_aside(store: Store, pack: str) -> bool:
    """Move a damaged pack out of the way of saves. Tell whether it was damaged.

    The pack is first read again from the storage itself. A whole pack stays in place, even if a cache has a
    damaged copy, or if the pack is put again meanwhile. See docs/decisions/0044.

    Raises:
        StoreError: The storage failed. The pack is in its place or set aside.
    """
    key = pack_key(pack)
    store.forget(key)
    store.forget(moved_key(pack))  # a repair may have replaced it
    try:
        data = store.get(key, 0, LARGEST_PACK + 1)
        check_pack(data, pack)
    except (NotFoundError, CorruptError, FormatError) as error:
        # A pack may be whole if its algorithms are not available here, or if a newer version wrote it.
        if isinstance(error, NotFoundError) or (isinstance(error, FormatError) and data.startswith(MAGIC)):
            return False
        return _move_aside(store, pack)
    return False


def _move_aside(store: Store, pack: str) -> bool:
    """Move a damaged pack aside. Move it back if another process has put it again meanwhile."""
    key, aside = pack_key(pack), aside_key(pack)
    try:
        store.move(key, aside)
        check_pack(store.get(aside, 0, LARGEST_PACK + 1), pack)
        store.move(aside, key)
    except (NotFoundError, CorruptError, FormatError):  # or another process was faster
        return True
    return False


def set_aside_all(store: Store, packs: Iterable[str]) -> None:
    """Set aside the damaged ones of these packs, wherever their blobs are now. Errors are ignored."""
    for pack in packs:
        with suppress(NbckptError):
            for where in {blob.pack for blob in find_index(store, pack) if blob}:
                set_aside(store, where)
            continue
        with suppress(StoreError):  # the index of the pack cannot be read
            set_aside(store, pack)


def repair(store: Store, pack: str, source: Store) -> bool:
    """Restore a pack from another copy of the store. Tell whether that copy has it whole.

    If the copy has compacted the pack, this store gets it compacted, too.

    Raises:
        StoreError: A storage failed. Nothing was changed.
    """
    try:
        data = source.get(pack_key(pack), 0, LARGEST_PACK + 1)
        check_pack(data, pack)
    except NotFoundError:
        return not store.exists(pack_key(pack)) and _repair_compacted(store, pack, source)
    except (CorruptError, FormatError):
        return False
    store.put(pack_key(pack), data)
    store.delete(aside_key(pack))
    return True


def _repair_compacted(store: Store, pack: str, source: Store) -> bool:
    """Restore the blobs that a copy has of a compacted pack, as a new pack with a new table.

    This store may need blobs that the copy does not need. So those that it still has anywhere come along:
    only the damaged table knew where they are.
    """
    try:
        head, _ = read_table(source, pack)
        blobs = parse_index(head, pack)
        pieces = {blob.digest: piece_of(source, blob) for blob in find_index(source, pack) if blob}
    except (NotFoundError, CorruptError, FormatError):
        return False
    for blob in _blobs_of(store, pack, {blob.digest for blob in blobs} - pieces.keys()):
        with suppress(NotFoundError, CorruptError):
            pieces[blob.digest] = pieces.get(blob.digest) or piece_of(store, blob)
    if not pieces:
        return False
    ordered = [pieces[digest] for digest in dict.fromkeys(blob.digest for blob in blobs) if digest in pieces]
    algorithms = blobs[0].algorithms
    # One new pack with a salt, as `gc` makes it: a table is lost with any of its packs.
    new, parts = build([*ordered, salt(algorithms)], algorithms)
    store.put(pack_key(new), parts)
    store.put(moved_key(pack), table(head, [new]))
    store.delete(aside_key(pack))
    return True


def _blobs_of(store: Store, pack: str, digests: Container[bytes]) -> Iterator[Blob]:
    """Yield the blobs with these digests in any pack of a store, and in this one if it was set aside."""
    places = [(pack_of(key), False) for key in store.keys("packs/") if key.endswith(".pack")]
    for name, aside in (*places, (pack, True)):
        with suppress(NotFoundError, CorruptError, FormatError):
            yield from (blob for blob in read_index(store, name, aside=aside) if blob.digest in digests)
