"""Scope: which variables the next point looks at. See docs/decisions/0103."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from nbckpt.core.memory.pages import LEAST
from nbckpt.core.values.sizes import is_below
from nbckpt.timeline.held import Held
from nbckpt.timeline.memory import Glance, Watch


class Scope:
    """Tells which variables the next point looks at.

    These are what code can have touched or has bound anew, and large memory that may have been written. What
    was looked at once is looked at again until a point holds it, also after an error or an interrupt.
    """

    def __init__(self) -> None:
        self._watch = Watch()
        self._unsaved: set[str] = set()  # looked at since the last point

    def next(
        self, here: Held | None, variables: Mapping[str, Any], touched: Container[str] | None
    ) -> tuple[set[str], dict[str, Any]]:
        """Return the variables to look at, and the arrays that need no look; see `proven`.

        Args:
            here: The namespace as the last point holds it; None before the first point.
            variables: The user's variables now.
            touched: The names that code can have touched; None for every variable.
        """
        if here is None:
            return {*variables}, {}
        glance = self._watch.look(variables, here.prints)
        first = {name for name in variables if touched is None or name in touched}
        looked_at = here.may_differ(variables, first | glance.written | self._unsaved)
        apart = self._alone(here, glance)
        self._unsaved = looked_at = looked_at - apart.keys()
        self._watch.keep(glance)  # last: after an interrupt, too, `_unsaved` names all that it found
        return looked_at, apart

    def proven(self, here: Held, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays that are proven to be as the last point holds them, and that share nothing."""
        return self._alone(here, self._watch.look(variables, here.prints))

    def _alone(self, here: Held, glance: Glance) -> dict[str, Any]:
        return here.alone({name: glance.proven[name] for name in glance.proven.keys() - self._unsaved})

    def settle(self) -> None:
        """Look at nothing again that was looked at: a point holds it."""
        self._unsaved = set()

    def count_from(self, here: Held, changed: Mapping[str, Any]) -> None:
        """Let the next look pass over the large memory of these variables: *here* has it as it is now."""
        self._watch.keep(self._watch.look(changed, here.prints), changed)


def small(here: Held | None, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables that a point can hold at once: they and what they share objects with are small.

    Args:
        here: The namespace as the last point holds it; None before the first point.
        variables: The user's variables now.
    """
    prints, mates = (here.prints, here.mates) if here else ({}, {})
    large = {
        name
        for name, value in variables.items()
        if (name in prints and prints[name].memory) or not is_below(LEAST, value)
    }
    large = large.union(*(mates.get(name, ()) for name in large))
    return {name: value for name, value in variables.items() if name not in large}
