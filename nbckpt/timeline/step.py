"""Step: from one point to the next. Only variables that may differ are pickled; the others are carried."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from nbckpt.core import environment
from nbckpt.core.elsewhere import variable_of
from nbckpt.core.environment import is_same
from nbckpt.core.history import History
from nbckpt.core.manifest import Group, Manifest, Value, now
from nbckpt.core.packs.content import Content, Stored
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer, Progress
from nbckpt.core.values.variables import Captured, Print, capture
from nbckpt.timeline.held import UNHELD, Held, ids_of
from nbckpt.timeline.places import Place
from nbckpt.timeline.recipes import Recipe, Recipes, facts
from nbckpt.tracker.saving import deleted_since

POINT = "point"
"""The name of a point's own facts in the manifest's `provenance`."""

_NOTHING = Held(Manifest(kind="variables"), {}, {})


class Step:
    """What the cells since the last point changed in a namespace.

    Args:
        before: The last point; None for the first one.
        variables: The user's variables.
        namespace: The namespace that holds them.
        looked_at: The variables to look at.
        origin: The cell and the notebook.
        missed: The number of cells since the last point, apart from this one.
        recipes: The recipes of what no point can hold.
        apart: Arrays that are proven to be as the last point holds them, and that nothing shared then. If a
            variable that is looked at shares one of them now, that one is looked at too.
        named: The names that the cells' own code can have touched, if something else may have changed
            variables too; None if every change counts as the cells'.

    Attributes:
        changed: The names that are new, or whose values or what they share changed. Complete after `finish`.
        removed: The names that are gone.
        beside: Those of both that no cell's code can have touched: a thread changed them, for example.
        recipes: The recipes of the variables that the point cannot hold wholly. Complete after `take`.
        looked_at: The variables to look at.
        captured: What was found in them. Complete after `take`.
        place: The working directory and the environment variables of the step.
    """

    def __init__(
        self,
        before: Held | None,
        variables: Mapping[str, Any],
        namespace: dict[str, Any],
        looked_at: set[str],
        origin: Mapping[str, Any],
        missed: int = 0,
        recipes: Recipes | None = None,
        apart: Mapping[str, Any] = MappingProxyType({}),
        named: Container[str] | None = None,
    ) -> None:
        self._before, self._variables, self._namespace = before or _NOTHING, variables, namespace
        self.looked_at, self._origin, self._missed = looked_at, origin, missed
        self._apart, self._named = apart, named
        self.place = Place()
        self._states: dict[str, Any] = {}
        self._same_states: set[str] = set()
        self._ids = ids_of(variables)
        self.captured = Captured([])
        self._prints: dict[str, Print] = {}
        self._known = recipes or Recipes()
        self._is_again = False
        self.recipes: dict[str, Recipe] = {}
        self.changed: tuple[str, ...] = ()
        self.removed = tuple(sorted(self._before.ids.keys() - variables.keys()))
        self._deleted = deleted_since(self._before.manifest, namespace)
        self.beside: tuple[str, ...] = ()

    def write(self, packer: Packer, reader: Reader) -> Manifest:
        """Write what changed, and return the manifest of the whole namespace; the last one if nothing did.

        A second call writes everything anew: `gc` has deleted what was carried.
        """
        if self._is_again:
            self.looked_at = {*self._variables}
        self.take(packer)
        try:
            return self.finish(packer, reader)
        finally:
            self._is_again = True

    def take(self, packer: Packer) -> bool:
        """Pickle what is looked at. Tell whether the packer's work can show a change.

        The step holds no variable's object from then on, if the packer works later.
        """
        self._look(packer)
        if self.captured.met:
            self.looked_at |= self.captured.met
            self._look(packer)
        if self._has_other_class:  # each instance carries the definition of its class
            self.looked_at = {*self._variables}
            self._look(packer)
        packer.end_looks()
        return self._is_change or not self.captured.is_hashed

    def let_go(self) -> None:
        """Keep no object alive: its end is the user's affair."""
        self._variables, self._namespace, self._apart = {}, {}, {}

    def finish(self, packer: Packer, reader: Reader, progress: Progress | None = None) -> Manifest:
        """Write what was taken; see `write`. Any thread may call it."""
        packer.go()
        packer.settle()
        captured, changed = self.captured, self._compare(packer)
        if not self._is_change:
            return self._before.manifest
        carried = self._carried({*captured.order}, changed)
        taken = _take_inline(carried, packer, reader)
        packer.finish(progress)
        kept = carried.mapped(lambda content: _moved(content, taken, packer))
        new = tuple(value for value in captured.values(packer) if value.name in changed)
        values, groups = _joined(kept, new, captured.groups(packer))
        return replace(
            kept,
            algorithms=packer.algorithms,
            created_at=now(),
            values=values,
            groups=groups,
            skipped=(*carried.skipped, *captured.skipped),
            warnings=(
                *carried.warnings,
                *(text for text in captured.warnings if variable_of(text) in changed),
            ),
            provenance={
                **environment.machine(),
                "packages": environment.packages(),
                "new_bytes": packer.new_bytes,
                **self._origin,
                POINT: self._facts(),
                **facts(self.recipes),
            },
            inline=packer.inline,
        )

    def publish(self, draft: Manifest, history: History) -> Manifest:
        """Publish what `finish` returned, unless nothing changed."""
        is_new = draft is not self._before.manifest
        return history.publish(draft, kind="points")[0] if is_new else draft

    def held(self, made: Manifest) -> Held:
        """Return the namespace as the written manifest holds it."""
        stay = (self._ids.keys() - self.looked_at) | self._same_states
        prints = {name: known for name, known in self._before.prints.items() if name in stay}
        ids = self._ids
        if made is self._before.manifest:
            ids |= dict.fromkeys(self._before.unheld & ids.keys(), UNHELD)
        return Held(made, ids, prints | self._prints, self._states)

    def _look(self, packer: Packer) -> None:
        # Sorted, because the record of variables that share objects depends on their order.
        items = {name: self._variables[name] for name in sorted(self.looked_at)}
        self._read_states()
        items |= {name: state for name, state in self._states.items() if name not in self._same_states}
        apart = {name: value for name, value in self._apart.items() if name not in self.looked_at}
        self.captured = capture(items, self._namespace, packer, terse=environment.NAMES, apart=apart)
        packer.settle()
        self._cook({skipped.name for skipped in self.captured.skipped} | self.captured.omitting)
        self._compare(packer)

    def _read_states(self) -> None:
        """Read the states of libraries. Those that the last point holds are not pickled again."""
        before, self._states = self._before, environment.read_states()
        known = {} if self._is_again else before.states
        same = {name for name, state in self._states.items() if name in known and is_same(known[name], state)}
        self._same_states = same & before.values.keys()

    @property
    def _is_change(self) -> bool:
        return bool(self.changed or self.removed or self._before is _NOTHING)

    @property
    def _has_other_class(self) -> bool:
        """Whether a class changed, or a variable began to hold a part of one."""
        before, new = self._before.prints, self._prints
        joined = (
            name not in before or before[name].mates != new[name].mates for name in self.captured.by_class
        )
        classes = (issubclass(type(self._variables.get(name)), type) for name in before.keys() & self.changed)
        return any(joined) or any(classes)

    def _compare(self, packer: Packer) -> set[str]:
        """Note what differs from the last point. Return the names of the values to write.

        What is not hashed yet counts as a change.
        """
        self._prints = self.captured.prints(packer.algorithms)
        skipped = {skipped.name for skipped in self.captured.skipped}
        before = self._before.prints
        differ = {name for name, new in self._prints.items() if before.get(name) != new}
        written = {*self._prints} if self._is_again else differ
        written = written.union(*(self._prints[name].mates for name in differ))
        own = {name for name in written if _digest(before, name) != self._prints[name].digest}
        if not (own or self.removed):
            own = written  # they share other parts than before
        elif self._named is not None:  # a thread's change must not hide what only shares other parts
            mates = self._before.mates
            own |= {name for name in differ if not own & {*self._prints[name].mates, *mates.get(name, ())}}
        # Nothing tells whether a value that cannot be pickled wholly changed. It counts if a cell named it.
        used = {
            name
            for name in skipped | self.captured.omitting
            if self.recipes[name] != self._known.live.get(name)
        }
        lost = used | (skipped & before.keys())
        self.changed = tuple(sorted(own | lost))
        self.beside = self._not_named()
        # The last point does not hold these. That alone makes no new point, or redo would end after an undo.
        lacking = self._states.keys() - self._before.values.keys()  # it was a checkpoint of some variables
        return written | ((self._before.unheld | lacking) & self._prints.keys())

    def _not_named(self) -> tuple[str, ...]:
        """Return the changed and removed names that share nothing with what the cells' code names."""
        named = self._named
        if named is None:
            return ()
        before, now = self._before.mates, self._prints
        mates = {name: {name, *before.get(name, ())} for name in (*self.changed, *self.removed)}
        for name in mates.keys() & now.keys():
            mates[name] |= now[name].mates
        beside = {name for name in mates if not any(mate in named for mate in mates[name])}
        # What a way left as it was differs from the point before, too.
        return tuple(sorted(beside | ((self._before.unheld & now.keys()) - mates.keys())))

    def _facts(self) -> dict[str, Any]:
        beside = {"beside": [*self.beside]} if self.beside else {}
        return {"changed": [*self.changed], "removed": [*self.removed], "missed": self._missed, **beside}

    def _cook(self, unheld: set[str]) -> None:
        """Note the recipes of the variables that the point cannot hold, or not wholly."""
        ids = self._before.ids
        rebound = {name for name in unheld if ids.get(name) not in (id(self._variables[name]), UNHELD)}
        stay = self._variables.keys() - self.looked_at
        carried = {name: recipe for name, recipe in self._known.live.items() if name in stay}
        self.recipes = carried | self._known.after(unheld, rebound)

    def _carried(self, captured: set[str], changed: set[str]) -> Manifest:
        """Return the part of the last point that did not change."""
        last = self._before.manifest
        stays = (self._ids.keys() - captured) | (self._prints.keys() - changed) | self._same_states
        unseen = stays - self.looked_at
        return Manifest(
            kind="variables",
            parent=last.id,
            values=tuple(value for value in last.values if value.name in stays),
            groups=last.groups,
            skipped=tuple(skipped for skipped in last.skipped if skipped.name in unseen),
            warnings=tuple(text for text in last.warnings if variable_of(text) in stays),
            deleted=self._deleted,
            inline=last.inline,
        )


