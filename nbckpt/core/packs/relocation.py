"""Relocation: `packs/ab/<pack>.moved` records where the used blobs of a compacted pack went.

Manifests never change, so the pack that they name must stay readable. This small table makes that possible.
The table holds the head of the old pack, whose digest is the pack's id. So the id is enough to check every
byte, wherever the blob is now.
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

_MOST = 128 << 20  # a longer table is truncated and therefore not valid JSON
_TABLE = {"format": int, "head": str, "packs": [re.compile("[0-9a-f]{64}")]}


def moved_key(pack: str) -> str:
    """Return the key of a pack's relocation table."""
    return pack_key(pack).removesuffix(".pack") + ".moved"


def table(head: bytes, packs: Sequence[str]) -> bytes:
    """Return the table of a pack, from its head and the packs that hold its used blobs now."""
    document = {"format": 1, "head": base64.b64encode(head).decode(), "packs": list(packs)}
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def find_index(store: Store, pack: str) -> list[Blob | None]:
    """Return the blobs that a manifest means by *pack*, wherever they are now; None for deleted blobs.

    If the pack was set aside because of damage, its undamaged blobs can still be read.

    Raises:
        NotFoundError: There is neither the pack nor a table.
        CorruptError: The pack or the table is damaged.
    """
    return locate(store, pack)[0]


def locate(store: Store, pack: str) -> tuple[list[Blob | None], list[str]]:
    """Return the result of `find_index`, and the packs that were followed: this pack first.

    Every table is followed once, so a cycle of tables ends.
    """
    seen = {pack: None}
    with suppress(NotFoundError):
        return list(read_index(store, pack)), list(seen)
    try:
        then, packs = _read_table(store, pack)
    except NotFoundError:
        return list(_read_aside(store, pack)), list(seen)
    here: dict[bytes, Blob] = {}
    gone: NotFoundError | None = None
    for new in packs:  # the list grows while the tables are followed
        if new in seen:
            continue
        seen[new] = None
        try:
            here |= {blob.digest: blob for blob in read_index(store, new)}
        except NotFoundError:
            try:
                packs += _read_table(store, new)[1]
            except NotFoundError:
                try:
                    here |= {blob.digest: blob for blob in _read_aside(store, new)}
                except NotFoundError as error:  # a table may lead to several packs, and `gc` takes each alone
                    gone = error
    if then and not here:
        raise gone or CorruptError(f"the tables of the moved pack {pack[:12]} lead to no pack")
    return [here.get(blob.digest) for blob in then], list(seen)


def _read_aside(store: Store, pack: str) -> list[Blob]:
    """Return the blobs of a damaged pack that was set aside; see damage.py."""
    try:
        return read_index(store, pack, aside=True)
    except NotFoundError:
        raise NotFoundError(f"pack {pack[:12]} is missing from {store.url}") from None


def check_table(data: bytes, pack: str) -> None:
    """Check a table's own bytes. Where it leads is checked when that is read.

    Raises:
        CorruptError: They are not the table of *pack*.
    """
    parse_index(_parsed(data, pack)[0], pack)


def join_tables(store: Store, other: Store, pack: str) -> None:
    """Let the table of a pack in *store* lead to the places in the other store's table, too.

    Two stores that compact one pack may keep other blobs of it.

    Raises:
        NotFoundError: One of them has no table.
        CorruptError: A table is damaged.
    """
    (head, packs), (_, others) = read_table(store, pack), read_table(other, pack)
    parse_index(head, pack)
    if not {*others} <= {*packs}:
        store.put(moved_key(pack), table(head, [*dict.fromkeys((*packs, *others))]))


def read_table(store: Store, pack: str) -> tuple[bytes, list[str]]:
    """Return the head of a compacted pack, not yet checked, and the packs that hold its used blobs now.

    Raises:
        NotFoundError: The store lacks a table of this pack.
        CorruptError: The table is damaged.
    """
    try:
        return _parsed(store.get(moved_key(pack), 0, _MOST), pack)
    except NotFoundError:
        raise NotFoundError(f"pack {pack[:12]} is missing from {store.url}") from None


def _read_table(store: Store, pack: str) -> tuple[list[Blob], list[str]]:
    head, packs = read_table(store, pack)
    return parse_index(head, pack), packs


def _parsed(data: bytes, pack: str) -> tuple[bytes, list[str]]:
    label = f"the table of the moved pack {pack[:12]}"
    document = read(data, _TABLE, label)
    try:
        return base64.b64decode(document["head"], validate=True), document["packs"]
    except ValueError as error:
        raise CorruptError(f"{label} is damaged: {error}") from None
