"""Cells: those that failed, those whose changes no point holds, and the time that cells and points took."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from nbckpt.cells.analysis import UNKNOWN, Touched

_NO_NAMES = Touched(frozenset())
_WINDOW_S = 60.0
_ALWAYS_S = 0.02


@dataclass(frozen=True)
class FailedCell:
    """A cell that an exception ended, and that no point holds.

    Attributes:
        cell: Its number in the kernel, or None.
        source: Its code.
        error: The name of the exception.
        ended_at: When it ended, in UTC.
    """

    cell: int | None
    source: str
    error: str
    ended_at: str


@dataclass(frozen=True)
class Cells:
    """Cells whose changes no point holds.

    Attributes:
        number: How many they are.
        touched: The variables that their code can have touched.
        named: Those that it names, if that tells their changes from others. See decision 0106.
    """

    number: int = 0
    touched: Touched = _NO_NAMES
    named: Touched = _NO_NAMES

    def __add__(self, other: Cells) -> Cells:
        return Cells(self.number + other.number, self.touched | other.touched, self.named | other.named)

    @property
    def names(self) -> frozenset[str] | None:
        """The names that the cells can have touched; None for all."""
        return None if self.named.everything else self.named.names


NO_CELLS, ONE_CELL = Cells(), Cells(1)
UNKNOWN_CELL = Cells(1, UNKNOWN, UNKNOWN)


@dataclass
class Spent:
    """The time of the last minute's cells and of their points.

    Attributes:
        cells: For each cell: when it ended, how long it took, and how long its point took, in seconds.
    """

    cells: deque[tuple[float, float, float]] = field(default_factory=deque)

    def allows(self, share: float, now: float) -> bool:
        """Tell whether there is time for one more point, which may take as long as any of the last minute."""
        while self.cells and self.cells[0][0] < now - _WINDOW_S:
            self.cells.popleft()
        allowed = max(share * sum(cell[1] for cell in self.cells), _ALWAYS_S * len(self.cells))
        points = [cell[2] for cell in self.cells]
        return sum(points) + max(points) <= allowed

    def add(self, ended: float, took: float) -> None:
        """Note a cell that ended just now."""
        self.cells.append((ended, took, 0.0))

    def spend(self, seconds: float) -> None:
        """Note the time of the last cell's point."""
        ended, took, _ = self.cells.pop()
        self.cells.append((ended, took, seconds))
