"""Manifest: one small JSON document that describes a checkpoint and names everything else.

The text is canonical (sorted keys, no spaces, UTF-8). The digest of its body is the checkpoint's id, so a
signature over the id covers every byte that the checkpoint names.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from nbckpt.core.algorithms import PREFERRED, Algorithms
from nbckpt.core.packs.content import Content


@dataclass(frozen=True, slots=True)
class Group:
    """Values that are saved together, because they share objects or are small.

    Attributes:
        record: The pickle of the list of the values.
        roots: Ranges of memory that do not overlap.
        buffers: For each buffer that the record refers to: its root, offset and size.
        separate: Whether the values share nothing.
    """

    record: Content
    roots: tuple[Content, ...] = ()
    buffers: tuple[tuple[int, int, int], ...] = ()
    separate: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """A variable, or a field of a dict.

    Attributes:
        name: The variable's name, or the field's key as text.
        group: The number of its group.
        slot: Its position in the group's list.
        digest: Equal digests mean equal contents, saved in the same way. Different digests need not mean a
            change.
        preview: A description that needs no loading: `type`, `bytes`, `text`, and more that depends on the
            type.
        picture: A small PNG of it.
        keyed: Whether the slot holds a pair of key and value, because the key is not a string.
        changed: Whether it changed during the save, so that it may mix several states.
    """

    name: str
    group: int
    slot: int
    digest: str = ""
    preview: Mapping[str, Any] = field(default_factory=dict)
    picture: Content | None = None
    keyed: bool = False
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """A variable that could not be saved: the path to the cause inside it, and the reason."""

    name: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature of a manifest: the public name of the key, and the HMAC."""

    key: str
    hmac: str


@dataclass(frozen=True, slots=True)
class ValueData:
    """A value for other programs, which read it as JSON. The fields are those of `Value`."""

    name: str
    preview: Mapping[str, Any]
    changed: bool


@dataclass(frozen=True, slots=True)
class CheckpointData:
    """A checkpoint for other programs, which read it as JSON.

    Attributes:
        id: The id.
        created_at: When it was made, in UTC.
        message: A note for people.
        size: The size of its contents in bytes.
        values: The variables and states.
        files: The size of each file in bytes, by path.
        skipped: The variables that could not be saved.
        warnings: What will not be restored completely.
        deleted: The variables that were deleted before the save.
        provenance: The cell, the notebook, the machine and the packages; under `again`, what is needed to do
            it again.
    """

    id: str
    created_at: str
    message: str
    size: int
    values: tuple[ValueData, ...]
    files: Mapping[str, int]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    deleted: tuple[str, ...]
    provenance: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The complete description of a checkpoint. FORMAT.md describes the fields."""

    algorithms: Algorithms = field(default=PREFERRED, kw_only=True)

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
    attachments: Mapping[str, Content] = field(default_factory=dict)
    id: str = ""
    signature: Signature | None = None

    def __repr__(self) -> str:
        held = f"values={len(self.values)}, files={len(self.files)}, size={self.size()}"
        return f"Manifest({self.id[:8]}, {held})"

    def for_json(self) -> CheckpointData:
        """Return what other programs may know; see render/json.py."""
        return CheckpointData(
            self.id,
            self.created_at,
            self.message,
            self.size(),
            tuple(ValueData(value.name, value.preview, value.changed) for value in self.values),
            {path: content.size for path, content in self.files.items()},
            self.skipped,
            self.warnings,
            self.deleted,
            self.provenance,
        )

    def contents(self) -> Iterable[Content]:
        """Yield every content that the manifest names."""
        yield from self._own_contents()
        yield from self.attachments.values()

    def _own_contents(self) -> Iterable[Content]:
        """Yield the contents of values and files."""
        for group in self.groups:
            yield group.record
            yield from group.roots
        yield from self.files.values()
        yield from (value.picture for value in (*self.values, *self.attributes) if value.picture)

    def packs(self) -> set[str]:
        """Return the ids of the packs that must be in the store."""
        return {run[0] for content in self.contents() for run in content.runs} - set(self.inline)

    def packs_of(self, names: Container[str]) -> set[str]:
        """Return the ids of the packs, among these, that the values with these names need."""
        groups = {value.group for value in self.values if value.name in names}
        parts = [self.groups[at] for at in groups]
        runs = {run[0] for group in parts for content in (group.record, *group.roots) for run in content.runs}
        return runs - set(self.inline)

    def size(self) -> int:
        """Return the size of the values and files in bytes."""
        return sum(content.size for content in self._own_contents())

    def find(self, name: str) -> Value | None:
        """Return the value with this name, or None."""
        return next((value for value in self.values if value.name == name), None)

    def mapped(self, change: Callable[[Content], Content]) -> Manifest:
        """Return the manifest with *change* applied to every content."""

        def value(old: Value) -> Value:
            return replace(old, picture=change(old.picture)) if old.picture else old

        return replace(
            self,
            groups=tuple(
                replace(group, record=change(group.record), roots=tuple(map(change, group.roots)))
                for group in self.groups
            ),
            files={path: change(content) for path, content in self.files.items()},
            values=tuple(map(value, self.values)),
            attributes=tuple(map(value, self.attributes)),
            attachments={name: change(content) for name, content in self.attachments.items()},
        )


def now() -> str:
    """Return the current time in UTC, in the form that manifests use."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
