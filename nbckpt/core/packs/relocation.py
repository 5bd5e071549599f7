"""Moved packs: `packs/ab/<pack>.moved` says where the living blobs of a rewritten pack went.

Manifests are never changed, so the pack that they name keeps answering, by this small table. It holds
the former pack's head, whose digest is the pack's id: so whoever trusts the id can still check every
byte, wherever it is now.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from contextlib import suppress

from nbckpt.core.packs.format import Blob, pack_key, parse_index, read_index
from nbckpt.core.schema import read
from nbckpt.errors import CorruptError, NotFoundError
from nbckpt.store import Store

_MOST = 128 << 20  # what is longer is cut, and then no JSON
_TABLE = {"format": int, "head": str, "packs": [re.compile("[0-9a-f]{64}")]}


def moved_key(pack: str) -> str:
    """Return the key of a pack's table."""
    return pack_key(pack).removesuffix(".pack") + ".moved"


def table(head: bytes, packs: Sequence[str]) -> bytes:
    """Return the table of a pack, by its head and the packs that its living blobs are in now."""
    document = {"format": 1, "head": base64.b64encode(head).decode(), "packs": list(packs)}
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def find_index(store: Store, pack: str) -> list[Blob | None]:
    """Return the blobs that a manifest means by *pack*, wherever they are now; None for the dead.

    Those of a pack that was set aside since it is damaged are there as far as they are whole.

    Raises:
        NotFoundError: There is neither the pack nor a table.
        CorruptError: What is there is damaged.
    """
    return locate(store, pack)[0]


def locate(store: Store, pack: str) -> tuple[list[Blob | None], list[str]]:
    """Return what `find_index` does, and the packs that were looked at for it: this one, then where it led.

    Every table is followed once, wherever it leads.
    """
    seen = {pack: None}
    with suppress(NotFoundError):
        return list(read_index(store, pack)), list(seen)
    try:
        then, packs = _read_table(store, pack)
    except NotFoundError:
        return list(_read_aside(store, pack)), list(seen)
    here: dict[bytes, Blob] = {}
    for new in packs:  # grows as the tables are followed
        if new in seen:
            continue
        seen[new] = None
        try:
            here |= {blob.digest: blob for blob in read_index(store, new)}
        except NotFoundError:
            try:
                packs += _read_table(store, new)[1]
            except NotFoundError:
                here |= {blob.digest: blob for blob in _read_aside(store, new)}
    if then and not here:
        raise CorruptError(f"the tables of the moved pack {pack[:12]} lead to no pack")
    return [here.get(blob.digest) for blob in then], list(seen)


def _read_aside(store: Store, pack: str) -> list[Blob]:
    """Return the blobs of a damaged pack that was set aside, see damage.py."""
    try:
        return read_index(store, pack, aside=True)
    except NotFoundError:
        raise NotFoundError(f"pack {pack[:12]} is missing from {store.url}") from None


def _read_table(store: Store, pack: str) -> tuple[list[Blob], list[str]]:
    what = f"the table of the moved pack {pack[:12]}"
    try:
        document = read(store.get(moved_key(pack), 0, _MOST), _TABLE, what)
    except NotFoundError:
        raise NotFoundError(f"pack {pack[:12]} is missing from {store.url}") from None
    try:
        head = base64.b64decode(document["head"], validate=True)
    except ValueError as error:
        raise CorruptError(f"{what} is damaged: {error}") from None
    return parse_index(head, pack), document["packs"]
