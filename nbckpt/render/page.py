"""Pages: the content of a result, independent of text or HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table, with a tooltip (*hint*) and a series of numbers (*course*) drawn before the text."""

    text: str
    hint: str = ""
    course: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading. Numbers are aligned to the right, code is shown in a fixed-width font."""

    name: str
    number: bool = False
    code: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a caption. A row of one cell is a heading of the rows below it.

    HTML highlights the rows whose positions are in *marked*.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    marked: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Fold:
    """Longer text that opens on demand, or is *open*. As plain text, a *quiet* one shows its summary only."""

    summary: str
    text: str
    quiet: bool = False
    open: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture and its alternative text, at most *height* pixels high.

    A *framed* picture stands on white, because it was made for paper. Others can be read on any background.
    A *caption* is shown above it.
    """

    alt: str
    data: bytes
    height: int = 240
    form: Literal["png", "svg"] = "png"
    framed: bool = True
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """HTML or SVG from a stranger. It is shown in a sandbox, without scripts and without any request."""

    title: str
    html: str
    height: int = 320


@dataclass(frozen=True, slots=True)
class Hint:
    """A next step, and the command or the Python code for it.

    >>> str(Hint("Undo", "%ckpt undo"))
    'Undo: %ckpt undo'
    """

    label: str
    command: str

    def __str__(self) -> str:
        return f"{self.label}: {self.command}"


@dataclass(frozen=True, slots=True)
class Page:
    """The whole content of a result, in reading order.

    Attributes:
        headline: One line that says what happened.
        notes: One line for each further fact.
        hints: The next commands to type.
        code: Text whose lines are kept as they are.
        frames: HTML and SVG of strangers, which are shown in a sandbox.
        beside: Rows of pages that stand side by side, where the width suffices.
    """

    headline: str
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    folds: tuple[Fold, ...] = ()
    pictures: tuple[Picture, ...] = ()
    hints: tuple[Hint, ...] = ()
    code: str = ""
    frames: tuple[Frame, ...] = ()
    beside: tuple[tuple[Page, ...], ...] = ()
