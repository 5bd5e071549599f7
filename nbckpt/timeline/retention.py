"""Retention: which points are removed, because there are more than a notebook's limits allow."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nbckpt.core.references import Entry
from nbckpt.timeline.points import Point

_ENDED = timedelta(days=1)
"""A kernel that made no point for so long is taken for ended. Nothing else tells, also on another machine."""


@dataclass(frozen=True)
class Limits:
    """What automatic points may take.

    Attributes:
        budget: The share of the cells' time that points may take, over the last minute. 20 ms for each cell
            are allowed in any case.
        keep: The number of points to keep for this notebook; None for no limit.
        most: The bytes that the kept points may have added to the store; None for no limit.
    """

    budget: float = 0.05
    keep: int | None = 200
    most: int | None = None

    @property
    def percent(self) -> str:
        """The budget as text, such as `5%`."""
        return f"{100 * self.budget:,.3f}".rstrip("0").rstrip(".") + "%"


def beyond(
    points: Iterable[tuple[Entry, Point]], limits: Limits, notebook: str, kernel: str, needed: Collection[str]
) -> list[tuple[Entry, Point]]:
    """Return the points of a notebook that are beyond the limits.

    Those of another kernel that may still run neither count nor go: it may have to step back to them. Two
    terminals have the same notebook, since neither has one.

    Args:
        points: The points of the store, newest first.
        limits: The limits.
        notebook: The notebook's path.
        kernel: The kernel that asks.
        needed: The ids of points that must stay.
    """
    of_notebook = [(entry, point) for entry, point in points if point.notebook == notebook]
    running = {point.kernel for _, point in of_notebook if _is_recent(point)} - {kernel}
    at, added, gone = 0, 0, []
    for entry, point in of_notebook:
        if point.kernel in running:
            continue
        at, added = at + 1, added + point.new_bytes
        is_many = limits.keep is not None and at > limits.keep
        is_much = limits.most is not None and added > limits.most
        if (is_many or is_much) and entry.id not in needed:
            gone.append((entry, point))
    return gone


def _is_recent(point: Point) -> bool:
    try:
        return datetime.now(UTC) - datetime.fromisoformat(point.created_at) < _ENDED
    except (TypeError, ValueError):  # whatever stands in its manifest
        return False
