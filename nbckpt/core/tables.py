"""Tables of a checkpoint's contents, made from its manifest alone. They load no values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nbckpt.core.manifest import Value
from nbckpt.core.values.preview import MOST_TEXT
from nbckpt.render import Cell, Column, Table, count, short, size

Row = tuple[Cell | str, ...]

# A preview may come from a stranger, and have any length.
_MOST_HINT = 8000
_MOST_DIMENSIONS = 64


def values_table(
    caption: str, values: Iterable[tuple[str, Mapping[str, Any]]], most: int | None = None
) -> Table:
    """Return a table of named values, given as names and previews. *caption* is their plural noun."""
    columns = (
        Column(caption.removesuffix("s"), code=True),
        Column("type"),
        Column("shape"),
        Column("size", number=True),
        Column("content", code=True),
    )
    return _table(caption, columns, [_row(name, preview) for name, preview in values], most)


def previews(values: Iterable[Value]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the names and previews of values."""
    return [(value.name, value.preview) for value in values]


def files_table(sizes: Mapping[str, int | None], most: int | None = None) -> Table:
    """Return a table of files by path. A size is None if it is not known."""
    rows: list[Row] = [
        (path, "" if number is None else size(number)) for path, number in sorted(sizes.items())
    ]
    return _table("files", (Column("file", code=True), Column("size", number=True)), rows, most)


def _extent(preview: Mapping[str, Any]) -> str:
    """Return a value's shape or length as text."""
    if preview.get("shape") is not None:
        return " x ".join(map(str, preview["shape"][:_MOST_DIMENSIONS])) or "scalar"
    return count(preview["length"], "item") if preview.get("length") is not None else ""


def _row(name: str, preview: Mapping[str, Any]) -> Row:
    dtype = short(f" {preview['dtype']}", MOST_TEXT) if preview.get("dtype") else ""
    columns = ", ".join(f"{name}: {kind}" for name, kind in preview.get("columns", ()))
    text = columns or str(preview.get("text", ""))
    return (
        name,
        Cell(short(str(preview.get("type", "?")), MOST_TEXT), short(columns, _MOST_HINT)),
        _extent(preview) + dtype,
        size(preview["bytes"]) if "bytes" in preview else "",
        Cell(short(text, 80), short(text, _MOST_HINT)),
    )


def _table(caption: str, columns: tuple[Column, ...], rows: list[Row], most: int | None) -> Table:
    """Return the first rows as a table. The size column is left out if no size is known."""
    shown = rows[:most]
    if len(rows) > len(shown):
        caption += f"; {len(shown)} of {len(rows):,}"
    shown_at = [at for at, column in enumerate(columns) if not column.number or any(row[at] for row in shown)]
    lines = tuple(tuple(row[at] for at in shown_at) for row in shown)
    return Table(caption, tuple(columns[at] for at in shown_at), lines)
