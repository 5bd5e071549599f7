"""Binding: bind names to other values and keep the former values for undo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbckpt.core.references import Entry, Ref
from nbckpt.state.snapshot import Snapshot

if TYPE_CHECKING:
    from nbckpt.trials.trash import Removal

GONE = object()
"""Marks a name that is not bound."""


@dataclass
class Undo:
    """The data that the last restore or removal replaced.

    Attributes:
        what: The action, as text, such as "restore of 1a2b3c4d".
        bindings: The former values of the names that it bound.
        settings: The former settings of libraries.
        states: The former contents of the live states.
        removed: The checkpoints that it removed, with their names.
        beside: The removed parts of experiments.
    """

    what: str
    bindings: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    states: dict[str, Snapshot] = field(default_factory=dict)
    removed: list[tuple[Entry, list[Ref]]] = field(default_factory=list)
    beside: Removal | None = None

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
