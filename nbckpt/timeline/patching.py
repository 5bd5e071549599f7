"""Patching: give live arrays the bytes of a point in place, so that every alias and view of them stays.

See docs/decisions/0102.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import modules
from typing import Any

from nbckpt.core.manifest import Group, Manifest
from nbckpt.core.memory.pages import page_record
from nbckpt.core.memory.process import is_writable
from nbckpt.core.memory.userfault import joined
from nbckpt.core.packs.differences import differences
from nbckpt.core.packs.pools import others_run
from nbckpt.core.packs.reader import Reader
from nbckpt.core.spans import Span, address_of
from nbckpt.core.values.variables import live_group
from nbckpt.errors import NbckptError
from nbckpt.store import Buffer
from nbckpt.timeline.held import Held

Patch = list[tuple[memoryview, Buffer]]
"""Ranges of live memory, each with the bytes that it gets."""

_MOST_BYTES = 64 << 20
_MOST_OBJECTS = 10_000
_MOST_RECORD = 1 << 20
_ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None)})


def plan(
    names: Iterable[str],
    there: Held,
    here: Held,
    read: Callable[[Manifest], Reader],
    namespace: dict[str, Any],
) -> dict[frozenset[str], Patch]:
    """Return the groups among *names* that can be patched, each with its patch. Nothing is changed yet.

    A group is patched if it holds nothing but plain arrays and containers of them, if it is the very group
    of the point that is here, and if the two points differ in nothing but the bytes of writable memory that
    only this process maps.
    """
    if others_run():
        return {}
    readers = read(there.manifest), read(here.manifest)
    patches: dict[frozenset[str], Patch] = {}
    for mates in {there.mates[name] for name in names}:
        try:
            patch = _patch(mates, there, here, readers, namespace)
        except NbckptError:  # the group is loaded instead, which tells of the damage
            continue
        if patch is not None:
            patches[mates] = patch
    return patches


def apply(patches: Iterable[Patch]) -> None:
    """Write the bytes. The caller holds off interrupts: half of the bytes would be no state at all."""
    parts = [part for patch in patches for part in patch]
    for low, high in joined([(address_of(memory), address_of(memory) + len(memory)) for memory, _ in parts]):
        page_record().expect_write(low, high - low)
    for memory, data in parts:
        memory[:] = data


def _patch(
    mates: frozenset[str], there: Held, here: Held, readers: tuple[Reader, Reader], namespace: dict[str, Any]
) -> Patch | None:
    groups = _of_one_form(mates, there, here)
    slots = {here.values[name].slot: namespace.get(name) for name in mates} if groups else {}
    values = [slots[slot] for slot in sorted(slots)]
    if groups is None or [*sorted(slots)] != [*range(len(slots))] or not _are_plain(values):
        return None
    records = {reader.read(reader.sized(group.record)) for reader, group in zip(readers, groups, strict=True)}
    live = live_group(values, namespace)
    is_same = records == {live.record} and live.buffers == groups[0].buffers
    sizes = [root.size for root in groups[0].roots]
    if not (is_same and live.is_writable and [span.size for span in live.roots] == sizes):
        return None
    if not all(is_writable(span.address, span.end) for span in live.roots):
        return None
    return _differences(live.roots, groups, readers)


def _of_one_form(mates: frozenset[str], there: Held, here: Held) -> tuple[Group, Group] | None:
    """Return the groups of the two points that hold these values alone, and in the same places in both."""
    if not all(name in here.values and here.mates[name] == mates and _is_exact(name, here) for name in mates):
        return None
    if any(here.values[name].slot != there.values[name].slot for name in mates):
        return None
    name = next(iter(mates))
    group, other = (held.manifest.groups[held.values[name].group] for held in (there, here))
    is_alike = _form(group) == _form(other)
    is_fit = group.roots and not group.separate and group.record.size <= _MOST_RECORD
    return (group, other) if is_alike and is_fit else None


def _form(group: Group) -> tuple[object, ...]:
    return group.record.size, group.buffers, [root.size for root in group.roots]


def _is_exact(name: str, here: Held) -> bool:
    """Tell whether the bytes of a value are those that the point which is here has in the store."""
    value = here.values[name]
    return not value.changed and name in here.prints and here.prints[name].digest == value.digest


def _are_plain(values: Iterable[Any]) -> bool:
    """Tell whether values are arrays and containers of them. Others may keep what they found in the bytes."""
    ndarray = getattr(modules.get("numpy"), "ndarray", None)
    todo, seen = [*values], dict[int, Any]()
    while todo:
        value = todo.pop()
        kind = type(value)
        if kind in _ATOMS or id(value) in seen or (kind is ndarray and not value.dtype.hasobject):
            continue
        if kind not in {list, tuple, dict} or len(seen) > _MOST_OBJECTS or len(value) > _MOST_OBJECTS:
            return False
        seen[id(value)] = value
        todo += [*value, *value.values()] if kind is dict else value
    return True


def _differences(
    roots: Iterable[Span], groups: tuple[Group, Group], readers: tuple[Reader, Reader]
) -> Patch | None:
    patch: Patch = []
    left = _MOST_BYTES
    for span, content, present in zip(roots, groups[0].roots, groups[1].roots, strict=True):
        for start, end, runs in differences(content, present, readers):
            left -= end - start
            if left < 0:
                return None
            for part in readers[0].parts(runs):
                patch.append((span.view[start : start + len(part)], part))
                start += len(part)
    return patch
