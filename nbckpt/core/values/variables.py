"""Variables: turns a namespace into groups of records. `loading` does the reverse.

This module does not depend on IPython: the namespace is a plain dict. Variables that reach the same mutable
object, or the same range of memory, form a group. They are pickled together, so that shared objects stay
shared. Every other variable is pickled alone and can be loaded alone. Small plain variables share records,
because a record for each would be larger than they are; see docs/decisions/0060.
"""

from __future__ import annotations

import pickle
import weakref
from array import array
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any

from nbckpt.core.algorithms import Algorithms
from nbckpt.core.depth import bounded, deeply
from nbckpt.core.manifest import Group, Skipped, Value
from nbckpt.core.memory.pages import LEAST
from nbckpt.core.packs.content import Content, Stored
from nbckpt.core.packs.writer import Packer
from nbckpt.core.reducers import byte_range, is_made
from nbckpt.core.spans import Overlaps, Span, merged
from nbckpt.core.values.codec import Pickled, dump, paused_gc
from nbckpt.core.values.diagnose import global_names, paths_to
from nbckpt.core.values.losses import Omission
from nbckpt.core.values.members import Member, Taker, pickle_each, why_changing
from nbckpt.core.values.preview import describe, type_name
from nbckpt.core.values.streams import without_tee

_SMALL_RECORD, _IN_RECORD = 256, 32
"""The size limit of values that share a record, in bytes, and the number of values per record."""


@dataclass
class _Draft:
    """A group whose bytes are on their way into packs."""

    members: list[Member]
    record: Stored
    roots: list[Stored]
    buffers: list[tuple[int, int, int]]
    separate: bool = False


@dataclass(frozen=True, slots=True)
class Print:
    """A fingerprint of a value. If it is equal for all mates, their values and what they share are equal.

    Attributes:
        digest: The digest of the value; see `Value.digest`.
        mates: The names that share objects with it, its own included.
        shared: The digests of the record that holds all mates, if there are several.
        memory: The address and the size of each of its buffers that the page record can watch.
        links: The identities of the links of the record that holds all mates, in order. An object that was
            freed since may have lent its identity to another one.
        root: Leads to the object itself as long as it is alive, if its type allows that.
    """

    digest: str
    mates: frozenset[str]
    shared: bytes
    memory: tuple[tuple[int, int], ...] = field(compare=False)
    links: Sequence[int] = field(compare=False, repr=False, default=())
    root: weakref.ReferenceType[Any] | None = field(compare=False, repr=False, default=None)


