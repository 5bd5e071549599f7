"""A manifest as canonical JSON, and back. FORMAT.md describes the fields."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from nbckpt.core.algorithms import BLAKE3, named
from nbckpt.core.manifest import Group, Manifest, Signature, Skipped, Value
from nbckpt.core.packs.content import Content
from nbckpt.core.schema import OneOf, check, read
from nbckpt.errors import CorruptError, FormatError, UsageError

FORMAT = 1
"""The version of the format that this code writes, and the highest that it reads."""

MOST = 64 << 20
"""The most bytes of a manifest."""

_START, _ID = b'{"checkpoint":', b',"id":"'
_MOMENT = re.compile(
    r"|(19[7-9]|2[0-9]{2})[0-9]-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3])(:[0-5][0-9]){2}\.[0-9]{6}Z"
)
_SMALLEST_BLOB = 4096  # except for the last blob of a content

# The form of a manifest, for schema.py. A manifest may come from anybody.
_CONTENT = (int, (int, int, int), ...)
_VALUE = {
    "name": str,
    "at": (int, int),
    "digest": str,
    "preview": {
        "type?": str,
        "text?": str,
        "dtype?": str,
        "bytes?": int,
        "length?": int,
        "shape?": [int],
        "columns?": [(str, str)],
        "class?": bool,
    },
    "picture?": _CONTENT,
    "keyed?": bool,
    "changed?": bool,
}
_BODY = {
    "format": int,
    "kind": str,
    "created_at": _MOMENT,
    "packs": [re.compile("[0-9a-f]{64}")],
    "values": [_VALUE],
    "groups": [{"record": _CONTENT, "roots": [_CONTENT], "buffers?": [(int, int, int)], "separate?": bool}],
    "attributes?": [_VALUE],
    "message?": str,
    "parent?": str,
    "class?": str,
    "files?": {str: _CONTENT},
    "folders?": [str],
    "sums?": {str: str},
    "skipped?": [(str, str, str)],
    "warnings?": [str],
    "deleted?": [str],
    "provenance?": {
        "python?": str,
        "system?": str,
        "notebook?": str,
        "new_bytes?": int,
        "packages?": {str: str},
        "cell?": {"source?": str},
        "again?": dict,
    },
    "attachments?": {str: _CONTENT},
    "inline?": {str: str},
}
_TAIL = {"id": str, "signature?": OneOf({"key": str, "hmac": str}, None)}


def canonical(document: Any) -> bytes:
    """Return *document* as canonical JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def encode(manifest: Manifest, sign: Callable[[str], Signature] | None = None) -> tuple[Manifest, bytes]:
    """Return the manifest with its id and signature, and the bytes to store.

    Raises:
        UsageError: It would exceed the limit for a manifest.
    """
    body = canonical(_to_json(manifest))
    if len(body) > MOST - 1024:
        raise UsageError(
            f"the manifest of this checkpoint takes {len(body) >> 20} MiB, and at most {MOST >> 20} MiB are "
            "possible. Save fewer variables or files at once"
        )
    name = manifest.algorithms.digest(body).hex()
    signature = sign(name) if sign else None
    tail: dict[str, Any] = {"id": name}
    if signature:
        tail["signature"] = {"hmac": signature.hmac, "key": signature.key}
    return replace(manifest, id=name, signature=signature), _START + body + b"," + canonical(tail)[1:]


def decode(data: bytes, label: str = "the manifest") -> Manifest:
    """Return the manifest in *data*, checked against its own id.

    Raises:
        CorruptError: It was truncated or edited.
        FormatError: It is not a manifest, a newer version wrote it, or its digest is not available here.
    """
    end = data.rfind(_ID)
    if not data.startswith(_START):
        raise FormatError(f"{label} is not an nbckpt manifest")
    if end < 0 or len(data) > MOST:
        raise CorruptError(f"{label} is damaged: it is {'too long' if end >= 0 else 'not whole JSON'}")
    # Read exactly the bytes that were hashed.
    raw, tail = data[len(_START) : end], read(b"{" + data[end + 1 :], _TAIL, label)
    body = read(raw, {"format": int, "digest?": str}, label)
    if body["format"] > FORMAT:
        raise FormatError(
            f"{label} was written by a newer nbckpt (format {body['format']}). To read it, upgrade nbckpt"
        )
    algorithms = named(body.get("digest", BLAKE3), label)
    if algorithms.digest(raw).hex() != tail["id"]:
        raise CorruptError(f"{label} is damaged: its contents do not match its id")
    try:
        manifest = _from_json(check(body, _BODY, label))
    except IndexError:
        raise CorruptError(f"{label} is damaged: it names a pack that is not in its list") from None
    except ValueError as error:
        raise CorruptError(f"{label} is damaged: {error}") from error
    signed = tail.get("signature")
    signature = Signature(signed["key"], signed["hmac"]) if signed else None
    return replace(manifest, algorithms=algorithms, id=tail["id"], signature=signature)


def _write_content(content: Content, numbers: Mapping[str, int]) -> list[Any]:
    return [content.size, *([numbers[pack], first, count] for pack, first, count in content.runs)]


