"""Traveled: the result of a way from one point to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nbckpt.commands.changes import changes_table, failures_table
from nbckpt.commands.table import Session
from nbckpt.core.elsewhere import notes_of
from nbckpt.core.environment import NAMES
from nbckpt.core.manifest import Manifest
from nbckpt.core.references import SHORT
from nbckpt.render import Hint, Page, Result, age, count, short
from nbckpt.timeline.arrival import Arrived
from nbckpt.timeline.recipes import Recipe, recipes_of, why_not
from nbckpt.timeline.timeline import Rerun

UNDONE = "Went back to"
"""What an undo is called."""


@dataclass(frozen=True, repr=False)
class Traveled(Result):
    """The result of `undo`, `redo` and `checkout` between points.

    Attributes:
        arrived: What was changed.
        label: How the way is called.
        rerun: What ran again; None if nothing did.
    """

    arrived: Arrived
    label: str
    rerun: Rerun | None = None

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        return bool(self.arrived.failed or self.arrived.unheld or self.arrived.missing)

    def page(self) -> Page:
        """See `Result.page`."""
        arrived, manifest = self.arrived, self.arrived.manifest
        notes = [
            *self._unseen(),
            *self._missed(),
            *self._beside(),
            *self._reran(),
            *self._not_kept(),
            *self._alive(),
        ]
        notes += arrived.places
        notes += notes_of(manifest.warnings, arrived.changes)
        if not (notes or arrived.changes):
            notes.append("All variables were equal already.")
        cell = manifest.provenance.get("cell")
        after = f" after cell [{cell['count']}]" if isinstance(cell, Mapping) and cell.get("count") else ""
        way_on = (
            Hint("Step forward", "%ckpt redo") if self.label == UNDONE else Hint("Step back", "%ckpt undo")
        )
        return Page(
            f"{self.label} {manifest.id[:SHORT]}, the state{after} ({age(manifest.created_at).text}).",
            (
                changes_table(arrived.changes),
                failures_table(arrived.failed, "not loaded; all others are"),
            ),
            tuple(notes),
            hints=(way_on, Hint("All points", "%ckpt history")),
        )

    def _unseen(self) -> list[str]:
        """Return a note about a change that no cell's point held."""
        names = [name for name in self.arrived.unseen if name not in NAMES]
        if not names:
            return []
        return [
            f"{short(', '.join(names), 100)} had changed since the last point. That was the first step back."
        ]

    def _missed(self) -> list[str]:
        """Return a note about cells that an undo took back together with others."""
        missed = self.arrived.missed
        were = "was" if missed == 1 else "were"
        more = "%ckpt auto on --budget 20% makes more points"
        return [f"{count(missed, 'cell')} without a point {were} undone too: {more}."] if missed else []

    def _beside(self) -> list[str]:
        """Return notes about variables that changed without a cell."""
        arrived, notes = self.arrived, []
        if names := [name for name in arrived.beside if name not in NAMES]:
            notes.append(f"{short(', '.join(names), 100)} had changed without a cell, and went back too.")
        if arrived.left:
            are = "stays as it is" if len(arrived.left) == 1 else "stay as they are"
            notes.append(
                f"{short(', '.join(arrived.left), 100)} {are}: no cell changed that, and a thread runs. "
                f"%ckpt checkout {arrived.manifest.id[:SHORT]} takes that back too."
            )
        return notes

    def _reran(self) -> list[str]:
        """Return what ran again, and what came of it."""
        if self.rerun is None:
            return []
        cells = [f"[{cell.number}] {short(cell.source.strip(), 60)}" for cell in self.rerun.cells]
        notes = [f"Ran again: {'; '.join(cells)}"] if cells else ["Nothing had to run again."]
        if self.rerun.error:
            notes.append(
                f"The last of these failed: {self.rerun.error}. Its variables were not made again, and all "
                "others are as in the point."
            )
        return notes

    def _alive(self) -> list[str]:
        """Return notes for the variables that stay because no point can hold them."""
        alive, manifest = self.arrived.alive, self.arrived.manifest
        there = [value.name for value in manifest.values if value.name in alive]
        later = [name for name in alive if name not in there]
        restore = f"%ckpt restore {manifest.id[:SHORT]} {' '.join(there)}"
        ways = [(there, restore), (later, f"del {', '.join(later)}")]
        return [_alive(names, way) for names, way in ways if names]

    def _not_kept(self) -> list[str]:
        """Return a note for variables that the point could not hold, by the cells that make them."""
        arrived, recipes = self.arrived, recipes_of(self.arrived.manifest)
        values = {value.name for value in arrived.manifest.values}
        together: dict[tuple[str, bool, Recipe, str], list[str]] = {}
        for name in (*arrived.unheld, *arrived.missing):
            recipe = recipes.get(name, ())
            reason = why_not(recipe)
            stays = name in arrived.unheld and name not in arrived.changes
            key = "kept wholly" if name in values else "kept", stays, () if reason else recipe, reason
            together.setdefault(key, []).append(name)
        return [_note(names, *key, arrived.manifest) for key, names in together.items()]


def _alive(names: list[str], way: str) -> str:
    stays, pronoun = ("stays as it is", "it") if len(names) == 1 else ("stay as they are", "them")
    return f"{short(', '.join(names), 100)} {stays}: no point can hold {pronoun}. {way} gives {pronoun} up."


def _note(
    names: list[str],
    kept: str,
    stays: bool,  # noqa: FBT001  a part of a key
    recipe: Recipe,
    reason: str,
    target: Manifest,
) -> str:
    is_one = len(names) == 1
    now = " and stays as it is now" if is_one else " and stay as they are now"
    so = f"{short(', '.join(names), 100)} could not be {kept}" + (now if stays else "")
    if reason:
        return f"{so}: {reason}."
    cells, pronoun = ", ".join(f"[{cell.number}]" for cell in recipe), "it" if is_one else "them"
    which = f"cell {cells} makes {pronoun}" if len(recipe) == 1 else f"cells {cells} make {pronoun}"
    again = "that cell" if len(recipe) == 1 else "these cells"
    return f"{so}: {which}. %ckpt checkout {target.id[:SHORT]} --rerun runs {again} again."


def traveled(session: Session, arrived: Arrived, label: str, *, rerun: bool) -> Traveled:
    """Return the result of a way. With *rerun*, make again what the point could not hold."""
    if not rerun or session.run_cell is None or session.points is None:
        return Traveled(arrived, label)
    done = session.points.timeline.rerun(arrived, session.run_cell)
    changes = {
        **arrived.changes,
        **{name: "new" if name in arrived.missing else "changed" for name in done.made},
    }
    return Traveled(replace(done.arrived, changes=changes, unseen=arrived.unseen), label, done)
