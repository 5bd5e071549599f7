"""Held: the namespace as a checkpoint holds it. The next point looks only at what may differ from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nbckpt.core.manifest import Manifest, Value
from nbckpt.core.values.variables import Print

UNHELD = 0
"""The identity, in `Held.ids`, of a variable whose object the checkpoint does not hold. No object has it."""


_MOST_POINTS = 32


class Fingerprints:
    """The fingerprints of the newest points, which tell what objects they were made of.

    They mean nothing in another process. Only one thread at a time may use it.
    """

    def __init__(self) -> None:
        self._of_points: dict[str, Mapping[str, Print]] = {}

    def keep(self, held: Held) -> None:
        """Remember the fingerprints of a point that the namespace equals."""
        self._of_points.pop(held.manifest.id, None)
        self._of_points[held.manifest.id] = held.prints
        if len(self._of_points) > _MOST_POINTS:
            del self._of_points[next(iter(self._of_points))]

    def of(self, point: str) -> Mapping[str, Print]:
        """Return the fingerprints of a point; none if they are not known."""
        return self._of_points.get(point, {})


@dataclass(frozen=True)
class Held:
    """The namespace at one moment.

    Attributes:
        manifest: A checkpoint that holds it.
        ids: The identity of each variable's object. An object that was freed since may have lent its identity
            to another one, so equal identities only count beside what the cell's code names.
        prints: The fingerprint of each value as its object gives it now. A restored object may be pickled in
            other bytes than the object that was saved, so these need not be those of the manifest.
        states: The states of libraries that the fingerprints under their names belong to.
    """

    manifest: Manifest
    ids: Mapping[str, int]
    prints: Mapping[str, Print]
    states: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def values(self) -> dict[str, Value]:
        """The values by name."""
        return {value.name: value for value in self.manifest.values}

    @cached_property
    def mates(self) -> dict[str, frozenset[str]]:
        """For each value, the names that share objects with it, its own included."""
        return mates_of(self.manifest)

    @property
    def unheld(self) -> set[str]:
        """The variables that are bound to what the checkpoint does not hold."""
        return {name for name, identity in self.ids.items() if identity == UNHELD}

    def may_differ(self, variables: Mapping[str, Any], touched: Iterable[str]) -> set[str]:
        """Return the variables to look at: touched or rebound, or sharing objects with such a variable."""
        rebound = {name for name, value in variables.items() if self.ids.get(name) != id(value)}
        first = rebound | set(touched) | (self.ids.keys() - variables.keys())
        alone: frozenset[str] = frozenset()
        every = first.union(*(self.mates.get(name, alone) for name in first))
        return every & variables.keys()

    def alone(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of these variables that are bound to the same objects and share nothing."""
        return {
            name: value
            for name, value in values.items()
            if self.ids.get(name) == id(value) and self.mates.get(name) == frozenset({name})
        }


def mates_of(manifest: Manifest) -> dict[str, frozenset[str]]:
    """Return for each value the names that share objects with it, its own included."""
    members: dict[tuple[int, str], list[str]] = {}
    for value in manifest.values:
        alone = value.name if manifest.groups[value.group].separate else ""
        members.setdefault((value.group, alone), []).append(value.name)
    return {name: frozenset(names) for names in members.values() for name in names}


def ids_of(variables: Mapping[str, Any]) -> dict[str, int]:
    """Return the identity of each variable's object."""
    return {name: id(value) for name, value in variables.items()}
