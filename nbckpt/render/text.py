"""Pages as text, for terminals, logs and front ends without HTML. Also makes any text safe to print.

Names, captions and messages come from stores, and a store may come from a stranger. All printed text goes
through `visible`. See docs/decisions/0050.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from nbckpt.errors import visible
from nbckpt.render.page import Cell, Page, Table
from nbckpt.render.sparkline import blocks
from nbckpt.render.values import short

_WIDEST = 60
_GAP = 2
_NARROWEST = 4


def text(page: Page) -> str:
    """Return the page as lines of plain text, without control characters for a terminal.

    In a terminal, tables fit its width: long cells wrap.
    """
    width = shutil.get_terminal_size().columns if _is_terminal() else 0
    return "\n".join(map(visible, _lines(page, width)))


def _is_terminal() -> bool:
    with suppress(AttributeError, ValueError):  # there is none, it is the user's own, or it is closed
        return sys.stdout.isatty()
    return False


def _lines(page: Page, width: int) -> Iterator[str]:
    if page.headline:
        yield page.headline
    yield from lines_of(page.code)
    yield from (f"  {note}" for note in page.notes)
    for table in page.tables:
        if table.rows:
            yield ""
            yield f"{table.caption}:"
            yield from _table(table, width)
    for row in page.beside:
        for part in row:
            yield from _lines(part, width)
    for fold in page.folds:
        yield ""
        yield fold.summary if fold.quiet else f"{fold.summary}:"
        if not fold.quiet:
            yield from (f"    {line}" for line in fold.text.splitlines())
    if page.pictures:
        yield ""
        yield f"pictures (shown in a notebook): {', '.join(picture.alt for picture in page.pictures)}"
    if page.frames:
        yield ""
        yield f"pages (shown in a notebook): {', '.join(frame.title for frame in page.frames)}"
    if page.hints:
        yield ""
        yield "   ".join(map(str, page.hints))


def lines_of(code: str) -> list[str]:
    r"""Return the lines of code. Only a newline ends one: other ends of lines belong to a text in it.

    >>> lines_of("a\rb\nc\n"), lines_of("")
    (['a\rb', 'c'], [])
    """
    return code.removesuffix("\n").split("\n") if code else []


def _cells_of(row: tuple[Cell | str, ...], count: int) -> Iterator[list[str]]:
    """Yield the *count* cells of a row. An empty line stands before a heading."""
    if len(row) < count:
        yield [""] * count
    colon = ":" if len(row) < count else ""
    yield [*(_cell(cell) + colon for cell in row), *[""] * (count - len(row))]


def _table(table: Table, width: int) -> list[str]:
    """Return the lines of a table, at most *width* characters wide if that is possible; 0 for any width."""
    import tabulate

    headers = [visible(column.name) for column in table.columns]
    rows = [line for row in table.rows for line in _cells_of(row, len(headers))]
    lines = partial(
        tabulate.tabulate,
        disable_numparse=True,
        colalign=["right" if column.number else "left" for column in table.columns],
    )
    text = lines(rows, headers=headers, tablefmt="simple")
    if width and max(map(len, text.splitlines())) > width:
        # Headers of tabulate have a margin, for which there is no room.
        widths = fitting([max(map(len, cells)) for cells in zip(headers, *rows, strict=True)], width)
        dashes = ["-" * wide for wide in widths]
        text = lines([headers, dashes, *rows], tablefmt="plain", maxcolwidths=widths)
    return [line.rstrip() for line in text.splitlines()]


def fitting(widths: Sequence[int], width: int) -> list[int]:
    """Return narrower widths for the widest columns, so that a table fits *width* if that is possible.

    >>> fitting([10, 60, 3], 50), fitting([10, 30, 3], 50)
    ([10, 33, 3], [10, 30, 3])
    """
    room = width - _GAP * (len(widths) - 1)
    most = max(widths)
    while most > _NARROWEST and sum(min(most, wide) for wide in widths) > room:
        most -= 1
    return [min(most, wide) for wide in widths]


def _cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return short(visible(cell), _WIDEST)
    return " ".join(filter(None, (blocks(cell.course), short(visible(cell.text), _WIDEST))))


def error_text(error: BaseException) -> str:
    """Return an exception's type and message. If its `__str__` fails, return the type alone.

    >>> error_text(ValueError("no")), error_text(ValueError())
    ('ValueError: no', 'ValueError')
    """
    name = type(error).__name__
    try:
        return f"{name}: {error}" if str(error) else name
    except Exception:  # noqa: BLE001  it is code of the user's
        return name


def _say_visibly(record: logging.LogRecord) -> bool:
    """Make a log message safe to print: it may contain file names, URLs and errors of other people."""
    record.msg, record.args = visible(record.getMessage()), ()
    return True


logging.getLogger("nbckpt").addFilter(_say_visibly)
