"""Recipes: the cells that made the variables that a point could not hold wholly, so that these can run again.

See docs/decisions/0101.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nbckpt.cells.analysis import Touched
from nbckpt.core.manifest import Manifest, now
from nbckpt.core.schema import check
from nbckpt.errors import CorruptError

RECIPES = "recipes"
"""The name of the recipes in the manifest's `provenance`."""

_MOST = 30
"""The most cells of a recipe. A variable that more cells used is not made again."""

_FORM = {
    "cells": [{"at": str, "source": str, "number?": int, "before?": str, "masked?": bool}],
    "made_by": {str: [int]},
}


@dataclass(frozen=True)
class Cell:
    """One run of a cell.

    Attributes:
        at: When it ended.
        source: Its source; empty if it is not known.
        number: Its number in its kernel, if it is known.
        before: The id of the last point before it; empty if there was none.
        masked: Whether the source lacks a password.
    """

    at: str
    source: str = ""
    number: int | None = None
    before: str = ""
    masked: bool = False

    def __str__(self) -> str:
        return f"cell [{self.number}]" if self.number is not None else "a cell"


Recipe = tuple[Cell, ...]
"""The cells that made, used or changed an object since it was bound, and what these need, in their order."""


def why_not(recipe: Recipe) -> str:
    """Return why a recipe cannot run again; empty if it can."""
    if len(recipe) > _MOST:
        return f"more than {_MOST} cells used it"
    if not recipe or any(not cell.source for cell in recipe):
        return "it is not known which cell made it"
    masked = next((cell for cell in recipe if cell.masked), None)
    return f"{masked} contains a password, which is not kept, so run that yourself" if masked else ""


def plan(missing: Iterable[str], recipes: Mapping[str, Recipe]) -> tuple[set[str], list[Cell]]:
    """Return the variables to make again, and the cells that do so, in their order.

    What a cell makes beside a missing variable is made again with it, so that they share their objects.
    """
    names = {name for name in missing if not why_not(recipes.get(name, ()))}
    while True:
        cells = {cell for name in names for cell in recipes[name]}
        more = {name for name in recipes if cells & {*recipes[name]} and not why_not(recipes[name])}
        if more <= names:
            return names, sorted(cells, key=lambda cell: cell.at)
        names |= more


def recipes_of(manifest: Manifest) -> dict[str, Recipe]:
    """Return the recipes of the variables that a checkpoint could not hold wholly; empty ones if unknown."""
    skipped = {skipped.name for skipped in manifest.skipped}
    values = {value.name for value in manifest.values}
    try:
        document = check(manifest.provenance.get(RECIPES, {"cells": [], "made_by": {}}), _FORM, "the recipes")
        cells = [Cell(**cell) for cell in document["cells"]]
        made = {name: tuple(cells[at] for at in places) for name, places in document["made_by"].items()}
    except (CorruptError, IndexError):  # someone else's manifest
        made = {}
    return {name: made.get(name, ()) for name in skipped | (made.keys() & values)}


def facts(recipes: Mapping[str, Recipe]) -> dict[str, Any]:
    """Return recipes for a manifest's `provenance`."""
    if not recipes:
        return {}
    cells = sorted({cell for recipe in recipes.values() for cell in recipe}, key=lambda cell: cell.at)
    place = {cell: at for at, cell in enumerate(cells)}
    return {
        RECIPES: {
            "cells": [_plain(cell) for cell in cells],
            "made_by": {name: [place[cell] for cell in recipes[name]] for name in sorted(recipes)},
        }
    }


def _plain(cell: Cell) -> dict[str, Any]:
    known = {name: value for name, value in vars(cell).items() if value not in (None, "", False)}
    return {"at": cell.at, "source": cell.source, **known}


class Recipes:
    """The recipes of the bound objects that no point can hold wholly, kept up to date from cell to cell.

    Attributes:
        live: For each such variable the recipe of its object.
    """

    def __init__(self) -> None:
        self.live: dict[str, Recipe] = {}
        self._cells: list[tuple[Cell, Touched]] = []

    def note(self, origin: Mapping[str, Any], touched: Touched, before: str) -> None:
        """Note a cell that ran since the last point.

        Args:
            origin: The cell.
            touched: What it can have touched.
            before: The id of the last point.
        """
        cell = origin.get("cell", {})
        self._cells.append(
            (
                Cell(now(), cell.get("source", ""), cell.get("count"), before, masked="masked" in cell),
                touched,
            )
        )

    def settle(self, live: Mapping[str, Recipe]) -> None:
        """Take the recipes as they are now. The cells that were noted are in them."""
        self.live = dict(live)
        self._cells.clear()

    def after(self, names: Iterable[str], rebound: set[str]) -> dict[str, Recipe]:
        """Return the recipes of variables after the noted cells.

        Args:
            names: The variables.
            rebound: Those among them that are bound to another object than at the last point.
        """
        return {name: self._after(name, is_new=name in rebound) for name in names}

    def _after(self, name: str, *, is_new: bool) -> Recipe:
        places = [at for at, (_, touched) in enumerate(self._cells) if name in touched.names]
        if is_new and not places:
            places = [at for at, (_, touched) in enumerate(self._cells) if touched.everything][-1:]
        if is_new:
            binding = [at for at in places if name in self._cells[at][1].binds]
            places = [at for at in places if not binding or at >= binding[-1]]
        first = () if is_new else self.live.get(name, ())
        if not (first or places):
            return (Cell(now()),)
        # Between two points nothing tells which cell the later ones need, so they need all.
        ran = self._cells[: places[-1] + 1] if places else []
        needed = {other for _, touched in ran for other in touched.names if other != name}
        cells = {*first, *(cell for cell, _ in ran)}
        cells = cells.union(*(self.live.get(other, ()) for other in needed))
        return tuple(sorted(cells, key=lambda cell: cell.at))[: _MOST + 1]
