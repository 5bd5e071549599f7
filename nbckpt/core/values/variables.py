"""Variables: turns a namespace into groups of records. `loading` does the reverse.

This module does not depend on IPython: the namespace is a plain dict. Variables that reach the same mutable
object, or the same range of memory, form a group. They are pickled together, so that shared objects stay
shared. Every other variable is pickled alone and can be loaded alone. Small plain variables share records,
because a record for each would be larger than they are; see docs/decisions/0060.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

from nbckpt.core.manifest import Group, Skipped, Value
from nbckpt.core.packs.content import Content, Stored
from nbckpt.core.packs.pools import others_run
from nbckpt.core.packs.writer import Packer
from nbckpt.core.reducers import Made
from nbckpt.core.spans import NO_OVERLAPS, Overlaps, Span, merged
from nbckpt.core.values.codec import Pickled, dump, paused_gc
from nbckpt.core.values.diagnose import blame, global_names, path_to
from nbckpt.core.values.preview import describe, picture_of
from nbckpt.core.values.record import KEPT, Record

_LARGE = 1 << 20
_SMALL = frozenset({int, float, bool, str, bytes, list, tuple, dict, set, type(None)})
_CONSTANT = frozenset({str, bytes})
_MOST_TRIES = 3
_SMALL_RECORD, _IN_RECORD = 256, 32
"""The size limit of values that share a record, in bytes, and the number of values per record."""
_MOST_KEPT, _ALWAYS_KEPT = 16 << 20, 4 << 10
"""The most bytes of all kept records together, and the size of a record that is always kept."""


@dataclass(slots=True)
class _Member:
    """One distinct object, with all names that are bound to it."""

    names: list[str]
    value: Any
    pickled: Pickled
    record: Record
    stored: list[Stored]
    hash: bytes

    def digest(self, digest: Callable[[bytes], bytes]) -> str:
        """Return the digest of the value: of its record's digest, and of those of its memory."""
        names = [name for stored in self.stored for name in stored.digests]
        return digest(b"".join([self.hash, *names])).hex()[:32]

    def release(self) -> None:
        """Forget everything that `Captured` does not need, so the garbage collector has less to search."""
        del self.value, self.pickled, self.record


@dataclass
class _Draft:
    """A group whose bytes are on their way into packs."""

    members: list[_Member]
    record: Stored
    roots: list[Stored]
    buffers: list[tuple[int, int, int]]
    separate: bool = False


@dataclass
class Captured:
    """The result of `capture`. Call `values` and `groups` after the packer has finished."""

    order: list[str]
    drafts: list[_Draft] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    previews: dict[str, dict[str, Any]] = field(default_factory=dict)
    pictures: dict[str, Stored] = field(default_factory=dict)

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
    left: Iterable[str] = (),
) -> Captured:
    """Hand every value of *items* to *packer*. A value that cannot be pickled is skipped by name.

    The namespace is not changed. Other threads may change it and its values; see docs/decisions/0043. If a
    function needs a variable that was *left* out, or skipped, a warning says so.
    """
    captured = Captured(list(items))
    take = _Taker(packer)
    with paused_gc():
        members = _pickle_each(items, namespace, captured, take)
        small, groups = _small_apart(_connected(members))
        for at in range(0, len(small), _IN_RECORD):
            captured.drafts.append(_draft_small(small[at : at + _IN_RECORD], packer))
        for group in groups:
            try:
                captured.drafts.append(_draft(group, namespace, take))
            except Exception as error:  # noqa: BLE001  each could be pickled alone a moment ago
                reason = _why_changing(error)
                captured.skipped += [Skipped(name, name, reason) for member in group for name in member.names]
        members = [member for draft in captured.drafts for member in draft.members]
        if previews:
            # Last, because the disk is meanwhile busy with the memory of the arrays.
            _look_at(members, captured)
        absent = (*left, *(skipped.name for skipped in captured.skipped))
        # A missing module is not a loss, because the cell that imports it still exists.
        missing = {name for name in absent if not isinstance(namespace.get(name), ModuleType)}
        _warn(members, missing, captured)
        for member in members:
            member.release()
    return captured


