"""Moved packs: `packs/ab/<pack>.moved` says where the living blobs of a rewritten pack went.

Manifests are never changed, so the pack that they name keeps answering, by this small table.
"""

from __future__ import annotations

import json

from nbckpt.core.pack import Blob, pack_key, read_index
from nbckpt.errors import CorruptError, NotFoundError
from nbckpt.store import Store


def moved_key(pack: str) -> str:
    """Return the key of a pack's table."""
    return pack_key(pack).removesuffix(".pack") + ".moved"


def find_index(store: Store, pack: str) -> list[Blob | None]:
    """Return the blobs that a manifest means by *pack*, wherever they are now; None for the dead.

    Raises:
        NotFoundError: There is neither the pack nor a table.
        CorruptError: What is there is damaged.
    """
    try:
        return list(read_index(store, pack))
    except NotFoundError:
        if not store.exists(moved_key(pack)):
            raise
    try:
        table = json.loads(store.get(moved_key(pack)))
        found: list[Blob | None] = [None] * int(table["count"])
        targets = {new: find_index(store, new) for new in {new for new, _ in table["blobs"].values()}}
        for place, (new, at) in table["blobs"].items():
            found[int(place)] = targets[new][at]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise CorruptError(f"the table of the moved pack {pack[:12]} is damaged: {error!r}") from error
    return found
