"""Pages as Markdown (GitHub's flavour). Every character that means something there is escaped."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from nbckpt.errors import visible
from nbckpt.render.page import Cell, Page, Table
from nbckpt.render.text import lines_of

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~$&@:])")
_FENCE = re.compile("`{3,}")


def markdown(page: Page) -> str:
    """Return a page as Markdown, without its hints. HTML and SVG of strangers are left out."""
    return "\n\n".join(_parts(page)) + "\n"


def _parts(page: Page) -> Iterator[str]:
    if page.headline:
        yield f"**{plain(page.headline)}**"
    if page.code:
        yield fenced(page.code)
    if page.notes:
        yield "\n".join(f"- {plain(note)}" for note in page.notes)
    for table in page.tables:
        if table.rows:
            yield f"{plain(table.caption)}:\n\n{_table(table)}"
    for picture in page.pictures:
        kind = "svg+xml" if picture.form == "svg" else "png"
        data = base64.b64encode(picture.data).decode()
        yield f"![{plain(picture.alt)}](data:image/{kind};base64,{data})"
    for frame in page.frames:
        yield f"{plain(frame.title)}: HTML, which Markdown cannot show safely"
    for row in page.beside:
        for part in row:
            yield from _parts(part)
    for fold in page.folds:
        joined = "\n".join(fold.text.splitlines())
        yield f"{plain(fold.summary)}:\n\n{fenced(joined)}"


def plain(text: str) -> str:
    r"""Return a text on one line that Markdown shows as it is.

    >>> print(plain("a_b <b>|\n# x"))
    a\_b \<b\>\| \# x
    """
    return _SPECIAL.sub(r"\\\1", " ".join(visible(text).split()))


def fenced(text: str) -> str:
    """Return lines of code; the fence is longer than any in them."""
    fence = "`" * max(3, *(len(run) + 1 for run in _FENCE.findall(text)), 3)
    lines = "\n".join(map(visible, lines_of(text)))
    return f"{fence}\n{lines}\n{fence}"


def _table(table: Table) -> str:
    rows = [[plain(column.name) for column in table.columns]]
    rows.append(["---:" if column.number else "---" for column in table.columns])
    rows += [_cells(row, len(table.columns)) for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(row: tuple[Cell | str, ...], count: int) -> list[str]:
    cells = list(map(_cell, row))
    return cells if len(cells) == count else [f"*{cells[0]}*", *[""] * (count - 1)]


def _cell(cell: Cell | str) -> str:
    return plain(cell.text if isinstance(cell, Cell) else cell)
