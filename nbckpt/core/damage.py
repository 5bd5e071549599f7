"""Damage: sets aside a pack that does not match its id, and restores it from a copy of the store.

A damaged pack under its own key would be shared by later saves. Under `damaged/<pack>`, the checkpoints
that name it can still read it, and each blob is checked; see `relocation.find_index`. A save that makes the
same pack, a pull, or `repair` restores it. `gc` deletes a pack set aside when nothing needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from nbckpt.core.packs.format import LARGEST_PACK, MAGIC, aside_key, check_pack, pack_key
from nbckpt.core.packs.relocation import find_index
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

    Raises:
        StoreError: A storage failed. Nothing was changed.
    """
    try:
        data = source.get(pack_key(pack), 0, LARGEST_PACK + 1)
        check_pack(data, pack)
    except (NotFoundError, CorruptError, FormatError):
        return False
    store.put(pack_key(pack), data)
    store.delete(aside_key(pack))
    return True
