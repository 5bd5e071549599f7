"""Timeline: the points of one namespace, and the steps between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from nbckpt.core import environment
from nbckpt.core.interrupts import uninterrupted
from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.pools import others_run
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer
from nbckpt.core.references import SHORT
from nbckpt.core.trust import stranger
from nbckpt.core.values.variables import Captured, Print, capture
from nbckpt.errors import NotFoundError, UsageError
from nbckpt.timeline.arrival import Arrived, Unheld, arrive
from nbckpt.timeline.held import Held, ids_of
from nbckpt.timeline.points import Point
from nbckpt.timeline.recipes import Cell, Recipe, plan, recipes_of
from nbckpt.timeline.recorder import PATIENCE_S, Recorder
from nbckpt.timeline.step import Step
from nbckpt.timeline.ways import Path, Undone, Way, Ways
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


class Timeline(Recorder):
    """The points of one namespace in one store, and the ways between them; see `Recorder`.

    Attributes:
        is_way_last: Whether no cell ended since the last way.
        running: The names that the running cell can have touched since then.
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
        self._ways = Ways(self._chain)
        self._reader = tracker.read(Manifest())
        self.is_way_last = False
        self.running: frozenset[str] = frozenset()
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
        return self.record(origin, named=self.running if self.is_way_last or others_run() else None)

    def checkout(self, ref: str, origin: Mapping[str, Any], *, trust: bool = False) -> Arrived:
        """Make the namespace equal to a checkpoint, after a point of the present namespace.

        What that point could not hold stays bound, since nothing could bring it back later.

        Raises:
            NotFoundError: There is no such checkpoint.
            UntrustedError: Someone else made it.
        """
        target = self._tracker.manifest(ref)
        self._check_trust(target, ref, trust=trust)
        self._begin(origin)
        former = self._here().id

        def note(arrived: Arrived) -> None:
            self._undone.clear()
            if target.id != former:
                self._ways.taken.append(Way(target.id, former, arrived.alive))

        return self._go(target, alive=self._never_held(), note=note)

    def undo(self, steps: int, origin: Mapping[str, Any]) -> Arrived:
        """Go back by this number of steps: to the point before, or to where a checkout came from.

        Raises:
            UsageError: There are fewer points before, or the number is less than 1.
        """
        if steps < 1:
            raise UsageError(f"{steps} steps cannot be undone: give a number from 1")
        step = self._begin(origin)
        undone, target, ways, path, missed = list[Undone](), self._here(), [*self._ways.taken], Path(), 0
        for _ in range(steps):
            present, taken = target, [*ways]
            missed += Point.of(present).missed
            target = self._ways.former(present, ways, path, len(undone))
            undone.append(Undone(present.id, taken[-1] if len(ways) < len(taken) else None))
        self._check_trust(target, target.id[:SHORT], trust=False)

        def note(_: Arrived) -> None:
            self._ways.taken = ways
            self._undone += undone

        arrived = self._go(target, path.left(), ways[-1].alive if ways else (), note)
        beside = step.beside if step else ()
        is_step = step is not None and len(beside) < len(step.changed) + len(step.removed)
        gone_back = tuple(name for name in beside if name not in arrived.left)
        unseen = step.changed if step and is_step else ()
        return replace(arrived, unseen=unseen, beside=gone_back, missed=missed)

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
        undone = self._undone[-steps:]
        target = self._chain.get(undone[0].to) or self._tracker.manifest(undone[0].to)
        known = [step.checkout for step in undone]
        ways = self._ways.along(self._here().id, reversed(undone))
        alive: Collection[str] = ways[-1].alive if ways else self._ways.alive
        if ways and ways[-1] not in known:
            alive = self._never_held()
        left = self._ways.between(self._here(), target).left()

        def note(arrived: Arrived) -> None:
            self._ways.taken += [way if way in known else replace(way, alive=arrived.alive) for way in ways]
            del self._undone[-steps:]

        return self._go(target, left, alive, note)

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
            arrived = self._go(target, alive=arrived.alive)
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

    def _go(
        self,
        target: Manifest,
        left: Collection[str] = (),
        alive: Collection[str] = (),
        note: Callable[[Arrived], object] = lambda _: None,
    ) -> Arrived:
        """Make the namespace equal to a checkpoint. Keep the objects that no point holds, for a way back.

        Args:
            target: The checkpoint.
            left: See `arrive`.
            alive: Variables that stay if no checkpoint can hold them, though this one tells nothing of them.
            note: Called when the namespace has changed. An interrupt comes before all of this or after it.
        """
        namespace, live = self._namespace, self._unheld()
        partly = self._partly(self._here()) | self._partly(target)
        recipes = dict.fromkeys(partly & {value.name for value in target.values}, ()) | recipes_of(target)
        objects = self._removed | live
        known = *objects.items(), *live.items()  # last those that are bound, which count most
        kept = {name: value for (name, _), value in known if name in alive and name not in recipes}
        kept |= {name: objects[name, recipe] for name, recipe in recipes.items() if (name, recipe) in objects}
        for name in self._holdable(kept):  # for example since its class went back
            del kept[name]
        with ExitStack() as changing:
            arrived = arrive(
                target,
                self._held(),
                self._read,
                self._prints,
                namespace,
                self._variables(),
                Unheld(kept, recipes.keys() - kept.keys(), kept.keys() - recipes.keys()),
                left,
                cache(lambda: changing.enter_context(uninterrupted())),
                self._fingerprints.of(target.id),
            )
            self._fingerprints.keep(arrived.held)
            self.here, self._removed = arrived.held, objects
            self.is_way_last, self.ways = True, self.ways + 1
            self._count_from_here(arrived.changes)
            self._chain.keep(target)
            holdable = arrived.held.prints.keys() - partly
            stay = {name: recipe for (name, recipe), value in known if self._is(name, value)}
            stay = {name: recipe for name, recipe in stay.items() if name not in holdable}
            loaded = recipes.keys() & (kept.keys() | (arrived.changes.keys() & partly))
            self.recipes.settle(stay | {name: recipes[name] for name in loaded if name in namespace})
            self._tracker.before = target
            note(arrived)
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

    def _never_held(self) -> set[str]:
        """Return the variables of which the present point holds nothing."""
        return self.recipes.live.keys() - self._held().values.keys()

    @staticmethod
    def _partly(point: Manifest) -> set[str]:
        """Return the variables whose values a checkpoint holds, but not wholly."""
        return recipes_of(point).keys() & {value.name for value in point.values}

    def _holdable(self, values: Mapping[str, Any]) -> set[str]:
        """Return the names of the values that a checkpoint can hold wholly."""
        prints, captured = self._look_at(values)
        return prints.keys() - captured.omitting

    def _prints(self, values: Mapping[str, Any]) -> dict[str, Print]:
        return self._look_at(values)[0]

    def _look_at(self, values: Mapping[str, Any]) -> tuple[dict[str, Print], Captured]:
        if not values:
            return {}, Captured([])
        history = self.history
        with Packer(history.store, self._known, algorithms=history.algorithms, dry=True) as packer:
            captured = capture(dict(sorted(values.items())), self._namespace, packer, previews=False)
            packer.settle()
            return captured.prints(packer.algorithms), captured

    def _held(self) -> Held:
        assert self.here is not None  # `record` made a point
        return self.here

    def _here(self) -> Manifest:
        return self._held().manifest

    def needed(self) -> set[str]:
        """See `Recorder.needed`. Where checkouts came from stays too."""
        return super().needed().union(way.came_from for way in self._ways.taken)

    def _check_trust(self, target: Manifest, ref: str, *, trust: bool) -> None:
        history = self.history
        if not (trust or history.trusted(target)):
            raise stranger(target, ref, str(history.check_format().get("key", "")))
        if target.kind != "variables":
            raise NotFoundError(f"{ref} holds no variables of a notebook, so no namespace can equal it")


def _is_equal(name: str, prints: Mapping[str, Print], here: Held) -> bool:
    return name in prints and prints[name] == here.prints.get(name)
