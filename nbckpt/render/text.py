"""Pages as text, for terminals, logs and front ends without HTML; and what makes any text safe to print.

Names, captions and messages come from stores, and a store may come from a stranger: whatever is printed
goes through `visible`. See docs/decisions/0050.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from unicodedata import combining, east_asian_width

from nbckpt.render.course import blocks
from nbckpt.render.page import Cell, Page, Table
from nbckpt.render.values import short

_WIDEST = 60
_ROOM = 2
"""How much wider than its heading a column is at least."""


def text(page: Page) -> str:
    """Return the page as lines of plain text, which do nothing to a terminal."""
    return "\n".join(map(visible, _lines(page)))


def _lines(page: Page) -> Iterator[str]:
    if page.headline:
        yield page.headline
    yield from page.code.splitlines()
    yield from (f"  {note}" for note in page.notes)
    for table in page.tables:
        if table.rows:
            yield ""
            yield f"{table.caption}:"
            yield from _table(table)
    for fold in page.folds:
        yield ""
        yield fold.summary if fold.quiet else f"{fold.summary}:"
        if not fold.quiet:
            yield from (f"    {line}" for line in fold.text.splitlines())
    if page.pictures:
        yield ""
        yield f"pictures (shown in a notebook): {', '.join(it.alt for it in page.pictures)}"
    if page.hints:
        yield ""
        yield "   ".join(map(str, page.hints))


def _table(table: Table) -> list[str]:
    """Return the lines of a table: headings, a rule, and the rows, each column as wide as it needs.

    See docs/decisions/0051.
    """
    heads = [visible(column.name).strip() for column in table.columns]
    rows = [[_cell(cell).strip() for cell in row] for row in table.rows]
    widths = [
        max(_width(head) + _ROOM, *map(_width, cells))
        for head, cells in zip(heads, zip(*rows, strict=True), strict=True)
    ]
    lines = [heads, ["-" * width for width in widths], *rows]
    return [_line(line, widths, table).rstrip() for line in lines]


def _line(cells: list[str], widths: list[int], table: Table) -> str:
    """Return a row of a table; numbers stand to the right."""
    parts = []
    for cell, width, column in zip(cells, widths, table.columns, strict=True):
        room = " " * (width - _width(cell))
        parts.append(room + cell if column.number else cell + room)
    return "  ".join(parts)


def _width(text: str) -> int:
    """Return how many places of a terminal a text takes: characters of East Asia take two, accents none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return short(visible(cell), _WIDEST)
    return " ".join(filter(None, (blocks(cell.course), short(visible(cell.text), _WIDEST))))


def visible(text: str) -> str:
    r"""Return *text* on one line, in which whatever could act on a terminal is spelled out.

    That is every control character, and those that turn around the order in which text is read.

    >>> print(visible("a\x1b[2Jb\u202ec"), visible("two\nlines"))
    a\x1b[2Jb\u202ec two lines
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\n\t\r" else repr(c)[1:-1] for c in text)


def _say_visibly(record: logging.LogRecord) -> bool:
    """Make a message of the log safe: it names files, URLs and errors of others."""
    record.msg, record.args = visible(record.getMessage()), ()
    return True


logging.getLogger("nbckpt").addFilter(_say_visibly)
