"""Manifest: the one small JSON document that is a checkpoint; it names everything else.

The text is canonical (sorted keys, no spaces, UTF-8), so that the digest of its body is the
checkpoint's id, and a signature over the id covers every byte that the checkpoint names.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from nbckpt.core.pack import digest
from nbckpt.core.packer import Run
from nbckpt.errors import CorruptError, FormatError

FORMAT = 1
"""The version of the format that this code writes, and the highest that it reads."""

_START, _ID = b'{"checkpoint":', b',"id":"'
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Content:
    """Where some bytes are: their number, and the stretches of blobs that they are."""

    size: int
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Values that are saved together because they share something.

    Attributes:
        record: The pickle of the list of the values.
        roots: Stretches of memory, none overlapping another.
        buffers: For each buffer that the record asks for: its root, offset and size.
    """

    record: Content
    roots: tuple[Content, ...] = ()
    buffers: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Value:
    """A variable, or a field of a dict.

    Attributes:
        name: The variable's name, or the field's key as text.
        group: Which group holds it.
        slot: Its place in the group's list.
        digest: Equal for equal contents saved in one way; different digests need not mean a change.
        preview: What can be told without loading it: `type`, `bytes`, `text`, and what fits the type.
        picture: A small PNG of it.
        keyed: The slot holds a pair of key and value, since the key is no string.
    """

    name: str
    group: int
    slot: int
    digest: str = ""
    preview: Mapping[str, Any] = field(default_factory=dict)
    picture: Content | None = None
    keyed: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """A variable that could not be saved: where in it the cause is, and why."""

    name: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Signature:
    """Who vouches for a manifest: the key's public name, and the HMAC with it."""

    key: str
    hmac: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checkpoint's whole description. The fields are those of FORMAT.md."""

    kind: str = "checkpoint"
    created_at: str = ""
    message: str = ""
    parent: str = ""
    cls: str = ""
    values: tuple[Value, ...] = ()
    attributes: tuple[Value, ...] = ()
    groups: tuple[Group, ...] = ()
    files: Mapping[str, Content] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    sums: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    inline: Mapping[str, bytes] = field(default_factory=dict)
    id: str = ""
    signature: Signature | None = None

    def contents(self) -> Iterable[Content]:
        """Yield every stretch of bytes that the manifest names."""
        for group in self.groups:
            yield group.record
            yield from group.roots
        yield from self.files.values()
        yield from (value.picture for value in (*self.values, *self.attributes) if value.picture)

    def packs(self) -> set[str]:
        """Return the ids of the packs that must be in the store."""
        return {run[0] for content in self.contents() for run in content.runs} - set(self.inline)

    def size(self) -> int:
        """Return how many bytes the checkpoint's contents are."""
        return sum(content.size for content in self.contents())

    def find(self, name: str) -> Value | None:
        """Return the value of this name."""
        return next((value for value in self.values if value.name == name), None)

    def mapped(self, change: Callable[[Content], Content]) -> Manifest:
        """Return the manifest with *change* applied to every content."""

        def value(old: Value) -> Value:
            return replace(old, picture=change(old.picture)) if old.picture else old

        return replace(
            self,
            groups=tuple(
                Group(change(group.record), tuple(map(change, group.roots)), group.buffers)
                for group in self.groups
            ),
            files={path: change(content) for path, content in self.files.items()},
            values=tuple(map(value, self.values)),
            attributes=tuple(map(value, self.attributes)),
        )


def now() -> str:
    """Return this moment in UTC, as manifests write it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def canonical(document: Any) -> bytes:
    """Return *document* as canonical JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def encode(manifest: Manifest, sign: Callable[[str], Signature] | None = None) -> tuple[Manifest, bytes]:
    """Return the manifest with its id and signature, and the bytes to keep."""
    body = canonical(_to_json(manifest))
    name = digest(body).hex()
    signature = sign(name) if sign else None
    tail: dict[str, Any] = {"id": name}
    if signature:
        tail["signature"] = {"hmac": signature.hmac, "key": signature.key}
    return replace(manifest, id=name, signature=signature), _START + body + b"," + canonical(tail)[1:]


