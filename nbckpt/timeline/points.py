"""Points: the facts of the points in a store, for the tree of points and for their retention."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest
from nbckpt.core.references import Entry
from nbckpt.errors import NbckptError
from nbckpt.timeline.step import POINT


@dataclass(frozen=True)
class Point:
    """One point.

    Attributes:
        id: Its id.
        parent: The id of the checkpoint before it.
        created_at: When it was made, in UTC.
        notebook: The notebook's path; empty if it is not known.
        kernel: The id of the kernel that made it; empty if it is not known.
        cell: The number of the cell in the kernel, or None.
        source: The cell.
        changed: The variables that changed.
        removed: The variables that were deleted.
        missed: The number of cells before this one whose changes it also holds.
        beside: The variables among the changed and removed that no cell's code names.
        new_bytes: The bytes that it added to the store.
        size: The bytes that it holds.
        name: Its name and version, if it is a checkpoint with a name.
        seconds: How long the cell ran, or None.
        error: The name of the exception that ended the cell; empty if it succeeded.
    """

    id: str
    parent: str
    created_at: str
    notebook: str
    kernel: str
    cell: int | None
    source: str
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    missed: int
    beside: tuple[str, ...]
    new_bytes: int
    size: int
    name: str = ""
    seconds: float | None = None
    error: str = ""

    @property
    def is_beside(self) -> bool:
        """Whether no cell made its changes."""
        return bool(self.beside) and {*self.beside} >= {*self.changed, *self.removed}

    @classmethod
    def of(cls, manifest: Manifest) -> Point:
        """Return the facts of a point. Whatever is not as it should be in its manifest is left out."""
        facts = manifest.provenance
        cell, own = _dict(facts.get("cell")), _dict(facts.get(POINT))
        count, missed, new = cell.get("count"), own.get("missed"), facts.get("new_bytes")
        seconds = cell.get("seconds")
        return cls(
            manifest.id,
            manifest.parent,
            manifest.created_at,
            str(facts.get("notebook", "")),
            str(facts.get("kernel", "")),
            count if isinstance(count, int) else None,
            str(cell.get("source", "")),
            _names(own.get("changed")),
            _names(own.get("removed")),
            missed if isinstance(missed, int) else 0,
            _names(own.get("beside")),
            new if isinstance(new, int) else 0,
            manifest.size(),
            seconds=float(seconds) if isinstance(seconds, (int, float)) else None,
            error=str(cell.get("error", "")),
        )


def changes_of(manifest: Manifest) -> tuple[set[str], set[str]]:
    """Return the names that the cells of a point changed or removed, and those that something else did."""
    own = _dict(manifest.provenance.get(POINT))
    beside = {*_names(own.get("beside"))}
    return {*_names(own.get("changed")), *_names(own.get("removed"))} - beside, beside


def is_beside(manifest: Manifest) -> bool:
    """Tell whether no cell made the changes of a point, so that it is not a step of its own for `undo`."""
    cells, beside = changes_of(manifest)
    return bool(beside) and not cells


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


@dataclass(frozen=True)
class Newest:
    """The newest points of a notebook.

    Attributes:
        points: The points, newest first, and among them the checkpoints from which they go on.
        others: The number of points of other notebooks that were read.
        older: The number of points, of any notebook, that are older and were not read.
    """

    points: tuple[Point, ...]
    others: int
    older: int


class Points:
    """The points of one store. Each is read once.

    Args:
        history: The checkpoints of the store.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._read: dict[str, Point] = {}

    def note(self, made: Point) -> None:
        """Note a point that was made just now, so that it is not read."""
        self._read[made.id] = made

    def all(self) -> list[tuple[Entry, Point]]:
        """Return the points, newest first. One that cannot be read is left out; `verify` tells of it."""
        entries = self._history.entries("points")
        present = {entry.id for entry in entries}
        self._read = {name: point for name, point in self._read.items() if name in present}
        looked = ((entry, self._look(entry)) for entry in entries)
        return [(entry, point) for entry, point in looked if point is not None]

    def newest(self, notebook: str | None, most: int, here: str) -> Newest:
        """Return the newest points of a notebook. Older ones are not read.

        Args:
            notebook: The notebook's path; None for the points of all notebooks.
            most: The number of points; 0 for all.
            here: The id of the point or checkpoint that the variables equal; empty if it is not known.
        """
        entries = self._history.entries("points")
        own: list[Point] = []
        others = read = 0
        for entry in takewhile(lambda _: not most or len(own) < most, entries):
            read += 1
            point = self._look(entry)
            if point is not None and notebook in (None, point.notebook):
                own.append(point)
            else:
                others += point is not None
        starts = {here, *(point.parent for point in own)} - {entry.id for entry in entries}
        before = [self._look(entry) for entry in self._history.entries() if entry.id in starts]
        own += [point for point in before if point is not None and notebook in (None, point.notebook)]
        own.sort(key=lambda point: point.created_at, reverse=True)
        names = {ref.id: str(ref) for ref in self._history.refs()}
        named = (replace(point, name=names.get(point.id, "")) for point in own[: most or None])
        return Newest(tuple(named), others, len(entries) - read)

    def _look(self, entry: Entry) -> Point | None:
        """Return the facts of a point, or None if it cannot be read."""
        if entry.id not in self._read:
            with suppress(NbckptError):
                self._read[entry.id] = Point.of(self._history.read(entry))
        return self._read.get(entry.id)
