"""auto, history, redo, checkout: points after each cell, and the ways between them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from nbckpt.commands.options import Number, Reference, Word
from nbckpt.commands.table import Session
from nbckpt.commands.traveled import Traveled, traveled
from nbckpt.core.environment import NAMES
from nbckpt.core.references import SHORT
from nbckpt.errors import UsageError
from nbckpt.render import Cell, Column, Hint, Page, Result, Table, age, count, short, size
from nbckpt.timeline.auto import Auto
from nbckpt.timeline.cells import FailedCell
from nbckpt.timeline.points import Point, Points
from nbckpt.timeline.retention import Limits

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]B)")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)%")


@dataclass(frozen=True, repr=False)
class AutoStatus(Result):
    """Whether a point is made after each cell.

    Attributes:
        limits: The limits; None if it is off.
        points: The number of points in the store.
        added: The bytes that they added to the store.
        missed: The number of cells since the last point.
    """

    limits: Limits | None
    points: int
    added: int
    missed: int = 0

    def page(self) -> Page:
        """See `Result.page`."""
        kept = f"{count(self.points, 'point')} in the store, {size(self.added)}"
        if self.limits is None:
            return Page(f"auto is off. {kept}.", hints=(Hint("A point after each cell", "%ckpt auto on"),))
        limits = self.limits
        most = f"{size(limits.most)} of them" if limits.most is not None else f"the last {limits.keep}"
        headline = f"auto is on: a point after each cell, for at most {limits.percent} of the cells' time."
        notes = [f"{kept}; it keeps {most}."]
        if self.missed:
            notes.append(
                f"{count(self.missed, 'cell')} since the last point: the next point holds their changes."
            )
        hints = Hint("Step back", "%ckpt undo"), Hint("All points", "%ckpt history")
        return Page(headline, notes=tuple(notes), hints=hints)


def auto(
    session: Session,
    switch: Literal["status", "on", "off"] = "status",
    *,
    budget: Annotated[str, Word("SHARE")] = "5%",
    keep: Number | None = None,
    max_: Annotated[str, Word("SIZE")] = "",
) -> AutoStatus:
    """Make a point of all variables after each cell.

    undo, redo and checkout go from one point to another. An old point is removed when there are too many.

    Args:
        switch: on, off, or status to show whether it is on.
        budget: The share of the cells' time that points may take. Above it there are fewer points.
        keep: The number of points to keep; 200 if neither --keep nor --max is given.
        max_: Keep points of this size together, such as 2GB. It takes the place of --keep.
    """
    here = _points(session, "auto")
    if switch == "on":
        here.turn_on(_limits(budget, keep, max_), session.where)
    elif switch == "off":
        here.turn_off()
    points = [point for _, point in Points(session.tracker.history).all()]
    return AutoStatus(here.limits, len(points), sum(point.new_bytes for point in points), here.missed)


def _limits(budget: str, keep: int | None, most: str) -> Limits:
    if keep is not None and most:
        raise UsageError(
            f"--keep {keep} and --max {most} exclude each other: give one, the number of points or their size"
        )
    if keep is not None and keep < 1:
        raise UsageError(f"--keep {keep} is not valid: give a number of points from 1")
    if most:
        return Limits(_share(budget), keep=None, most=_bytes(most))
    return Limits(_share(budget), Limits.keep if keep is None else keep)


def _share(text: str) -> float:
    match = _SHARE.fullmatch(text)
    if match is None or not float(match[1]) > 0:
        raise UsageError(f"--budget {text} is not a share of the cells' time: write it as in --budget 5%")
    return float(match[1]) / 100


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text.upper())
    if match is None:
        raise UsageError(f"--max {text} is not a size: write it as in --max 2GB")
    return int(float(match[1]) * _UNITS[match[2]])


@dataclass(frozen=True, repr=False)
class History(Result):
    """The points of the notebook as a tree, newest first.

    Attributes:
        points: The points, and the checkpoints from which they go on.
        here: The id of the point that the variables equal; empty if it is not known.
        others: The number of points of other notebooks that were read.
        older: The number of older points in the store, which were not read.
        failed: The cells that failed in the present state and changed nothing, oldest first.
    """

    points: tuple[Point, ...]
    here: str
    others: int = 0
    older: int = 0
    failed: tuple[FailedCell, ...] = ()

    def page(self) -> Page:
        """See `Result.page`."""
        others = f"{count(self.others, 'point')} of other notebooks" if self.others else ""
        elsewhere = (Hint(others, "%ckpt ls --auto"),) if others else ()
        if not self.points:
            on = Hint("A point after each cell", "%ckpt auto on")
            return Page("There are no points yet.", hints=(on, *elsewhere))
        columns = (
            *(
                Column("", code=True),
                Column("point", code=True),
                Column("cell"),
                Column("changed", code=True),
            ),
            *(Column("size", number=True), Column("new", number=True), Column("when")),
        )
        rows = tuple(
            (
                graph,
                Cell(point.name or point.id[:SHORT], point.id),
                _cell(point),
                Cell(_changes(point), ", ".join(point.changed)[:500]),
                size(point.size),
                size(point.new_bytes),
                age(point.created_at),
            )
            for graph, point in zip(_graph(self.points, self.here), self.points, strict=True)
        )
        here = frozenset(at for at, point in enumerate(self.points) if point.id == self.here)
        more = f", the newest {len(self.points)}; {self.older:,} older in the store" if self.older else ""
        every = (Hint("Show all", "%ckpt history -n 0"),) if self.older else ()
        ways = Hint("Step back", "%ckpt undo"), Hint("Go to a point", "%ckpt checkout POINT")
        table = Table("points, newest first", columns, rows, here)
        hints = (*ways, *elsewhere, *every)
        return Page("Points" + more, (table,), _failures(self.failed), hints=hints)


def _failures(cells: tuple[FailedCell, ...]) -> tuple[str, ...]:
    """Return a sentence about the cells that failed and have no point."""
    names = [f"[{failed.cell}] with {failed.error}" for failed in cells]
    return (f"Stopped since the present point, and changed nothing: {', '.join(names)}.",) if names else ()


def _cell(point: Point) -> Cell:
    missed = f" and {count(point.missed, 'cell')} before" if point.missed else ""
    if point.is_beside:
        return Cell("no cell", "A thread changed this, for example. It belongs to the step before.")
    return Cell((f"[{point.cell}]" if point.cell is not None else "-") + missed, point.source[:500])


def _changes(point: Point) -> str:
    """Return the names that changed, with a minus sign before those that were deleted."""
    names = [name for name in point.changed if name not in NAMES]
    settings = [name for name in point.changed if name in NAMES]
    return short(", ".join([*names, *(f"-{name}" for name in point.removed)] or settings), 60)


def _graph(points: tuple[Point, ...], here: str) -> list[str]:
    """Return one line of a tree for each point, newest first. Each column leads to one parent below."""
    lanes: list[str] = []
    lines = []
    for point in points:
        if point.id not in lanes:
            lanes.append(point.id)
        at = lanes.index(point.id)
        mark = "●" if point.id == here else "○"
        ends = {lane for lane, name in enumerate(lanes) if name == point.id and lane != at}
        lines.append(
            " ".join(mark if lane == at else "┘" if lane in ends else "│" for lane in range(len(lanes)))
        )
        lanes = [name for lane, name in enumerate(lanes) if lane not in ends]
        lanes[at] = point.parent
    return lines


def history(session: Session, *, most: Number = 50) -> History:
    """Show the points that auto made in this notebook, as a tree.

    Args:
        most: Show the newest N points; 0 for all.
    """
    if most < 0:
        raise UsageError(f"-n {most} is not valid: give a number of points, or 0 for all")
    if session.points is not None:
        session.points.settle()
    timeline = session.points.timeline if session.points is not None else None
    here = timeline.here.manifest.id if timeline is not None and timeline.here else ""
    notebook = timeline.notebook if timeline is not None else None
    newest = Points(session.tracker.history).newest(notebook, most, here)
    failed = session.points.failed_cells() if session.points is not None else ()
    return History(newest.points, here, newest.others, newest.older, failed)


def _points(session: Session, command: str) -> Auto:
    session.live(command)
    assert session.points is not None  # where there are live variables, there are cells
    return session.points


def checkout(session: Session, ref: Reference, *, trust: bool = False, rerun: bool = False) -> Traveled:
    """Make all variables equal to a point or a checkpoint.

    Variables that were created later are removed. The present state is kept as a point first, and equal
    variables stay the same objects.

    Args:
        ref: A point or a checkpoint.
        trust: Load it even if someone else made it.
        rerun: Run the cells again that made the variables that cannot be saved. All other variables are as
            in the point afterwards.
    """
    timeline = _points(session, "checkout").ready()
    arrived = timeline.checkout(ref, session.where, trust=trust)
    return traveled(session, arrived, "Checked out", rerun=rerun)


def redo(session: Session, steps: Annotated[int, Word("N")] = 1, *, rerun: bool = False) -> Traveled:
    """Redo steps that undo has undone.

    Args:
        steps: The number of steps.
        rerun: Run the cells again that made the variables that cannot be saved.
    """
    arrived = _points(session, "redo").ready().redo(steps, session.where)
    return traveled(session, arrived, "Went forward to", rerun=rerun)