@dataclass
class Captured:
    """The result of `capture`. Call `values` and `groups` after the packer has finished.

    Attributes:
        omitting: The variables whose pickles omit attributes, so that a change of these does not show.
        met: The arrays that stay apart and that a value reaches, or with which it shares memory.
        by_class: The variables that share a part of their class with a variable that holds it directly.
    """

    order: list[str]
    drafts: list[_Draft] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    previews: dict[str, dict[str, Any]] = field(default_factory=dict)
    pictures: dict[str, Stored] = field(default_factory=dict)
    memory: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    constant: set[str] = field(default_factory=set)
    omitting: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)
    by_class: set[str] = field(default_factory=set)

    @property
    def is_hashed(self) -> bool:
        """Whether everything is hashed, so that the fingerprints are complete."""
        stored = [
            *(part for draft in self.drafts for part in (draft.record, *draft.roots)),
            *(part for draft in self.drafts for member in draft.members for part in member.stored),
        ]
        return all(all(part.digests) for part in stored)

    def prints(self, algorithms: Algorithms) -> dict[str, Print]:
        """Return the fingerprint of each value. Call it after the packer has hashed everything."""
        prints: dict[str, Print] = {}
        for draft in self.drafts:
            every = frozenset(name for member in draft.members for name in member.names)
            is_shared = len(draft.members) > 1 or draft.members[0].names[0] not in self.constant
            is_shared = is_shared and not draft.separate
            record = b"".join(draft.record.digests) if is_shared and len(every) > 1 else b""
            for member in draft.members:
                digest = member.digest(algorithms.digest)
                memory = self.memory.get(member.names[0], ())
                for name in member.names:
                    mates = every if is_shared else frozenset({name})
                    prints[name] = Print(digest, mates, record, memory, member.links, member.root)
        return prints

    def groups(self, packer: Packer) -> tuple[Group, ...]:
        """Return the groups, with the places of their bytes."""
        return tuple(
            Group(
                _content(draft.record, packer),
                tuple(_content(root, packer) for root in draft.roots),
                tuple(draft.buffers),
                draft.separate,
            )
            for draft in self.drafts
        )

    def values(self, packer: Packer) -> tuple[Value, ...]:
        """Return the values in their original order."""
        values: dict[str, Value] = {}
        for group, draft in enumerate(self.drafts):
            is_mixed = any(root.changed for root in draft.roots)
            for slot, member in enumerate(draft.members):
                digest, first = member.digest(packer.algorithms.digest), member.names[0]
                changed = is_mixed or any(stored.changed for stored in member.stored)
                drawn = self.pictures.get(first)
                picture = _content(drawn, packer) if drawn else None
                preview = self.previews.get(first, {})
                for name in member.names:
                    values[name] = Value(name, group, slot, digest, preview, picture, changed=changed)
        return tuple(values[name] for name in self.order if name in values)


def _content(stored: Stored, packer: Packer) -> Content:
    return Content(stored.size, tuple(packer.runs(stored)))


def capture(
    items: Mapping[str, Any],
    namespace: dict[str, Any],
    packer: Packer,
    *,
    previews: bool = True,
    terse: Container[str] = (),
    left: Iterable[str] = (),
    lends: bool = False,
    apart: Mapping[str, Any] = MappingProxyType({}),
) -> Captured:
    """Hand every value of *items* to *packer*. A value that cannot be pickled is skipped by name.

    The namespace is not changed. Other threads may change it and its values; see docs/decisions/0043. If a
    function needs a variable that was *left* out, or skipped, a warning says so. If a record *lends*, it has
    those that its load needs. The preview of a *terse*
    name has no text, which can take half a millisecond. Arrays that stay *apart* are not pickled; `met` names
    those that a value reaches, or with which it shares memory.
    """
    captured = Captured(list(items))
    take = Taker(packer, frozenset(left if lends else ()))
    with paused_gc(), without_tee():
        members = pickle_each(items, namespace, take, captured.skipped, captured.pictures)
        captured.met = _met(apart, members) if apart else set()
        captured.by_class = _by_class(members)
        small, groups = _small_apart(_connected(members))
        for at in range(0, len(small), _IN_RECORD):
            captured.drafts.append(_draft_small(small[at : at + _IN_RECORD], packer))
        for group in groups:
            try:
                captured.drafts.append(_draft(group, namespace, take))
            except Exception as error:  # noqa: BLE001  each could be pickled alone a moment ago
                reason = why_changing(error)
                captured.skipped += [Skipped(name, name, reason) for member in group for name in member.names]
        members = [member for draft in captured.drafts for member in draft.members]
        if previews:
            # Last, because the disk is meanwhile busy with the memory of the arrays.
            with bounded():  # a value's own repr may be recursive
                _look_at(members, terse, captured)
        absent = (*left, *(skipped.name for skipped in captured.skipped))
        # A missing module is not a loss, because the cell that imports it still exists.
        missing = {name for name in absent if not issubclass(type(namespace.get(name)), ModuleType)}
        _warn(members, missing, captured)
        for member in members:
            large = {(span.address, span.size) for span in member.pickled.reached if span.size >= LEAST}
            captured.memory[member.names[0]] = tuple(sorted(large))
            if not (member.pickled.links or member.pickled.class_links or member.pickled.reached):
                captured.constant.add(member.names[0])
            member.release()
    return captured


