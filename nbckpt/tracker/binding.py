"""Binding: names get other values, and what they had is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbckpt.core.history import Entry, Ref
from nbckpt.state.snapshot import Snapshot

if TYPE_CHECKING:
    from nbckpt.trials.trash import Removal

GONE = object()
"""Stands for the value of a name that is not bound."""


@dataclass
class Undo:
    """What the last restore or removal replaced.

    Attributes:
        what: What it was, in words.
        bindings: The former values of the names that it bound.
        settings: The former settings of libraries.
        states: What the live states were.
        removed: The checkpoints that it took away, with their names.
        beside: What it took away of experiments.
    """

    what: str
    bindings: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    states: dict[str, Snapshot] = field(default_factory=dict)
    removed: list[tuple[Entry, list[Ref]]] = field(default_factory=list)
    beside: Removal | None = None

    @property
    def is_removal(self) -> bool:
        """Whether it was a removal."""
        return bool(self.removed or self.beside)


def change(namespace: dict[str, Any], name: str, value: Any) -> str:
    """Return what binding a name to a value does to it."""
    if value is GONE:
        return "removed"
    if name not in namespace:
        return "new"
    return "same" if namespace[name] is value else "changed"


def swap(namespace: dict[str, Any], bindings: Mapping[str, Any]) -> dict[str, Any]:
    """Bind the names, `GONE` meaning none; return what they were bound to."""
    before = {name: namespace.get(name, GONE) for name in bindings}
    for name, value in bindings.items():
        if value is GONE:
            namespace.pop(name, None)
        else:
            namespace[name] = value
    return before
