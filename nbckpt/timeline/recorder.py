"""Recorder: makes the points of a namespace, at once or in the background. See docs/decisions/0099."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from nbckpt.cells.analysis import Touched
from nbckpt.core.history import VanishedError
from nbckpt.core.manifest import Manifest
from nbckpt.core.memory.pages import page_record
from nbckpt.core.packs.known import Known
from nbckpt.core.packs.later import MOST_COPIED, KeptMemory, Later
from nbckpt.core.packs.pools import others_run
from nbckpt.core.packs.quick import QuickDigests
from nbckpt.core.packs.reader import Reader
from nbckpt.core.packs.writer import Packer
from nbckpt.core.references import Entry
from nbckpt.core.selection import Selection
from nbckpt.core.transfer import refresh, save, save_once
from nbckpt.core.trash import discard
from nbckpt.errors import NbckptError
from nbckpt.timeline.chain import Chain
from nbckpt.timeline.held import Fingerprints, Held
from nbckpt.timeline.pending import DroppedError, Pending
from nbckpt.timeline.places import Places
from nbckpt.timeline.points import is_beside
from nbckpt.timeline.recipes import Recipe, Recipes
from nbckpt.timeline.scope import Scope, small
from nbckpt.timeline.step import Step
from nbckpt.timeline.ways import Undone
from nbckpt.tracker import Tracker

_BEFORE_A_CELL_S = 0.02
PATIENCE_S = 2.0


class Recorder:
    """Makes the points of one namespace in one store. Only one thread at a time may use it.

    Args:
        tracker: The tracker of the store.
        namespace: The namespace.
        hidden: Returns the names in it that are not the user's variables.
        patience_s: How many seconds to wait for a point that is being shown, before it is left alone.

    Attributes:
        here: The namespace as the last point holds it; None before the first point.
        history: The checkpoints of the store.
        kernel: A random id. It tells this kernel's points from those of another kernel of the notebook.
        notebook: The notebook's path; empty if it is not known.
        recipes: The cells that made what no point can hold.
        is_busy: Whether the caller's thread makes a point just now.
        pending: The point on its way into the store; None if there is none.
        trouble: Why the last point in the background was not made; None if it was.
    """

    def __init__(
        self,
        tracker: Tracker,
        namespace: dict[str, Any],
        hidden: Callable[[], Container[str]],
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.here: Held | None = None
        self.history = tracker.history
        self.kernel, self.notebook = secrets.token_hex(8), tracker.settings.notebook or ""
        self._tracker, self._namespace, self._hidden = tracker, namespace, hidden
        self._patience_s = patience_s
        self._known = Known(tracker.store)
        self._copies, self._digests = KeptMemory(), QuickDigests()
        self.recipes = Recipes()
        self.is_busy = False
        self.trouble: Exception | None = None
        self.pending: Pending | None = None
        self._undone: list[Undone] = []
        self._removed: dict[tuple[str, Recipe], Any] = {}
        self._scope = Scope()
        self._chain = Chain(self.history)
        self._places = Places()
        self._fingerprints = Fingerprints()

    def note(self, origin: Mapping[str, Any], touched: Touched) -> None:
        """Note a cell that ran, before the point that holds its changes."""
        self.recipes.note(origin, touched, self.here.manifest.id if self.here else "")

    def record(
        self,
        origin: Mapping[str, Any],
        touched: Container[str] | None = None,
        *,
        missed: int = 0,
        named: Container[str] | None = None,
    ) -> Step | None:
        """Make a point of the namespace, a child of the last one. Return None if nothing changed.

        After the return the point survives a crash of the machine. After an exception there is no new point,
        and the next one takes this cell's changes too.

        Args:
            origin: The cell and the notebook.
            touched: The names that the cell's code can have touched; None for every variable.
            missed: The number of cells since the last point, apart from this one.
            named: See `Step`.
        """
        self.settle()
        step = self._step(origin, touched, missed, named)
        made = self._publish(step) if self._is_first else self._write(step)
        return step if self._take_over(step, made) else None

    def begin(
        self,
        origin: Mapping[str, Any],
        touched: Container[str] | None = None,
        *,
        missed: int = 0,
        named: Container[str] | None = None,
        then: Callable[[Manifest], object] = lambda _: None,
    ) -> None:
        """Make a point as `record` does, but write it in the background; see docs/decisions/0099.

        The point holds the state at the return, or names what changed since. `settle` tells how it ended.

        Args:
            origin: The cell and the notebook.
            touched: The names that the cell's code can have touched; None for every variable.
            missed: The number of cells since the last point, apart from this one.
            named: See `Step`.
            then: Called in the background once the point is there, with it; also if it is the last one.
                `settle` does not wait for this.
        """
        self.settle()
        if self._is_first:
            self.record(origin, touched, missed=missed, named=named)
            return
        step = self._step(origin, touched, missed, named)
        packer = self._taken(step, self._room(step))
        if packer is None:
            self._take_over(step, self._present())
            return
        step.let_go()
        work = partial(self._work, step, packer, self._known, self._tracker.read(Manifest()))
        self.pending = Pending(step, work, lends=packer.lends, then=then)

    @property
    def _is_first(self) -> bool:
        """Whether the next point holds everything itself: it is the first, or gc took what it would share."""
        return self.here is None or isinstance(self.trouble, VanishedError)

    def _present(self) -> Manifest:
        assert self.here is not None  # there is a first point
        return self.here.manifest

    def _taken(self, step: Step, room: int | None = None) -> Packer | None:
        """Return a packer with what a step took, and copies in *room* bytes; None if nothing changed."""
        history = self.history
        later, algorithms = Later(room, self._copies), history.algorithms
        digest = self._digests.of(algorithms)
        packer = Packer(history.store, self._known, algorithms=algorithms, later=later, digest=digest)
        was_busy, self.is_busy = self.is_busy, True
        try:
            if step.take(packer):
                return packer
        except BaseException:
            with packer:
                raise
        finally:
            self.is_busy = was_busy
        with packer:
            return None

    def _room(self, step: Step) -> int | None:
        """Return the room for copies, None for the usual one. A point that must lend memory copies none.

        Without Linux's record all large memory is looked at, also what no cell touched.
        """
        prints = self.here.prints if self.here is not None and page_record().why_off else {}
        looked_at = prints.keys() & step.looked_at
        size = sum(size for name in looked_at for _, size in prints[name].memory)
        return 0 if size > MOST_COPIED else None

    def _write(self, step: Step) -> Manifest:
        """Write and publish a point now. If nothing changed, return the last one, and ask no store."""
        packer = self._taken(step, 0)
        if packer is None:
            return self._present()
        reader = self._tracker.read(Manifest())
        self.is_busy = True
        try:
            refresh(self.history, self._known)
            return save_once(
                self._known,
                packer,
                lambda packer: step.finish(packer, reader),
                lambda draft: step.publish(draft, self.history),
            )
        except VanishedError as error:
            self._known.forget(error.packs)
        finally:
            self.is_busy = False
        return self._publish(step)

    def _work(
        self,
        step: Step,
        packer: Packer,
        known: Known,
        reader: Reader,
        pending: Pending,
    ) -> Manifest:
        """Write and publish a point that `begin` took, in the background. Change nothing of the timeline."""

        def write(packer: Packer) -> Manifest:
            return step.finish(packer, reader, pending.check)

        def publish(draft: Manifest) -> Manifest:
            pending.publishes()
            return step.publish(draft, self.history)

        try:
            made = save_once(known, packer, write, publish)
        except VanishedError as error:
            known.forget(error.packs)
            raise
        with suppress(NbckptError, OSError):  # the point is there
            refresh(self.history, known)
        return made

    def settle(self, seconds: float | None = None) -> bool:
        """Wait for the point in the background, and take it over. Return False if that takes longer.

        If it failed, `trouble` says why, and the next point takes its changes too.
        """
        pending = self.pending
        if pending is None:
            return True
        if not pending.wait(seconds):
            return False
        if self.pending is pending:  # a signal during the wait may have come here too
            self.trouble = pending.error
            if pending.made is not None:
                self._take_over(pending.step, pending.made)
            self.pending = None  # last: after an interrupt the next call does all of this
        return True

    def drop(self) -> bool:
        """Drop the point in the background, unless it is shown already. The next one takes its changes.

        If the store does not answer while the point is shown, the point is left alone. Return False then.
        """
        pending = self.pending
        if pending is None:
            return True
        is_dropped = pending.drop()
        if not is_dropped and self.settle(self._patience_s):
            return True
        why = "" if is_dropped else f", but {self.history.store.url} does not answer, so it may still appear"
        self.pending, self.trouble = None, DroppedError(f"it was given up{why}")
        self._known = Known(self._tracker.store)  # its thread may still use the other one
        return is_dropped

    def make_way(self, touched: Touched) -> None:
        """Wait before a cell while the point in the background needs memory that the cell may change."""
        pending = self.pending
        if pending is not None and pending.lends:
            may_change = touched.everything or pending.step.looked_at & {*touched.names}
            self.settle(None if may_change else _BEFORE_A_CELL_S)

    def _step(
        self,
        origin: Mapping[str, Any],
        touched: Container[str] | None,
        missed: int,
        named: Container[str] | None,
    ) -> Step:
        """Return the step to the next point, which does not look yet."""
        here, variables = self.here, self._variables()
        looked_at, apart = self._scope.next(here, variables, touched)
        origin = self._with_notebook(origin)
        step = Step(here, variables, self._namespace, looked_at, origin, missed, self.recipes, apart, named)
        step.place = self._places.look()
        return step

    def _count_from_here(self, changed: Iterable[str]) -> None:
        """Let the next step not look at the large memory that a way wrote: `here` holds what is there now."""
        if self.here is not None and not others_run():  # a thread may have written between the way and here
            variables = self._variables()
            changed = {name: variables[name] for name in changed if name in variables}
            self._scope.count_from(self.here, changed)

    def _take_over(self, step: Step, made: Manifest) -> bool:
        """Note that the namespace was as the point holds it. Tell whether it is a new point."""
        is_new = self.here is None or made is not self.here.manifest
        self._places.keep(made.id, step.place)
        self.recipes.settle(step.recipes)
        self._scope.settle()
        self.trouble = None
        if is_new and not is_beside(made):
            self._undone.clear()
            self._removed.clear()
        if is_new:
            self._tracker.before = made
            self._chain.keep(made)
        held = step.held(made)
        self._fingerprints.keep(held)
        self.here = held  # last: it tells that the rest is done
        return is_new

    @property
    def last(self) -> str:
        """The id of the last point, also if nobody has taken it over from the background yet; else ""."""
        pending, here = self.pending, self.here
        if pending is not None and pending.made is not None:
            return pending.made.id
        return here.manifest.id if here is not None else ""

    @property
    def is_writing(self) -> bool:
        """Whether a point is being written in the background."""
        pending = self.pending
        return pending is not None and pending.made is None and pending.error is None

    def rescue(self, origin: Mapping[str, Any]) -> None:
        """Make a point while there may be little time: first one without large memory that may have changed.

        It is removed when the point of all variables is there.
        """
        if not self.settle(self._patience_s):
            self.drop()
        before, variables = self.here, self._variables()
        soon = small(before, variables)
        apart = self._scope.proven(before, variables) if before else {}
        origin = self._with_notebook(origin)
        step = Step(before, soon | apart, self._namespace, {*soon}, origin, recipes=self.recipes, apart=apart)
        first = self._publish(step) if len(soon) < len(variables) else None
        is_whole = self.record(origin) is not None
        if is_whole and first is not None and (before is None or first is not before.manifest):
            discard(self.history, Entry.of(first, "points"))

    def _with_notebook(self, origin: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"kernel": self.kernel, **({"notebook": self.notebook} if self.notebook else {}), **origin}

    def _publish(self, step: Step) -> Manifest:
        history = self.history
        history.check_format()
        reader = self._tracker.read(Manifest())
        self.is_busy = True
        try:
            return save(
                history,
                self._known,
                lambda packer: step.write(packer, reader),
                lambda draft: step.publish(draft, history),
            )[0]
        finally:
            self.is_busy = False

    def needed(self) -> set[str]:
        """Return the ids of the points that must stay: the present one, and those that can be redone."""
        return {*(step.to for step in self._undone), *([self.here.manifest.id] if self.here else ())}

    def _variables(self) -> dict[str, Any]:
        return Selection(hidden=self._hidden()).of(self._namespace)