@dataclass
class _Taker:
    """Hands each range of memory to the packer once, however many records refer to it.

    The spans are kept alive. Otherwise another object could reuse the address of a temporary one.

    Attributes:
        kept: The number of bytes of kept records.
        is_alone: Whether no other thread of the user runs. If one runs, a record is made in one step, since
            handing over pieces would let that thread change a half pickled container.
    """

    packer: Packer
    taken: dict[tuple[int, int], tuple[Stored, Span]] = field(default_factory=dict)
    kept: int = 0
    is_alone: bool = field(default_factory=lambda: not others_run())

    def __call__(self, span: Span) -> Stored:
        key = (span.address, span.size)
        if key not in self.taken:
            self.taken[key] = self.packer.add(span.view), span
        return self.taken[key][0]

    def dump(
        self, values: list[Any], namespace: dict[str, Any], overlaps: Overlaps = NO_OVERLAPS
    ) -> tuple[Pickled, Record]:
        """Return `dump` of the values. Try again if another thread changes a container meanwhile."""
        most = KEPT if self.kept < _MOST_KEPT else _ALWAYS_KEPT
        in_pieces = self.is_alone or _CONSTANT.issuperset(map(type, values))
        for tries in range(1, _MOST_TRIES + 1):
            record = Record(self.packer, most)
            try:
                pickled = dump(values, namespace, overlaps, record.write if in_pieces else None)
                break
            except RuntimeError as error:
                if tries == _MOST_TRIES or not _is_changing(error):
                    raise
        record.write(pickled.record)
        pickled.record = b""
        self.kept += len(record.kept)
        return pickled, record

    def whole(self, pickled: Pickled) -> list[Stored]:
        """Hand over all memory of a record, and release memory that was made only for the record."""
        stored = []
        for at, span in enumerate(pickled.buffers):
            if isinstance(span.view.obj, Made):
                # Another object may reuse its address, so it gets an address that no object can have.
                pickled.buffers[at] = Span(-1 - len(self.taken), span.size, memoryview(b""))
                self.taken[pickled.buffers[at].address, span.size] = (
                    self.packer.add(span.view, lent=False),
                    pickled.buffers[at],
                )
            stored.append(self(pickled.buffers[at]))
        return stored


def _pickle_each(
    items: Mapping[str, Any], namespace: dict[str, Any], captured: Captured, take: _Taker
) -> list[_Member]:
    """Pickle every distinct object alone, the largest first, so that the disk has work early."""
    by_identity: dict[int, list[str]] = {}
    for name, value in items.items():
        by_identity.setdefault(id(value), []).append(name)
    arrays, frames, others = _by_size(by_identity.values(), items)
    members: dict[str, _Member] = {}

    def pickle_one(names: list[str]) -> None:
        if member := _pickle_one(names, items[names[0]], namespace, captured, take):
            members[names[0]] = member

    for names in arrays:
        pickle_one(names)
        # Pickling holds the GIL, and hashing needs it often, so the two run one after the other. Writing
        # hardly needs it and continues. See docs/decisions/0012.
        take.packer.settle()
    # Drawing changes caches inside a figure, so it comes before pickling: see docs/decisions/0005.
    _draw({names[0]: items[names[0]] for names in others}, captured, take.packer)
    # The frames come last: the joined strings stay in memory until they are written, see docs/decisions/0014.
    for names in (*others, *frames):
        pickle_one(names)
    return [members[names[0]] for names in by_identity.values() if names[0] in members]


def _pickle_one(
    names: list[str], value: Any, namespace: dict[str, Any], captured: Captured, take: _Taker
) -> _Member | None:
    """Return the object as a member, or None if it cannot be pickled."""
    try:
        pickled, record = take.dump([value], namespace)
    except Exception as error:  # noqa: BLE001  a value's own pickling may raise anything; the others are saved
        path, reason = names[0], _why_changing(error)
        if not _is_changing(error):
            path, reason = blame(names[0], value, partial(dump, namespace=namespace, write=len))
        captured.skipped += [Skipped(name, path, reason) for name in names]
        return None
    stored = take.whole(pickled)
    return _Member(names, value, pickled, record, stored, record.digest())


def _is_changing(error: BaseException) -> bool:
    """Tell whether pickling failed because another thread changed a container meanwhile."""
    return isinstance(error, RuntimeError) and str(error).endswith("during iteration")


def _why_changing(error: BaseException) -> str:
    if not _is_changing(error):
        return f"{type(error).__name__}: {error}"
    return f"it changed while it was saved, {_MOST_TRIES} times ({error}): save it when nothing writes to it"


def _by_size(
    objects: Iterable[list[str]], items: Mapping[str, Any]
) -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
    """Return the names of the large arrays and of the large frames, both largest first, and of the others."""
    arrays: list[tuple[int, list[str]]] = []
    frames: list[tuple[int, list[str]]] = []
    others: list[list[str]] = []
    for names in objects:
        value = items[names[0]]
        size = _rough_size(value)
        if size < _LARGE:
            others.append(names)
        else:
            (arrays if hasattr(value, "nbytes") else frames).append((size, names))
    for sized in (arrays, frames):
        sized.sort(key=lambda pair: -pair[0])
    return [names for _, names in arrays], [names for _, names in frames], others