def _write_value(value: Value, numbers: Mapping[str, int]) -> dict[str, Any]:
    document = {
        "name": value.name,
        "at": [value.group, value.slot],
        "digest": value.digest,
        "preview": value.preview,
    }
    if value.picture:
        document["picture"] = _write_content(value.picture, numbers)
    flags = {"keyed": value.keyed, "changed": value.changed}
    return document | {flag: True for flag, is_set in flags.items() if is_set}


def _write_group(group: Group, numbers: Mapping[str, int]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "record": _write_content(group.record, numbers),
        "roots": [_write_content(root, numbers) for root in group.roots],
    }
    if group.buffers != tuple((at, 0, root.size) for at, root in enumerate(group.roots)):
        document["buffers"] = group.buffers
    if group.separate:
        document["separate"] = True
    return document


def _to_json(manifest: Manifest) -> dict[str, Any]:
    packs = sorted({run[0] for content in manifest.contents() for run in content.runs})
    numbers = {pack: at for at, pack in enumerate(packs)}
    document: dict[str, Any] = {
        "format": FORMAT,
        "kind": manifest.kind,
        "created_at": manifest.created_at,
        "packs": packs,
        "values": [_write_value(value, numbers) for value in manifest.values],
        "groups": [_write_group(group, numbers) for group in manifest.groups],
    }
    optional = {
        "message": manifest.message,
        "parent": manifest.parent,
        "class": manifest.cls,
        "attributes": [_write_value(value, numbers) for value in manifest.attributes],
        "files": {path: _write_content(content, numbers) for path, content in manifest.files.items()},
        "folders": sorted(manifest.folders),
        "sums": dict(manifest.sums),
        "skipped": [[skipped.name, skipped.path, skipped.reason] for skipped in manifest.skipped],
        "warnings": list(manifest.warnings),
        "deleted": sorted(manifest.deleted),
        "provenance": dict(manifest.provenance),
        "attachments": {
            name: _write_content(content, numbers) for name, content in manifest.attachments.items()
        },
        "digest": "" if manifest.algorithms.name == BLAKE3 else manifest.algorithms.name,
        "inline": {pack: base64.b64encode(data).decode() for pack, data in manifest.inline.items()},
    }
    return document | {name: field for name, field in optional.items() if field}


def _read_content(document: Any, packs: Sequence[str]) -> Content:
    size, *runs = document
    content = Content(size, tuple((packs[at], first, count) for at, first, count in runs))
    if sum(count for _, _, count in runs) > 1 + size // _SMALLEST_BLOB:
        raise ValueError(f"it names more blobs than {size} bytes can have")
    return content


def _read_value(document: Any, packs: Sequence[str], groups: int) -> Value:
    group, slot = document["at"]
    if group >= groups:
        raise ValueError(f"the value {document['name']!r:.60} has a group that does not exist")
    return Value(
        name=document["name"],
        group=group,
        slot=slot,
        digest=document["digest"],
        preview=document["preview"],
        picture=_read_content(document["picture"], packs) if "picture" in document else None,
        keyed=document.get("keyed", False),
        changed=document.get("changed", False),
    )


def _read_group(document: Any, packs: Sequence[str]) -> Group:
    roots = tuple(_read_content(root, packs) for root in document["roots"])
    buffers = tuple((at, 0, root.size) for at, root in enumerate(roots))
    if "buffers" in document:
        buffers = tuple((root, offset, size) for root, offset, size in document["buffers"])
    for root, offset, size in buffers:
        if root >= len(roots) or offset + size > roots[root].size:
            raise ValueError("a buffer is outside of its root")
    return Group(_read_content(document["record"], packs), roots, buffers, document.get("separate", False))


def _from_json(document: Mapping[str, Any]) -> Manifest:
    """Return the manifest from a body that matches the form. Its internal references must be valid, too."""
    packs, groups = document["packs"], document["groups"]
    if document["created_at"]:
        datetime.fromisoformat(document["created_at"])  # the form alone allows February 31

    def values(name: str) -> tuple[Value, ...]:
        return tuple(_read_value(value, packs, len(groups)) for value in document.get(name, ()))

    return Manifest(
        kind=document["kind"],
        created_at=document["created_at"],
        message=document.get("message", ""),
        parent=document.get("parent", ""),
        cls=document.get("class", ""),
        values=values("values"),
        attributes=values("attributes"),
        groups=tuple(_read_group(group, packs) for group in groups),
        files={path: _read_content(content, packs) for path, content in document.get("files", {}).items()},
        folders=tuple(document.get("folders", ())),
        sums=document.get("sums", {}),
        skipped=tuple(Skipped(*fields) for fields in document.get("skipped", ())),
        warnings=tuple(document.get("warnings", ())),
        deleted=tuple(document.get("deleted", ())),
        provenance=document.get("provenance", {}),
        attachments={
            name: _read_content(content, packs) for name, content in document.get("attachments", {}).items()
        },
        inline={pack: base64.b64decode(data) for pack, data in document.get("inline", {}).items()},
    )
