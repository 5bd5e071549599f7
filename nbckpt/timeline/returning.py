"""Returning: the objects of a point come back as the very objects that they were, if these are alive.

A module, a callback or a registry may have an object that a variable has too. So a loaded object gives its
contents to the live object that the point was made of, which takes its place. The point's fingerprints tell
by identities which object that was; see `Print.links` and docs/decisions/0174.
"""

from __future__ import annotations

import gc
import logging
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from sys import modules
from types import MappingProxyType
from typing import Any
from weakref import ReferenceType

from nbckpt.core import environment, finalizers
from nbckpt.core.manifest import Manifest
from nbckpt.core.reducers import OWNERS
from nbckpt.core.values.codec import Pickled
from nbckpt.core.values.contents import Form, form_of, own_parts
from nbckpt.core.values.streams import without_tee
from nbckpt.core.values.variables import Print, together

_MOST = 20_000
"""The most objects of a group that come back as what they were."""

_MOST_BYTES = 16 << 20
"""The largest record of such a group."""

_IN_C = type(len)
_REBUILT = frozenset({tuple, frozenset, types.MethodType, _IN_C, slice})
"""Types whose objects cannot change, so that another one takes their place if a part is swapped."""

_LEAF = (type, types.ModuleType, types.CodeType, logging.Logger, type(None), int, float, complex, str, bytes)
_APART = ("matplotlib", "mpl_toolkits")
"""Libraries whose objects note the identities of others."""


