"""Ways: from one point to another, and the points between that `undo` and `redo` pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.pools import others_run
from nbckpt.errors import UsageError
from nbckpt.timeline.chain import Chain
from nbckpt.timeline.points import changes_of, is_beside


@dataclass(frozen=True)
class Way:
    """A checkout.

    Attributes:
        to: The id of the point that it led to.
        came_from: The id of the point that it came from.
        alive: The variables that stayed, because no point can hold them.
    """

    to: str
    came_from: str
    alive: tuple[str, ...] = ()


@dataclass(frozen=True)
class Undone:
    """A step that undo took back.

    Attributes:
        to: The id of the point that it had led to.
        checkout: The way, if it was a checkout. One can also lead to a child, as the step of a cell does.
    """

    to: str
    checkout: Way | None = None


_MOST_POINTS = 50
"""The most points to look at on one branch. Beyond that, the changes between two points are not known."""


class Path:
    """The points that a step passes.

    Attributes:
        is_known: Whether the changes between the points are known: no point is another branch's.
    """

    def __init__(self) -> None:
        self.is_known = True
        self._cells: set[str] = set()
        self._beside: set[str] = set()

    def add(self, point: Manifest) -> None:
        """Add the changes of a point."""
        cells, beside = changes_of(point)
        self._cells |= cells
        self._beside |= beside

    def join(self, other: Path) -> None:
        """Add the points of another path."""
        self.is_known = self.is_known and other.is_known
        self._cells |= other._cells
        self._beside |= other._beside

    def left(self) -> set[str]:
        """Return what stays as it is: what changed without a cell, while a thread runs that may go on."""
        return self._beside - self._cells if self.is_known and others_run() else set()


class Ways:
    """The ways between the points of a branch, and the checkouts that led to other branches.

    Args:
        chain: The points by their ids.

    Attributes:
        taken: The checkouts that undo goes back along.
    """

    def __init__(self, chain: Chain) -> None:
        self.taken: list[Way] = []
        self._chain = chain

    @property
    def alive(self) -> tuple[str, ...]:
        """The variables that stayed at the last checkout, because no point can hold them."""
        return self.taken[-1].alive if self.taken else ()

    def former(self, present: Manifest, ways: list[Way], path: Path, passed: int = 0) -> Manifest:
        """Return the point before the last step to *present*, and add the points of the step to *path*.

        That is where the last checkout came from, which is taken off, or else the parent. What changed
        without a cell is part of the step before.
        """
        parent: Manifest | None = present
        while parent is not None and is_beside(parent) and not (ways and ways[-1].to == parent.id):
            path.add(parent)
            present, parent = parent, self._chain.get(parent.parent)
        present = parent or present
        came_from = ways.pop().came_from if ways and ways[-1].to == present.id else ""
        former = came_from and self._chain.get(came_from)
        if former:
            path.join(self.between(former, present))
        path.add(present)
        former = former or self._chain.get(present.parent if parent is not None else "")
        if former is None:
            was = f"{passed} steps back is" if passed else "this is"
            raise UsageError(f"there is nothing to undo: {was} the first point that is kept")
        return former

    def along(self, here: str, undone: Iterable[Undone]) -> list[Way]:
        """Return the ways among redone steps: checkouts, and steps from another point than the parent.

        Args:
            here: The id of the point that they begin at.
            undone: The steps, in the order in which they are redone.
        """
        ways, former = list[Way](), here
        for step in undone:
            later = self._chain.get(step.to)
            if step.checkout and step.checkout.came_from == former:
                ways.append(step.checkout)
            elif later and (step.checkout or self._step_to(later) != former):
                ways.append(Way(step.to, former))
            former = step.to
        return ways

    def _step_to(self, later: Manifest) -> str:
        """Return the id of the point before the step that leads to this one from its parents."""
        point: Manifest | None = later
        while point is not None and is_beside(point):
            point = self._chain.get(point.parent)
        return point.parent if point is not None else ""

    def between(self, base: Manifest, point: Manifest) -> Path:
        """Return the points between one point and a later one of the same branch."""
        path = Path()
        while is_beside(base) and (parent := self._chain.get(base.parent)):
            path.add(base)
            base = parent
        for _ in range(_MOST_POINTS):
            if point.id == base.id:
                return path
            path.add(point)
            former = self._chain.get(point.parent)
            if former is None:
                break
            point = former
        path.is_known = False
        return path
