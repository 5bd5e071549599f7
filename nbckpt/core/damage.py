"""Damage: a pack that is not what its id says is set aside, and brought back from a copy of the store.

Under its own key a damaged pack would be shared by later saves. Under `damaged/<pack>` it is still read,
blob by blob and checked, by the checkpoints that name it, see `moved.find_index`. A save that makes the
same pack, a pull, or `repair` puts it back whole; `gc` deletes what is aside when nothing needs it any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from nbckpt.core.packs.format import LARGEST_PACK, MAGIC, aside_key, check_pack, pack_key
from nbckpt.core.packs.relocation import find_index
from nbckpt.errors import CorruptError, FormatError, NbckptError, NotFoundError, StoreError
from nbckpt.store import Store


def set_aside(store: Store, pack: str) -> bool:
    """Take a damaged pack out of the way of saves; tell whether it was damaged.

    It is read once more from the storage itself, so one that is whole stays, whatever a cache says, also
    if it is put again meanwhile. See docs/decisions/0044.

    Raises:
        StoreError: The storage failed; the pack is where it was, or aside.
    """
    key = pack_key(pack)
    store.forget(key)
    try:
        data = store.get(key, 0, LARGEST_PACK + 1)
        check_pack(data, pack)
    except (NotFoundError, CorruptError, FormatError) as error:
        # One of algorithms that are not here, or of a newer version, may well be whole.
        if isinstance(error, NotFoundError) or (isinstance(error, FormatError) and data.startswith(MAGIC)):
            return False
        return _move_aside(store, pack)
    return False


def _move_aside(store: Store, pack: str) -> bool:
    """Move a pack that was found damaged; one that was put again since goes back to its place."""
    key, aside = pack_key(pack), aside_key(pack)
    try:
        store.move(key, aside)
        check_pack(store.get(aside, 0, LARGEST_PACK + 1), pack)
        store.move(aside, key)
    except (NotFoundError, CorruptError, FormatError):  # or somebody else was faster
        return True
    return False


def set_aside_all(store: Store, packs: Iterable[str]) -> None:
    """Set aside those of these packs that are damaged, wherever their blobs are now, as far as possible."""
    for pack in packs:
        with suppress(NbckptError):
            for where in {blob.pack for blob in find_index(store, pack) if blob}:
                set_aside(store, where)
            continue
        with suppress(StoreError):  # its index cannot be read
            set_aside(store, pack)


def repair(store: Store, pack: str, source: Store) -> bool:
    """Bring a pack back from another copy of the store; tell whether that one has it whole.

    Raises:
        StoreError: A storage failed; nothing was changed.
    """
    try:
        data = source.get(pack_key(pack), 0, LARGEST_PACK + 1)
        check_pack(data, pack)
    except (NotFoundError, CorruptError, FormatError):
        return False
    store.put(pack_key(pack), data)
    store.delete(aside_key(pack))
    return True