def _met(apart: Mapping[str, Any], members: Iterable[Member]) -> set[str]:
    """Return the arrays among *apart* that a member reaches, or with which it shares memory."""
    names = {id(array): name for name, array in apart.items()}
    spans = [(*byte_range(array), name) for name, array in apart.items()]
    met: set[str] = set()
    for part in (member.pickled for member in members):
        links = (*part.links, *part.class_links)
        met |= {names[number] for number in map(id, links) if number in names}
        for span in part.reached:
            met |= {name for low, high, name in spans if span.address < high and low < span.end}
    return met


def _by_class(members: Iterable[Member]) -> set[str]:
    """Return the names of the members that meet, in a class, an object that another member has itself."""
    with_classes = [member for member in members if member.pickled.class_links]
    if not with_classes:
        return set()
    held = {id(link) for member in members for link in member.pickled.links}
    met = [member for member in with_classes if not held.isdisjoint(map(id, member.pickled.class_links))]
    return {name for member in met for name in member.names}


def with_sharing(names: Iterable[str], items: Mapping[str, Any], namespace: dict[str, Any]) -> set[str]:
    """Return names of *items* with the names of all values that share objects or memory with theirs.

    A value that cannot be pickled shares nothing here.
    """
    wanted, parts = set(names), {}
    for name, value in items.items():
        with suppress(Exception):  # any exception of the value's own pickling
            parts[name] = deeply(partial(dump, [value], namespace, write=len))
    here = list(parts)
    for group in _groups(list(parts.values())):
        together = {here[at] for at in group}
        if together & wanted:
            wanted |= together
    return wanted


def _connected(members: list[Member]) -> list[list[Member]]:
    """Return the members in groups. Members that reach one object, or overlapping memory, share a group."""
    return [[members[at] for at in group] for group in _groups([member.pickled for member in members])]


