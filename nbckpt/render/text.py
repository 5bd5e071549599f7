"""Pages as text, for terminals, logs and front ends without HTML."""

from __future__ import annotations

from collections.abc import Iterator

from nbckpt.render.course import blocks
from nbckpt.render.page import Cell, Page, Table
from nbckpt.render.values import short

_WIDEST = 60


def text(page: Page) -> str:
    """Return the page as lines of plain text."""
    return "\n".join(_lines(page))


def _lines(page: Page) -> Iterator[str]:
    if page.headline:
        yield visible(page.headline)
    yield from map(visible, page.code.splitlines())
    yield from (f"  {visible(note)}" for note in page.notes)
    for table in page.tables:
        if table.rows:
            yield ""
            yield f"{table.caption}:"
            yield from _table(table)
    for fold in page.folds:
        yield ""
        yield visible(fold.summary) if fold.quiet else f"{visible(fold.summary)}:"
        if not fold.quiet:
            yield from (f"    {visible(line)}" for line in fold.text.splitlines())
    if page.pictures:
        yield ""
        yield f"pictures (shown in a notebook): {', '.join(it.alt for it in page.pictures)}"
    if page.advice:
        yield ""
        yield page.advice


def _table(table: Table) -> list[str]:
    import tabulate

    rows = [list(map(_cell, row)) for row in table.rows]
    text = tabulate.tabulate(
        rows,
        headers=[column.name for column in table.columns],
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
    """Return *text* so that control characters, which could rewrite the terminal, take no effect."""
    return "".join(c if c.isprintable() else " " if c in "\n\t\r" else repr(c)[1:-1] for c in text)
