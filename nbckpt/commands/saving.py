"""save: save variables as a new checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nbckpt.commands.options import Name, Text, Variable
from nbckpt.commands.table import Session
from nbckpt.core.environment import NAMES
from nbckpt.core.manifest import Manifest
from nbckpt.core.references import SHORT
from nbckpt.render import Cell, Column, Page, Result, Table, count, duration, short, size
from nbckpt.states.snapshot import is_state
from nbckpt.timeline.recipes import facts
from nbckpt.tracker import Saved


def counted(names: Iterable[str]) -> str:
    """Return the numbers of variables and of states among the names of values, as text."""
    names = [name for name in names if name not in NAMES]
    states = sum(map(is_state, names))
    also = f" and {count(states, 'state')}" if states else ""
    return f"{count(len(names) - states, 'variable')}{also}"


def torn_note(names: Iterable[str]) -> list[str]:
    """Return a note about variables that changed during the save, if there are any."""
    which = short(", ".join(names), 100)
    return [f"Changed during the save, so they may mix old and new values: {which}."] if which else []


@dataclass(frozen=True, repr=False)
class SaveResult(Result):
    """The result of `save`.

    Attributes:
        saved: The tracker's result.
        where: The notebook and cell, as text.
        hint: A note about a likely mistake of the user.
        unseen: A note about changes that no automatic point holds.
    """

    saved: Saved
    where: str = ""
    hint: str = ""
    unseen: str = ""

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        manifest = self.saved.manifest
        changed = any(value.changed for value in manifest.values)
        return bool(manifest.skipped or manifest.warnings or changed or self.hint or self.unseen)

    def page(self) -> Page:
        """See `Result.page`."""
        manifest = self.saved.manifest
        parts = [
            counted(value.name for value in manifest.values),
            f"{size(self.saved.size)} ({size(self.saved.new_bytes)} new)",
            duration(self.saved.seconds),
        ]
        headline = f"Saved {self.saved.ref} ({manifest.id[:SHORT]}): {', '.join(parts)}{self.where}"
        skipped = tuple((Cell(skipped.name), skipped.path, skipped.reason) for skipped in manifest.skipped)
        columns = (Column("variable", code=True), Column("because of", code=True), Column("reason"))
        return Page(
            headline,
            notes=(
                *torn_note(value.name for value in manifest.values if value.changed),
                *manifest.warnings,
                *filter(None, (self.unseen, self.hint)),
            ),
            tables=(Table("not saved, because they cannot be pickled", columns, skipped),),
        )


def save(
    session: Session,
    name: Name = "",
    *variables: Variable,
    message: Text = "",
    exclude: Sequence[Variable] = (),
    all_: bool = False,
    states: bool = False,
    no_provenance: bool = False,
) -> SaveResult:
    """Save variables as a new version of NAME.

    Args:
        name: The checkpoint's name; by default the notebook's name.
        variables: Save only these variables. Patterns such as df_* work too.
        message: A note about the checkpoint.
        exclude: Do not save this variable; repeat for several. Patterns work too.
        all_: Also save the earlier results that IPython keeps: _, _1, _2, …
        states: Also save the live states (nbckpt.State).
        no_provenance: Do not keep the commit, the packages, the machine and the cells.
    """
    namespace = session.live("save")
    hidden = session.hidden
    if all_:
        hidden = {name for name in [*namespace] if name in session.hidden and name not in session.history}
    saved = session.tracker.save(
        namespace,
        name,
        variables=variables,
        exclude=exclude,
        hidden=hidden,
        states=states,
        message=message,
        origin={**session.where, **_recipes(session)},
        provenance=not no_provenance,
        progress=session.progress,
    )
    session.auto.saved()
    cell = session.where.get("cell", {}).get("count")
    is_variable = name in namespace and name not in session.hidden
    hint = _named_like_a_variable(name, variables, saved.manifest) if is_variable else ""
    return SaveResult(saved, f", cell [{cell}]" if cell else "", hint, _unseen(session, saved.manifest))


def _named_like_a_variable(name: str, variables: Sequence[str], saved: Manifest) -> str:
    """Return a note if somebody may have meant the name of a checkpoint for a variable."""
    if not variables:
        only = f"%ckpt save {name} {name}"
        return f"Saved all variables as checkpoint {name!r}. To save only the variable: {only}"
    if any(value.name == name for value in saved.values):
        return ""
    line = " ".join((name, *variables))
    return f"{name!r} is the name of the checkpoint, and that variable was not saved: %ckpt save NAME {line}"


def _recipes(session: Session) -> dict[str, Any]:
    """Return the cells that made what cannot be saved, for the provenance of a save."""
    points = session.points
    return facts(points.timeline.recipes.live) if points is not None and points.limits is not None else {}


def _unseen(session: Session, saved: Manifest) -> str:
    """Return a note about changes that the automatic points missed, because no cell's code named them."""
    points = session.points
    names = points.unseen(saved) if points is not None else ()
    if points is None or points.timeline.here is None or not names:
        return ""
    cell = points.timeline.here.manifest.provenance.get("cell", {}).get("count")
    which = f"the automatic point of cell [{cell}]" if cell else "the last automatic point"
    pronoun, changes = ("it", "that change") if len(names) == 1 else ("them", "these changes")
    return (
        f"{short(', '.join(names), 100)} changed in a cell that did not name {pronoun}: "
        f"{which} does not hold {changes}. The next point does."
    )
