"""Traveled: the result of a way from one point to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbckpt.commands.changes import changes_table, failures_table
from nbckpt.core.references import SHORT
from nbckpt.render import Hint, Page, Result, age, short
from nbckpt.timeline.arrival import Arrived

UNDONE = "Went back to"
"""What an undo is called."""


@dataclass(frozen=True, repr=False)
class Traveled(Result):
    """The result of `undo`, `redo` and `checkout` between points.

    Attributes:
        arrived: What was changed.
        label: How the way is called.
    """

    arrived: Arrived
    label: str

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        return bool(self.arrived.failed or self.arrived.unheld)

    def page(self) -> Page:
        """See `Result.page`."""
        arrived, manifest = self.arrived, self.arrived.manifest
        notes = []
        if arrived.unheld:
            names = short(", ".join(arrived.unheld), 100)
            notes.append(f"{names}: stays as it is now, because this point could not hold it.")
        elif not arrived.changes:
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
