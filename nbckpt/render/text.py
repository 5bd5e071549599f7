"""Pages as text, for terminals, logs and front ends without HTML. Also makes any text safe to print.

Names, captions and messages come from stores, and a store may come from a stranger. All printed text goes
through `visible`. See docs/decisions/0050.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from nbckpt.render.page import Cell, Page, Table
from nbckpt.render.sparkline import blocks
from nbckpt.render.values import short

_WIDEST = 60


def text(page: Page) -> str:
    """Return the page as lines of plain text, without control characters for a terminal."""
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
        yield f"pictures (shown in a notebook): {', '.join(picture.alt for picture in page.pictures)}"
    if page.hints:
        yield ""
        yield "   ".join(map(str, page.hints))


def _table(table: Table) -> list[str]:
    import tabulate

    rows = [list(map(_cell, row)) for row in table.rows]
    text = tabulate.tabulate(
        rows,
        headers=[visible(column.name) for column in table.columns],
        tablefmt="simple",
        disable_numparse=True,
        colalign=["right" if column.number else "left" for column in table.columns],
    )
    return [line.rstrip() for line in text.splitlines()]


def _cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return short(visible(cell), _WIDEST)
    return " ".join(filter(None, (blocks(cell.course), short(visible(cell.text), _WIDEST))))


def visible(text: str) -> str:
    r"""Return *text* on one line, with every character that could control a terminal spelled out.

    These are all control characters, and those that change the direction of text.

    >>> print(visible("a\x1b[2Jb\u202ec"), visible("two\nlines"))
    a\x1b[2Jb\u202ec two lines
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\n\t\r" else repr(c)[1:-1] for c in text)


def _say_visibly(record: logging.LogRecord) -> bool:
    """Make a log message safe to print: it may contain file names, URLs and errors of other people."""
    record.msg, record.args = visible(record.getMessage()), ()
    return True


logging.getLogger("nbckpt").addFilter(_say_visibly)