def _digest(prints: Mapping[str, Print], name: str) -> str:
    return prints[name].digest if name in prints else ""


def _take_inline(carried: Manifest, packer: Packer, reader: Reader) -> dict[Content, Stored]:
    """Hand the carried contents that lie in the last manifest itself to the packer, which lacks them."""
    if not carried.inline:
        return {}
    source = reader.carrying(carried.inline)
    groups = {value.group for value in carried.values}
    parts = [content for at in groups for content in (carried.groups[at].record, *carried.groups[at].roots)]
    parts += [value.picture for value in carried.values if value.picture]
    return {
        content: packer.add_record(source.read(source.sized(content)))
        for content in dict.fromkeys(parts)
        if any(run[0] in carried.inline for run in content.runs)
    }


def _moved(content: Content, taken: Mapping[Content, Stored], packer: Packer) -> Content:
    stored = taken.get(content)
    return content if stored is None else Content(stored.size, tuple(packer.runs(stored)))


def _joined(
    carried: Manifest, new: tuple[Value, ...], new_groups: tuple[Group, ...]
) -> tuple[tuple[Value, ...], tuple[Group, ...]]:
    """Return carried and new values with their groups. Groups without a value are left out."""
    old = sorted({value.group for value in carried.values})
    used = sorted({value.group for value in new})
    place = {group: at for at, group in enumerate(old)}
    place_of_new = {group: len(old) + at for at, group in enumerate(used)}
    kept = tuple(replace(value, group=place[value.group]) for value in carried.values)
    moved = tuple(replace(value, group=place_of_new[value.group]) for value in new)
    return (*kept, *moved), (*(carried.groups[at] for at in old), *(new_groups[at] for at in used))
