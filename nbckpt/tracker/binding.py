"""Binding: bind names to other values and keep the former values for undo."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbckpt.core import environment
from nbckpt.core.finalizers import keep_alive
from nbckpt.core.history import History
from nbckpt.core.manifest import now
from nbckpt.core.references import SHORT, Entry, Ref
from nbckpt.core.removals import last_removal, note
from nbckpt.core.trash import bring_back, remove
from nbckpt.core.values.loading import Failure
from nbckpt.errors import UsageError
from nbckpt.render import listed
from nbckpt.states.snapshot import Snapshot, adopt, held, is_state, put_back

if TYPE_CHECKING:
    from nbckpt.trials import trash

GONE = object()
"""Marks a name that is not bound."""


@dataclass
class Undo:
    """The data that the last restore or removal replaced.

    Attributes:
        action: The action, as text, such as "restore of 1a2b3c4d".
        bindings: The former values of the names that it bound.
        settings: The former settings of libraries.
        states: The former contents of the live states.
        removed: The checkpoints that it removed, with their names.
        beside: The removed parts of experiments.
        at: When it began, as `Manifest.created_at`.
    """

    action: str
    bindings: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    states: dict[str, Snapshot] = field(default_factory=dict)
    removed: list[tuple[Entry, list[Ref]]] = field(default_factory=list)
    beside: trash.Removal | None = None
    at: str = field(default_factory=now)

    @property
    def is_removal(self) -> bool:
        """Whether the action was a removal."""
        return bool(self.removed or self.beside)


def change(namespace: dict[str, Any], name: str, value: Any) -> str:
    """Return the change of a name by binding it to *value*: `new`, `same`, `changed` or `removed`."""
    if value is GONE:
        return "removed"
    if name not in namespace:
        return "new"
    return "same" if namespace[name] is value else "changed"


def swap(namespace: dict[str, Any], bindings: Mapping[str, Any]) -> dict[str, Any]:
    """Bind the names; `GONE` unbinds a name. Return the former bindings."""
    before = {name: namespace.get(name, GONE) for name in bindings}
    for name, value in bindings.items():
        if value is GONE:
            namespace.pop(name, None)
        else:
            namespace[name] = value
    return before


class Binder:
    """Bind names and load states, and keep the replaced data for `undo`.

    Attributes:
        last: The last restore or removal; None if there is nothing to undo.
    """

    def __init__(self) -> None:
        self.last: Undo | None = None

    def bind(
        self,
        values: Mapping[str, Any],
        settings: dict[str, Any],
        namespace: dict[str, Any],
        action: str,
        failed: list[Failure],
    ) -> dict[str, str]:
        """Bind variables and load states and settings of libraries, after all of them are loaded.

        Settings can also be among the values, under their names.

        Return the change of each name. Add the states and settings that were not loaded to *failed*.
        """
        states = {name: value for name, value in values.items() if is_state(name)}
        settings = settings | {name: values[name] for name in environment.NAMES & values.keys()}
        bindings = {name: values[name] for name in values if name not in states and name not in settings}
        changes = {name: change(namespace, name, value) for name, value in bindings.items()}
        before = held(states)
        former, reasons = environment.write_states(settings)
        if self.last is not None:
            keep_alive(self.last.bindings.values())  # nobody but the user may end what they own
        # Before the states are loaded: after an interrupt of that load, undo still reverts the bindings.
        self.last = Undo(action, swap(namespace, bindings), former, before)
        adopt(bindings.values())  # if two states have one name, load the one in the restored variable
        reasons |= put_back(states)
        failed += [Failure((name,), reason) for name, reason in reasons.items()]
        return changes | {name: "changed" for name in states if name not in reasons}

    def undo(self, history: History, namespace: dict[str, Any]) -> tuple[str, list[str]]:
        """Revert the last action; see `Tracker.undo`."""
        last = self.last
        if last is None:
            removal = last_removal(history)
            if removal is None:
                nothing = "nothing was restored here, and the trash is empty"
                way = (
                    "Cells of a notebook are undone while %ckpt auto is on; %ckpt history has earlier states"
                )
                raise UsageError(f"there is nothing to undo: {nothing}. {way}")
            removal.bring_back(history)
            return str(removal), []
        if not last.is_removal:
            values = {**last.bindings, **last.states}
            self.bind(values, last.settings, namespace, last.action, [])
            return last.action, sorted(values)
        if last.beside:
            last.beside.bring_back()  # first: it succeeds or fails as a whole
        for entry, refs in last.removed:
            bring_back(history, entry, refs)
        self.last = None
        return last.action, []

    def remove(
        self, history: History, entries: Collection[Entry], beside: Callable[[], trash.Removal] | None
    ) -> list[tuple[Entry, list[Ref]]]:
        """Remove checkpoints; see `Tracker.remove`. After a failure, undo reverts what was removed."""
        undo = Undo("removal of no checkpoint")
        if beside is not None:
            undo.beside = beside()
            undo.action = f"removal of {listed(undo.beside.labels)}"
            self.last = undo
        if entries:
            note(history.store, entries)
        for entry in entries:
            undo.removed.append((entry, remove(history, entry)))
            ids = dict.fromkeys(entry.id[:SHORT] for entry, _ in undo.removed)
            undo.action = f"removal of {listed([*ids, *(undo.beside.labels if undo.beside else ())])}"
            self.last = undo
        return undo.removed