def decode(data: bytes, what: str = "the manifest") -> Manifest:
    """Return the manifest in *data*, checked against its own id.

    Raises:
        CorruptError: It was cut or edited.
        FormatError: It is something else, or from a newer version.
    """
    try:
        document = json.loads(data)
    except ValueError:
        if data.startswith(_START):
            raise CorruptError(f"{what} is damaged: it is not whole JSON") from None
        raise FormatError(f"{what} is not an nbckpt manifest") from None
    body = document.get("checkpoint") if isinstance(document, dict) else None
    if not isinstance(body, dict) or not isinstance(body.get("format"), int):
        raise FormatError(f"{what} is not an nbckpt manifest")
    if body["format"] > FORMAT:
        raise FormatError(
            f"{what} was written by a newer nbckpt (format {body['format']}): upgrade nbckpt to read it"
        )
    # The body's own bytes, not a copy written again: what is checked is what is there.
    raw = data[len(_START) : data.rfind(_ID)]
    if digest(raw).hex() != document.get("id"):
        raise CorruptError(f"{what} is damaged: its contents are not those that its id names")
    try:
        manifest = _from_json(body)
        signed = document.get("signature")
        signature = Signature(str(signed["key"]), str(signed["hmac"])) if signed else None
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FormatError(f"{what} does not have the form of a manifest: {error!r}") from error
    return replace(manifest, id=document["id"], signature=signature)


def _to_json(manifest: Manifest) -> dict[str, Any]:
    packs = sorted({run[0] for content in manifest.contents() for run in content.runs})
    place = {pack: at for at, pack in enumerate(packs)}

    def content(it: Content) -> list[Any]:
        return [it.size, *([place[pack], first, count] for pack, first, count in it.runs)]

    def value(it: Value) -> dict[str, Any]:
        document = {
            "name": it.name,
            "at": [it.group, it.slot],
            "digest": it.digest,
            "preview": it.preview,
        }
        if it.picture:
            document["picture"] = content(it.picture)
        return document | ({"keyed": True} if it.keyed else {})

    def group(it: Group) -> dict[str, Any]:
        document: dict[str, Any] = {
            "record": content(it.record),
            "roots": [content(root) for root in it.roots],
        }
        plain = tuple((at, 0, root.size) for at, root in enumerate(it.roots))
        return document if it.buffers == plain else document | {"buffers": it.buffers}

    document: dict[str, Any] = {
        "format": FORMAT,
        "kind": manifest.kind,
        "created_at": manifest.created_at,
        "packs": packs,
        "values": [value(it) for it in manifest.values],
        "groups": [group(it) for it in manifest.groups],
    }
    optional = {
        "message": manifest.message,
        "parent": manifest.parent,
        "class": manifest.cls,
        "attributes": [value(it) for it in manifest.attributes],
        "files": {path: content(it) for path, it in manifest.files.items()},
        "folders": sorted(manifest.folders),
        "sums": dict(manifest.sums),
        "skipped": [[it.name, it.path, it.reason] for it in manifest.skipped],
        "warnings": list(manifest.warnings),
        "deleted": sorted(manifest.deleted),
        "provenance": dict(manifest.provenance),
        "inline": {pack: base64.b64encode(data).decode() for pack, data in manifest.inline.items()},
    }
    return document | {name: it for name, it in optional.items() if it}


def _from_json(document: Mapping[str, Any]) -> Manifest:
    packs = document["packs"]
    if not all(_HEX.fullmatch(pack) for pack in packs):
        raise ValueError("a pack's id is not a digest")

    def content(it: Any) -> Content:
        size, *runs = it
        return Content(int(size), tuple((packs[at], int(first), int(count)) for at, first, count in runs))

    def value(it: Any) -> Value:
        group, slot = it["at"]
        picture = content(it["picture"]) if "picture" in it else None
        keyed = bool(it.get("keyed", False))
        return Value(str(it["name"]), int(group), int(slot), it["digest"], it["preview"], picture, keyed)

    def group(it: Any) -> Group:
        roots = tuple(content(root) for root in it["roots"])
        plain = tuple((at, 0, root.size) for at, root in enumerate(roots))
        buffers = tuple((int(r), int(o), int(s)) for r, o, s in it["buffers"]) if "buffers" in it else plain
        return Group(content(it["record"]), roots, buffers)

    return Manifest(
        kind=str(document["kind"]),
        created_at=str(document["created_at"]),
        message=str(document.get("message", "")),
        parent=str(document.get("parent", "")),
        cls=str(document.get("class", "")),
        values=tuple(value(it) for it in document["values"]),
        attributes=tuple(value(it) for it in document.get("attributes", ())),
        groups=tuple(group(it) for it in document["groups"]),
        files={str(path): content(it) for path, it in document.get("files", {}).items()},
        folders=tuple(map(str, document.get("folders", ()))),
        sums={str(path): str(it) for path, it in document.get("sums", {}).items()},
        skipped=tuple(Skipped(*map(str, it)) for it in document.get("skipped", ())),
        warnings=tuple(map(str, document.get("warnings", ()))),
        deleted=tuple(map(str, document.get("deleted", ()))),
        provenance=document.get("provenance", {}),
        inline={pack: base64.b64decode(data) for pack, data in document.get("inline", {}).items()},
    )
