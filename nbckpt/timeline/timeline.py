"""Timeline: the points of one namespace, and the steps between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from nbckpt.core import environment
from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.pools import others_run
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer
from nbckpt.core.references import SHORT
from nbckpt.core.trust import stranger
from nbckpt.core.values.variables import Print, capture
from nbckpt.errors import NotFoundError, UsageError
from nbckpt.timeline.arrival import Arrived, arrive
from nbckpt.timeline.held import Held, ids_of
from nbckpt.timeline.points import changes_of, is_beside
from nbckpt.timeline.recipes import Cell, Recipe, plan, recipes_of
from nbckpt.timeline.recorder import PATIENCE_S, Recorder
from nbckpt.timeline.step import Step
from nbckpt.tracker import Tracker
from nbckpt.tracker.binding import GONE, swap


@dataclass(frozen=True)
class Rerun:
    """The result of running cells again.

    Attributes:
        arrived: The way back to the point, afterwards.
        cells: The cells that ran, in order.
        made: The variables that were made again.
        error: Why the last of the cells failed; empty if none did.
    """

    arrived: Arrived
    cells: tuple[Cell, ...]
    made: tuple[str, ...]
    error: str


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


class Timeline(Recorder):
    """The points of one namespace in one store, and the ways between them; see `Recorder`.

    Attributes:
        is_way_last: Whether no cell ran since the last way.
        ways: The number of ways that were gone.
    """

    def __init__(
        self,
        tracker: Tracker,
        namespace: dict[str, Any],
        hidden: Callable[[], Container[str]],
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        super().__init__(tracker, namespace, hidden, patience_s=patience_s)
        self._reruns = False
        self._ways: list[tuple[str, str]] = []  # where a checkout led, and from where
        self._reader = tracker.read(Manifest())
        self.is_way_last = False
        self.ways = 0

    def unseen(self, saved: Manifest, touched: Container[str]) -> tuple[str, ...]:
        """Return the variables that differ from the last point, by a save, though no code named them.

        Large memory is left out, since the next point looks at it whatever the code names.

        Args:
            saved: A save of the present namespace.
            touched: What code named since the last point.
        """
        if self.here is None:
            return ()
        here, variables = self.here, self._variables()
        looked_at = here.may_differ(variables, {name for name in variables if name in touched})
        small = {name: known for name, known in here.prints.items() if not known.memory}
        digests = {value.name: value.digest for value in saved.values if value.name in small}
        names = digests.keys() & variables.keys() - looked_at
        return tuple(sorted(name for name in names if small[name].digest != digests[name]))

    def _begin(self, origin: Mapping[str, Any]) -> Step | None:
        """Make a point of the present namespace before a way. See docs/decisions/0106."""
        if self._reruns:
            raise UsageError("a cell that runs again because of --rerun cannot go to another point")
        return self.record(origin, named=frozenset() if self.is_way_last or others_run() else None)

    def checkout(self, ref: str, origin: Mapping[str, Any], *, trust: bool = False) -> Arrived:
        """Make the namespace equal to a checkpoint, after a point of the present namespace.

        Raises:
            NotFoundError: There is no such checkpoint.
            UntrustedError: Someone else made it.
        """
        target = self._tracker.manifest(ref)
        self._check_trust(target, ref, trust=trust)
        self._begin(origin)
        former = self._here().id
        arrived = self._go(target)
        self._undone.clear()
        if target.id != former:
            self._ways.append((target.id, former))
        return arrived

    def undo(self, steps: int, origin: Mapping[str, Any]) -> Arrived:
        """Go back by this number of steps: to the point before, or to where a checkout came from.

        Raises:
            UsageError: There are fewer points before.
        """
        step = self._begin(origin)
        undone, target, ways, path = [], self._here(), [*self._ways], Path()
        for _ in range(steps):
            undone.append(target.id)
            target = self._former(target, ways, path, len(undone) - 1)
        self._check_trust(target, target.id[:SHORT], trust=False)
        arrived = self._go(target, path.left())
        self._undone += undone
        self._ways = ways
        beside = step.beside if step else ()
        is_step = step is not None and len(beside) < len(step.changed) + len(step.removed)
        gone_back = tuple(name for name in beside if name not in arrived.left)
        return replace(arrived, unseen=step.changed if step and is_step else (), beside=gone_back)

    def redo(self, steps: int, origin: Mapping[str, Any]) -> Arrived:
        """Go forward again by this number of undone steps.

        Raises:
            UsageError: Fewer were undone since the last change.
        """
        self._begin(origin)
        if not 0 < steps <= len(self._undone):
            raise UsageError(
                f"{len(self._undone)} steps can be redone"
                if self._undone
                else "there is nothing to redo: nothing was undone since the last change of a variable"
            )
        target = self._chain.get(self._undone[-steps]) or self._tracker.manifest(self._undone[-steps])
        ways = self._ways_along([self._here().id, *reversed(self._undone[-steps:])])
        arrived = self._go(target, self._path_between(self._here(), target).left())
        self._ways += ways
        del self._undone[-steps:]
        return arrived

    def rerun(self, arrived: Arrived, run: Callable[[str], str]) -> Rerun:
        """Make variables again that the present point could not hold, by the cells that made them.

        Each cell runs in the state before it, if that point is still kept. Afterwards all other variables are
        as in the present point again. After an error no variable is made again.

        Args:
            arrived: The way that led to the present point.
            run: Runs a cell. Returns its error as text; empty if there is none.
        """
        target, recipes = arrived.manifest, recipes_of(arrived.manifest)
        names, cells = plan((*arrived.unheld, *arrived.missing), recipes)
        former = {name: self._namespace.get(name, GONE) for name in names}
        live, done, error = self._unheld(), list[Cell](), ""
        self._removed |= live
        self._reruns = True
        try:
            for cell in cells:
                self._return_to(cell.before)
                done.append(cell)
                error = run(cell.source)
                self.here = self._looked_again()
                if error:
                    break
        finally:
            self._reruns = False
            is_made = len(done) == len(cells) and not error
            if not is_made:
                swap(self._namespace, former)
            stay = {name: recipe for (name, recipe), value in live.items() if self._is(name, value)}
            self.recipes.settle(stay | {name: recipes[name] for name in names if is_made})
            arrived = self._go(target)
        return Rerun(arrived, tuple(done), tuple(sorted(names)) if is_made else (), error)

    def _return_to(self, point: str) -> None:
        """Go to a point if it is still kept and is not here."""
        before = self._chain.get(point)
        if before is not None and before.id != self._here().id and self.history.trusted(before):
            self._go(before)

    def _looked_again(self) -> Held:
        """Return the namespace as it is after code that no point follows."""
        variables, here = self._variables(), self._held()
        prints = self._prints(variables | environment.read_states())
        equal = tuple(value for value in here.manifest.values if _is_equal(value.name, prints, here))
        return Held(replace(here.manifest, values=equal), ids_of(variables), prints)

    def _go(self, target: Manifest, left: Collection[str] = ()) -> Arrived:
        """Make the namespace equal to a checkpoint. Keep the objects that no point holds, for a way back."""
        namespace, recipes, live = self._namespace, recipes_of(target), self._unheld()
        objects = self._removed | live
        kept = {name: objects[name, recipe] for name, recipe in recipes.items() if (name, recipe) in objects}
        for name in self._prints(kept):  # a point can hold it now, for example since its class went back
            del kept[name]
        arrived = arrive(
            target, self._held(), self._read, self._prints, namespace, self._variables(), kept, left
        )
        self.here, self._removed = arrived.held, objects
        self.is_way_last, self.ways = True, self.ways + 1
        self._count_from_here(arrived.changes)
        self._chain.keep(target)
        stay = {name: recipe for (name, recipe), value in live.items() if self._is(name, value)}
        stay = {name: recipe for name, recipe in stay.items() if name not in arrived.held.prints}
        self.recipes.settle(stay | {name: recipes[name] for name in kept})
        self._tracker.before = target
        return replace(arrived, places=self._places.go_back(target.id))

    def _read(self, manifest: Manifest) -> Reader:
        """Return a reader for the bytes of a checkpoint, which knows the indexes that were read before."""
        return self._reader.carrying(manifest.inline)

    def _unheld(self) -> dict[tuple[str, Recipe], Any]:
        """Return the bound objects that no point holds, each by its variable and its recipe."""
        live, bound = self.recipes.live, self._namespace
        return {(name, recipe): bound[name] for name, recipe in live.items() if name in bound}

    def _is(self, name: str, value: Any) -> bool:
        return self._namespace.get(name, GONE) is value

    def _prints(self, values: Mapping[str, Any]) -> dict[str, Print]:
        if not values:
            return {}
        history = self.history
        with Packer(history.store, self._known, algorithms=history.algorithms, dry=True) as packer:
            captured = capture(dict(sorted(values.items())), self._namespace, packer, previews=False)
            packer.settle()
            return captured.prints(packer.algorithms)

    def _held(self) -> Held:
        assert self.here is not None  # `record` made a point
        return self.here

    def _here(self) -> Manifest:
        return self._held().manifest

    def _former(
        self, present: Manifest, ways: list[tuple[str, str]], path: Path, passed: int = 0
    ) -> Manifest:
        """Return the point before the last step to *present*, and add the points of the step to *path*.

        That is where the last checkout came from, which is taken off, or else the parent. What changed
        without a cell is part of the step before.
        """
        parent: Manifest | None = present
        while parent is not None and is_beside(parent) and not (ways and ways[-1][0] == parent.id):
            path.add(parent)
            present, parent = parent, self._chain.get(parent.parent)
        present = parent or present
        came_from = ways.pop()[1] if ways and ways[-1][0] == present.id else ""
        former = came_from and self._chain.get(came_from)
        if former:
            path.join(self._path_between(former, present))
        path.add(present)
        former = former or self._chain.get(present.parent if parent is not None else "")
        if former is None:
            was = f"{passed} steps back is" if passed else "this is"
            raise UsageError(f"there is nothing to undo: {was} the first point that is kept")
        return former

    def _ways_along(self, ids: list[str]) -> list[tuple[str, str]]:
        """Return the steps between these points that lead to a point from another one than undo goes to."""
        steps = [(self._chain.get(later), former) for former, later in pairwise(ids)]
        return [(later.id, former) for later, former in steps if later and self._step_to(later) != former]

    def _step_to(self, later: Manifest) -> str:
        """Return the id of the point before the step that leads to this one from its parents."""
        point: Manifest | None = later
        while point is not None and is_beside(point):
            point = self._chain.get(point.parent)
        return point.parent if point is not None else ""

    def _path_between(self, base: Manifest, point: Manifest) -> Path:
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

    def needed(self) -> set[str]:
        """See `Recorder.needed`. Where checkouts came from stays too."""
        return super().needed().union(former for _, former in self._ways)

    def _check_trust(self, target: Manifest, ref: str, *, trust: bool) -> None:
        history = self.history
        if not (trust or history.trusted(target)):
            raise stranger(target, ref, str(history.check_format().get("key", "")))
        if target.kind != "variables":
            raise NotFoundError(f"{ref} holds no variables of a notebook, so no namespace can equal it")


def _is_equal(name: str, prints: Mapping[str, Print], here: Held) -> bool:
    return name in prints and prints[name] == here.prints.get(name)
