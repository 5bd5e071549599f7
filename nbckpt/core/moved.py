"""Moved packs: `packs/ab/<pack>.moved` says where the living blobs of a rewritten pack went.

Manifests are never changed, so the pack that they name keeps answering, by this small table. It holds
the former pack's head, whose digest is the pack's id: so whoever trusts the id can still check every
byte, wherever it is now.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

from nbckpt.core.pack import Blob, pack_key, parse_index, read_index
from nbckpt.errors import CorruptError, NotFoundError
from nbckpt.store import Store


def moved_key(pack: str) -> str:
    """Return the key of a pack's table."""
    return pack_key(pack).removesuffix(".pack") + ".moved"


def table(head: bytes, packs: Sequence[str]) -> bytes:
    """Return the table of a pack, by its head and the packs that its living blobs are in now."""
    document = {"format": 1, "head": base64.b64encode(head).decode(), "packs": list(packs)}
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def moved_to(store: Store, pack: str) -> list[str]:
    """Return the packs that the living blobs of a rewritten pack are in.

    Raises:
        NotFoundError: There is no table.
        CorruptError: It is damaged.
    """
    return _read_table(store, pack)[1]


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
    then, packs = _read_table(store, pack)
    try:
        here = {blob.digest: blob for new in packs for blob in find_index(store, new) if blob}
    except RecursionError:
        raise CorruptError(f"the table of the moved pack {pack[:12]} leads back to it") from None
    return [here.get(blob.digest) for blob in then]


def _read_table(store: Store, pack: str) -> tuple[list[Blob], list[str]]:
    data = store.get(moved_key(pack))
    try:
        document = json.loads(data)
        head, packs = base64.b64decode(document["head"]), list(map(str, document["packs"]))
        return parse_index(head, pack), packs
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptError(f"the table of the moved pack {pack[:12]} is damaged: {error!r}") from error