class Returning:
    """The live objects that get the contents of loaded ones.

    Args:
        namespace: The namespace of the notebook's functions.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.names: set[str] = set()
        self._namespace = namespace
        self._writes: list[tuple[Form, Any, Any]] = []
        self._loaded: list[Any] = []
        self._live: list[Any] = []

    def plan(self, target: Manifest, loaded: dict[str, Any], then: Mapping[str, Print]) -> None:
        """Find live objects for the loaded values, and put them in the place of these in *loaded*.

        Nothing is changed yet. The values of a group stay the loaded ones if anything is unclear.

        Args:
            target: The point.
            loaded: The values by name.
            then: The fingerprints of the point's values, as their objects gave them.
        """
        names = loaded.keys() & then.keys() - environment.NAMES
        groups: dict[tuple[int, int], dict[str, int]] = {}
        for value in target.values:
            group = target.groups[value.group]
            if value.name in names and group.record.size <= _MOST_BYTES:
                alone = value.slot if group.separate else -1
                groups.setdefault((value.group, alone), {})[value.name] = value.slot
        for slots in groups.values():
            known = then[next(iter(slots))].links
            if 0 < len(known) <= _MOST:
                # The values' own pickling may raise anything. Then they are bound as they were loaded.
                with suppress(Exception), without_tee():
                    self._plan(slots, known, loaded, then)

    def join(self, loaded: dict[str, Any], doubles: list[tuple[Any, Any]]) -> None:
        """Let loaded values have the functions that live classes kept, in the place of loaded doubles."""
        unused, *counts = [sys.getrefcount(double) for double, _ in ((lambda: None, None), *doubles)]
        pairs = [pair for pair, count in zip(doubles, counts, strict=True) if count > unused]
        if not pairs:
            return
        group = _Group(Pickled(b""), self._namespace, {id(double): own for double, own in pairs})
        with suppress(Exception):  # then they keep the doubles
            group.visit([*loaded.values()], {})
            writes = group.writes()
            loaded |= {name: group.swap(value) for name, value in loaded.items()}
            for form, obj, contents in writes:
                form.write(obj, contents)

    def _plan(
        self, slots: dict[str, int], known: Sequence[int], loaded: dict[str, Any], then: Mapping[str, Print]
    ) -> None:
        by_slot = {slot: loaded[name] for name, slot in slots.items()}
        values = [by_slot[slot] for slot in sorted(by_slot)]
        pickled, overlaps = together(values, self._namespace)
        group = _Group(pickled, self._namespace)
        if overlaps:  # all that use one memory must be of one origin
            kinds = (getattr(modules.get("numpy"), "ndarray", ()), *OWNERS)
            group.pin(link for link in pickled.links if isinstance(link, kinds))
        twins = group.twins(values, known, self._alive(slots, then))
        if twins:
            self._writes += group.writes()
            loaded |= {name: group.swap(loaded[name]) for name in slots}
            self.names |= slots.keys()
            self._loaded += [group.visited[number] for number in twins]
            self._live += twins.values()

    def apply(self) -> None:
        """Give the live objects their contents: all of them, or after an exception none."""
        former = [(form, live, form.read(live, _same)) for form, live, _ in self._writes]
        try:
            for form, live, contents in self._writes:
                form.write(live, contents)
        except BaseException:
            for form, live, contents in former:
                form.write(live, contents)
            raise
        for obj in self._loaded:
            finalizers.never_end(obj)
        finalizers.release(self._live)

    def _alive(self, names: Iterable[str], then: Mapping[str, Print]) -> dict[int, Any]:
        """Return, by identity, the live objects that the values of a group can have been."""
        roots = [self._namespace[name] for name in names if name in self._namespace]
        array = getattr(
            modules.get("numpy"), "ndarray", ()
        )  # a view in another form may still use its memory
        roots += [root() for name in names if (root := then[name].root) and not isinstance(root(), array)]
        alive = {id(obj): obj for obj in finalizers.kept_alive()}
        for root in {id(root): root for root in roots if root is not None}.values():
            with suppress(Exception):
                alive |= {id(link): link for link in together([root], self._namespace)[0].links}
        return alive


class _Group:
    """The loaded objects of one group.

    Attributes:
        visited: The objects that its values lead to, by identity.
    """

    def __init__(
        self, pickled: Pickled, namespace: dict[str, Any], twins: Mapping[int, Any] = MappingProxyType({})
    ) -> None:
        self.visited: dict[int, Any] = {}
        self._links, self._namespace = pickled.links, namespace
        self._is_swapped = False
        self._pinned: dict[int, Any] = {}
        self._twins: dict[int, Any] = {**twins}
        self._rebuilt: dict[int, tuple[Any, Any]] = {}
        self._forms: dict[type, Form | None] = {}
        self.pin(pickled.class_links)

    def twins(self, values: list[Any], identities: Sequence[int], alive: Mapping[int, Any]) -> dict[int, Any]:
        """Return the live object for each loaded one that can give it its contents."""
        if len(identities) != len(self._links):
            return {}
        self.visit(values, alive)
        twins, taken = self._twins, dict[int, int]()
        for loaded, identity in zip(self._links, identities, strict=True):
            number, live = id(loaded), alive.get(identity)
            if number not in self.visited or live is None or live is loaded or type(live) is not type(loaded):
                continue
            if taken.setdefault(identity, number) != number or twins.get(number, live) is not live:
                raise ValueError("the point was made of other objects")
            form = self._form(type(live))
            if form is not None and number not in self._pinned and form.fits(live, loaded):
                twins[number] = live
        return twins

    def writes(self) -> list[tuple[Form, Any, Any]]:
        """Return what each object gets: the live objects, and the loaded ones that refer to them."""
        writes = []
        for number, obj in self.visited.items():
            if (form := self._form(type(obj))) is not None:
                self._is_swapped = False
                contents, live = form.read(obj, self.swap), self._twins.get(number, obj)
                is_due = (
                    self._is_swapped if live is obj else not form.is_same(contents, form.read(live, _same))
                )
                writes += [(form, live, contents)] if is_due else []
        return writes

    def _form(self, kind: type) -> Form | None:
        if kind not in self._forms:
            self._forms[kind] = form_of(kind)
        return self._forms[kind]

    def swap(self, value: Any) -> Any:
        """Return the live object for a loaded one, and an object that cannot change with swapped parts."""
        new = self._twins.get(id(value), value)
        if type(value) in _REBUILT:
            if id(value) not in self._rebuilt:  # the value must live, or another one may get its identity
                self._rebuilt[id(value)] = value, self._rebuild(value)
            new = self._rebuilt[id(value)][1]
        if new is not value:
            self._is_swapped = True
        return new

    def _rebuild(self, value: Any) -> Any:
        kind = type(value)
        parts = [value.__self__] if kind is _IN_C else gc.get_referents(value)
        new = [*map(self.swap, parts)]
        if all(one is other for one, other in zip(parts, new, strict=True)):
            return value
        if kind is types.MethodType:
            return types.MethodType(*map(self.swap, (value.__func__, value.__self__)))
        if kind is _IN_C:
            return getattr(new[0], value.__name__)
        if kind is slice:
            return slice(*map(self.swap, (value.start, value.stop, value.step)))
        return kind(map(self.swap, value))

    def visit(self, values: list[Any], alive: Mapping[int, Any]) -> None:
        """Find the objects that loaded values lead to. What is *alive* leads to none."""
        todo, most = [*values], _MOST + 4 * len(self._links)
        while todo:
            obj = todo.pop()
            if id(obj) in self.visited or id(obj) in alive or isinstance(obj, _LEAF):
                continue
            if type(obj).__module__.partition(".")[0] in _APART or len(self.visited) > most:
                raise ValueError("these objects note the identities of others, or are too many")
            self.visited[id(obj)] = obj
            todo += self._parts(obj)

    def _parts(self, obj: Any) -> list[Any]:
        """Return what an object leads to. What it holds in a way that cannot be written is pinned."""
        kind = type(obj)
        if kind is types.FunctionType:
            parts = [*own_parts(obj)] if obj.__globals__ is self._namespace else []
            self.pin(
                part for part in parts if type(part) is not tuple
            )  # cells and dicts; defaults can be written
            return parts
        if isinstance(obj, ReferenceType):
            self.pin([obj()])
        parts = gc.get_referents(obj)
        if getattr(getattr(obj, "dtype", None), "hasobject", False):
            parts += obj.ravel().tolist()
            self.pin(parts)
        elif kind not in _REBUILT and self._form(kind) is None:
            self.pin(parts)
        if isinstance(obj, (dict, set, frozenset)):  # their hash may run code of the user
            self.pin(part for part in obj if _hash_of(type(part)) is not _hash_of(object))
        return parts

    def pin(self, objects: Iterable[Any]) -> None:
        """Let loaded objects, and those in tuples and the like, take the place of the live ones."""
        todo = [*objects]
        while todo:
            obj = todo.pop()
            if id(obj) not in self._pinned:
                self._pinned[id(obj)] = obj
                todo += gc.get_referents(obj) if type(obj) in _REBUILT else ()


def _hash_of(kind: Any) -> Any:
    return kind.__hash__


def _same(value: Any) -> Any:
    return value
