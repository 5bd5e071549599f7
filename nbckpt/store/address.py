"""Address: what the storage says of one object at a URL, without reading the object."""

from __future__ import annotations

from typing import Any

from nbckpt.store.connections import Connections
from nbckpt.store.masking import masked

_TAGS = ("etag", "md5hash", "content-md5", "content_md5", "crc32c", "checksum")
_TIMES = ("lastmodified", "last-modified", "last_modified", "updated", "mtime", "created")
_MOST = 300


def describe(url: str) -> dict[str, Any]:
    """Return the `size`, the `etag` and the time `modified` of an object, if its storage tells them.

    It never fails: if the storage cannot be asked, `note` says why.
    """
    try:
        connections = Connections(url, {})
        with connections.lent():
            info = connections.mine.info(connections.root)
    except Exception as error:  # noqa: BLE001  fsspec and its file systems raise anything
        return {"note": masked(f"it cannot be asked for: {type(error).__name__}: {error}")[:_MOST]}
    facts = {str(name).lower(): fact for name, fact in info.items() if fact is not None}
    known: dict[str, Any] = {}
    if type(facts.get("size")) is int and facts["size"] >= 0:
        known["size"] = facts["size"]
    for name, keys in (("etag", _TAGS), ("modified", _TIMES)):
        fact = next((facts[key] for key in keys if key in facts), None)
        if fact is not None:
            known[name] = str(fact).strip('"')[:_MOST]
    return known if "etag" in known else known | {"note": "its storage tells no fingerprint"}