def _rough_size(value: Any) -> int:
    """Return the size that a value itself reports cheaply, or 0."""
    if type(value) in _SMALL:
        return 0
    with suppress(Exception):
        return int(value.nbytes if hasattr(value, "nbytes") else value.memory_usage().sum())
    return 0


def _draw(values: Mapping[str, Any], captured: Captured, packer: Packer) -> None:
    for name, value in values.items():
        if type(value) not in _SMALL and (picture := picture_of(value)):
            captured.pictures[name] = packer.add(picture)


def _connected(members: list[_Member]) -> list[list[_Member]]:
    """Return the members in groups. Members that reach one object, or overlapping memory, share a group."""
    parent = list(range(len(members)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    owner: dict[int, int] = {}
    for at, member in enumerate(members):
        for link in member.pickled.links:
            first = owner.setdefault(id(link), at)
            if first != at:
                parent[root(at)] = root(first)
    for at, member in enumerate(members):
        for link in member.pickled.class_links:
            if id(link) in owner:
                parent[root(at)] = root(owner[id(link)])
    reach = sorted(
        (span.address, span.end, at) for at, member in enumerate(members) for span in member.pickled.reached
    )
    end, last = 0, -1
    for low, high, at in reach:
        if low < end:
            parent[root(at)] = root(last)
        if high > end:
            end, last = high, at
    groups: dict[int, list[_Member]] = {}
    for at, member in enumerate(members):
        groups.setdefault(root(at), []).append(member)
    return list(groups.values())


def _draft(members: list[_Member], namespace: dict[str, Any], take: _Taker) -> _Draft:
    """Pickle a group together. A single value without overlapping memory keeps its first record."""
    pickled, record = members[0].pickled, members[0].record
    parts = [member.pickled for member in members]
    if len(parts) == 1 and not (pickled.reached or pickled.buffers):
        return _Draft(members, record.stored(), [], [])
    owners = [owner for part in parts for owner in part.owners]
    overlaps = Overlaps([span for part in parts for span in part.reached], owners)
    if len(members) > 1 or overlaps:
        pickled, record = take.dump([member.value for member in members], namespace, overlaps)
    roots, buffers = merged(pickled.buffers) if overlaps else _separate(pickled.buffers)
    return _Draft(members, record.stored(), [take(span) for span in roots], buffers)


def _small_apart(groups: Iterable[list[_Member]]) -> tuple[list[_Member], list[list[_Member]]]:
    """Return the small plain members that share nothing, not even between two names, and the other groups."""
    small: list[_Member] = []
    others: list[list[_Member]] = []
    for group in groups:
        first, pickled = group[0], group[0].pickled
        is_alone = len(group) == 1 and (len(first.names) == 1 or not pickled.links)
        if is_alone and pickled.plain and first.record.size < _SMALL_RECORD:
            small.append(first)
        else:
            others.append(group)
    return small, others


def _draft_small(members: list[_Member], packer: Packer) -> _Draft:
    """Put members that share nothing into one record, in the state in which each was pickled."""
    values = [pickle.loads(member.record.kept)[0] for member in members]
    return _Draft(members, packer.add_record(pickle.dumps(values, 5)), [], [], separate=True)


def _separate(spans: list[Span]) -> tuple[list[Span], list[tuple[int, int, int]]]:
    return spans, [(at, 0, span.size) for at, span in enumerate(spans)]


def _look_at(members: list[_Member], captured: Captured) -> None:
    for member in members:
        preview = describe(member.value)
        preview["bytes"] = member.record.size + sum(span.size for span in member.pickled.buffers)
        captured.previews[member.names[0]] = preview


def _warn(members: list[_Member], missing: set[str], captured: Captured) -> None:
    """Add warnings for values that are not restored completely, or that need *missing* variables."""
    for member in members:
        if not (member.pickled.notes or (missing and member.pickled.functions)):
            continue
        name = member.names[0]
        notes = [f"{path_to(name, member.value, part)}: {lost}" for part, lost in member.pickled.notes]
        captured.warnings += dict.fromkeys(notes)
        codes = [function.__code__ for function in member.pickled.functions] if missing else []
        needed = sorted({global_name for code in codes for global_name in global_names(code)} & missing)
        if needed:
            are = "is" if len(needed) == 1 else "are"
            captured.warnings.append(f"{name}: needs {', '.join(needed)}, which {are} not saved with it")