def _groups(parts: Sequence[Pickled]) -> list[list[int]]:
    """Return the positions of records in groups; see `_connected`."""
    parent = list(range(len(parts)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    owner: dict[int, int] = {}
    for at, part in enumerate(parts):
        for link in part.links:
            first = owner.setdefault(id(link), at)
            if first != at:
                parent[root(at)] = root(first)
    for at, part in enumerate(parts):
        for link in part.class_links:
            if id(link) in owner:
                parent[root(at)] = root(owner[id(link)])
    reach = sorted((span.address, span.end, at) for at, part in enumerate(parts) for span in part.memory)
    end, last = 0, -1
    for low, high, at in reach:
        if low < end:
            parent[root(at)] = root(last)
        if high > end:
            end, last = high, at
    groups: dict[int, list[int]] = {}
    for at in range(len(parts)):
        groups.setdefault(root(at), []).append(at)
    return list(groups.values())


def _draft(members: list[Member], namespace: dict[str, Any], take: Taker) -> _Draft:
    """Pickle a group together. A single value without overlapping memory keeps its first record."""
    pickled, record = members[0].pickled, members[0].record
    parts = [member.pickled for member in members]
    if len(parts) == 1 and not (pickled.memory or pickled.buffers):
        _note_objects(members, pickled)
        return _Draft(members, record.stored(), [], [])
    owners = [owner for part in parts for owner in part.owners]
    overlaps = Overlaps([span for part in parts for span in part.memory], owners)
    if len(members) > 1 or overlaps:
        pickled, record = take.dump([member.value for member in members], namespace, overlaps)
    _note_objects(members, pickled)
    roots, buffers = merged(pickled.buffers) if overlaps else _separate(pickled.buffers)
    return _Draft(members, record.stored(), [take(span) for span in roots], buffers)


def _note_objects(members: list[Member], pickled: Pickled) -> None:
    """Note which objects the record of these members reaches; see `Print.links`."""
    if pickled.links:
        links = array("Q", map(id, pickled.links))
        for member in members:
            member.links = links
            with suppress(TypeError):  # many built-in types have no weak references
                member.root = weakref.ref(member.value)


@dataclass(frozen=True)
class Live:
    """A group as it is in memory.

    Attributes:
        record: The pickle.
        roots: The memory beside it.
        buffers: The buffers of the pickle; see `Group`.
        is_writable: Whether all of the memory is the values' own, and can be written to.
    """

    record: bytes
    roots: list[Span]
    buffers: tuple[tuple[int, int, int], ...]
    is_writable: bool


def live_group(values: list[Any], namespace: dict[str, Any]) -> Live:
    """Return the values of a group as `capture` would store them. Nothing is stored."""
    pickled, overlaps = together(values, namespace)
    roots, buffers = merged(pickled.buffers) if overlaps else _separate(pickled.buffers)
    is_writable = not any(span.view.readonly or is_made(span.view) for span in pickled.buffers)
    return Live(pickled.record, roots, tuple(buffers), is_writable)


def together(values: list[Any], namespace: dict[str, Any]) -> tuple[Pickled, Overlaps]:
    """Return the record of a group of values, and the memory that they share. Nothing is stored."""
    parts = [deeply(partial(dump, [value], namespace)) for value in values]
    owners = [owner for part in parts for owner in part.owners]
    overlaps = Overlaps([span for part in parts for span in part.memory], owners)
    is_one = len(values) == 1 and not overlaps
    return (parts[0] if is_one else deeply(partial(dump, values, namespace, overlaps))), overlaps


def _small_apart(groups: Iterable[list[Member]]) -> tuple[list[Member], list[list[Member]]]:
    """Return the small plain members that share nothing, not even between two names, and the other groups."""
    small: list[Member] = []
    others: list[list[Member]] = []
    for group in groups:
        first, pickled = group[0], group[0].pickled
        is_alone = len(group) == 1 and (len(first.names) == 1 or not pickled.links)
        if is_alone and pickled.plain and first.record.size < _SMALL_RECORD:
            small.append(first)
        else:
            others.append(group)
    return small, others


def _draft_small(members: list[Member], packer: Packer) -> _Draft:
    """Put members that share nothing into one record, in the state in which each was pickled."""
    values = [pickle.loads(member.record.kept)[0] for member in members]
    for member in members:
        _note_objects([member], member.pickled)
    return _Draft(members, packer.add_record(pickle.dumps(values, 5)), [], [], separate=True)


def _separate(spans: list[Span]) -> tuple[list[Span], list[tuple[int, int, int]]]:
    return spans, [(at, 0, span.size) for at, span in enumerate(spans)]


def _look_at(members: list[Member], terse: Container[str], captured: Captured) -> None:
    for member in members:
        preview: dict[str, Any] = {"type": type_name(type(member.value))}
        if member.names[0] not in terse:
            preview = describe(member.value)
        preview["bytes"] = member.record.size + sum(span.size for span in member.pickled.buffers)
        captured.previews[member.names[0]] = preview


def _warn(members: list[Member], missing: set[str], captured: Captured) -> None:
    """Add warnings for values that are not restored completely, or that need *missing* variables."""
    for member in members:
        if not (member.pickled.notes or (missing and member.pickled.functions)):
            continue
        name = member.names[0]
        notes = member.pickled.notes
        paths = paths_to(name, member.value, [part for part, _ in notes])
        captured.warnings += dict.fromkeys(
            f"{path}: {lost}" for path, (_, lost) in zip(paths, notes, strict=True)
        )
        if any(isinstance(lost, Omission) for _, lost in notes):
            captured.omitting.update(member.names)
        codes = [function.__code__ for function in member.pickled.functions] if missing else []
        needed = sorted({global_name for code in codes for global_name in global_names(code)} & missing)
        if needed:
            are = "is" if len(needed) == 1 else "are"
            captured.warnings.append(f"{name}: needs {', '.join(needed)}, which {are} not saved with it")
