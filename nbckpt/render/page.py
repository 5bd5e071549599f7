"""Pages: what a result says, before it is known whether it is read as text or as HTML."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table, with words that show when one points at it, and before it the course of a number."""

    text: str
    hint: str = ""
    course: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading; numbers stand to the right, code in a fixed-width font."""

    name: str
    number: bool = False
    code: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a caption; those that are *marked*, by their places, stand out in HTML."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    marked: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Fold:
    """Longer text that opens on demand, or is *open*; a *quiet* one stays closed where nothing opens."""

    summary: str
    text: str
    quiet: bool = False
    open: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG and the words that stand for it, at most *height* pixels high."""

    alt: str
    png: bytes
    height: int = 240


@dataclass(frozen=True, slots=True)
class Hint:
    """What one can do next, and the command or the Python that does it.

    >>> str(Hint("Undo", "%ckpt undo"))
    'Undo: %ckpt undo'
    """

    what: str
    command: str

    def __str__(self) -> str:
        return f"{self.what}: {self.command}"


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that a result says, in the order in which it is read.

    Attributes:
        headline: The one line that tells what happened.
        notes: One line per further fact.
        hints: The next commands to type.
        code: Text that keeps its lines.
    """

    headline: str
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    folds: tuple[Fold, ...] = ()
    pictures: tuple[Picture, ...] = ()
    hints: tuple[Hint, ...] = ()
    code: str = ""
