"""Binding: what was loaded takes its place, and what it replaces is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nbckpt.core import surroundings
from nbckpt.core.history import Entry, Ref
from nbckpt.core.loading import Failure
from nbckpt.state.snapshot import Snapshot, adopt, held, put_back

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
    """

    what: str
    bindings: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    states: dict[str, Snapshot] = field(default_factory=dict)
    removed: list[tuple[Entry, list[Ref]]] = field(default_factory=list)


def bind(
    bindings: Mapping[str, Any],
    settings: dict[str, Any],
    states: Mapping[str, Snapshot],
    namespace: dict[str, Any],
    what: str,
    failed: list[Failure],
) -> tuple[dict[str, str], Undo]:
    """Put everything in its place, once all of it was loaded; add to *failed* the states that could not be.

    Returns:
        What happened to each name, `new`, `same`, `changed` or `removed`; and how to take it back.
    """
    changes = {name: _change(namespace, name, value) for name, value in bindings.items()}
    before = held(states)
    undo = Undo(what, _swap(namespace, bindings), surroundings.write_states(settings), before)
    adopt(bindings.values())  # of two states of one name the restored variable is the one to load
    reasons = put_back(states)
    failed += [Failure((name,), reason) for name, reason in reasons.items()]
    return changes | {name: "changed" for name in states if name not in reasons}, undo


def _change(namespace: dict[str, Any], name: str, value: Any) -> str:
    """Return what binding a name to a value does to it."""
    if value is GONE:
        return "removed"
    if name not in namespace:
        return "new"
    return "same" if namespace[name] is value else "changed"


def _swap(namespace: dict[str, Any], bindings: Mapping[str, Any]) -> dict[str, Any]:
    """Bind the names, `GONE` meaning none; return what they were bound to."""
    before = {name: namespace.get(name, GONE) for name in bindings}
    for name, value in bindings.items():
        if value is GONE:
            namespace.pop(name, None)
        else:
            namespace[name] = value
    return before
