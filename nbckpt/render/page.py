"""Pages: what a result says, before it is known whether it is read as text or as HTML."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table, with words that show when one points at it."""

    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading; numbers stand to the right, code in a fixed-width font."""

    name: str
    number: bool = False
    code: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a caption."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell | str, ...], ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """Longer text that opens on demand."""

    summary: str
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG and the words that stand for it."""

    alt: str
    png: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that a result says, in the order in which it is read.

    Attributes:
        headline: The one line that tells what happened.
        notes: One line per further fact.
        advice: The next command to type.
        code: Text that keeps its lines.
    """

    headline: str
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    folds: tuple[Fold, ...] = ()
    pictures: tuple[Picture, ...] = ()
    advice: str = ""
    code: str = ""


class Result(ABC):
    """What a command returns: data, that shows itself as text and as HTML."""

    @abstractmethod
    def page(self) -> Page:
        """Return what there is to show."""

    @classmethod
    def template(cls) -> str:
        """Return the file name of the class's template."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower() + ".html.j2"

    def __str__(self) -> str:
        from nbckpt.render.text import text

        return text(self.page())

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the text and the HTML; a front end shows the best that it can."""
        del include, exclude
        from nbckpt.render.html import html

        return {"text/plain": str(self), "text/html": html(self)}
