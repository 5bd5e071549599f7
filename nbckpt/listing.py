"""Listing: checkpoints as rows of a table, read from their manifests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nbckpt.core.history import SHORT, Entry, History, Ref
from nbckpt.core.manifest import Manifest
from nbckpt.core.surroundings import NAMES
from nbckpt.errors import NbckptError
from nbckpt.render import Cell, Column, Table, age, count, short, size


@dataclass(frozen=True)
class Row:
    """A checkpoint in a listing.

    Attributes:
        entry: Its place in the history.
        refs: Its names.
        manifest: What it is; None where it cannot be read, and then *trouble* says why.
        trusted: Whether it may be restored without further words.
    """

    entry: Entry
    refs: tuple[Ref, ...]
    manifest: Manifest | None
    trusted: bool = False
    trouble: str = ""


def listing_table(rows: Iterable[Row]) -> Table:
    """Return the table of checkpoints that `ls` and `status` show."""
    columns = (
        *(Column("checkpoint"), Column("id", code=True), Column("message"), Column("saved")),
        *(
            Column("size", number=True),
            Column("new", number=True),
            Column("variables"),
            Column("cell"),
            Column("trusted"),
        ),
    )
    return Table("checkpoints, newest first", columns, tuple(map(_row, rows)))


def _row(row: Row) -> tuple[Cell | str, ...]:
    label = Cell(", ".join(map(str, row.refs)) or "-")
    name = Cell(row.entry.id[:SHORT], row.entry.id)
    manifest = row.manifest
    if manifest is None:
        return (label, name, row.trouble, "", "", "", "", "", "")
    largest = sorted(manifest.values, key=lambda value: -value.preview.get("bytes", 0))
    variables = [value.name for value in largest if value.name not in NAMES]
    shown = ", ".join(variables[:3]) + (f", … ({len(variables)})" if len(variables) > 3 else "")
    cell = manifest.provenance.get("cell", {})
    new = manifest.provenance.get("new_bytes")
    return (
        label,
        name,
        manifest.message,
        age(manifest.created_at),
        size(manifest.size()),
        size(new) if isinstance(new, int) else "-",
        Cell(short(shown, 50) or count(len(manifest.files), "file"), ", ".join(variables[:100])),
        Cell(f"[{cell['count']}]" if cell.get("count") else "-", str(cell.get("source", ""))[:500]),
        "yes" if row.trusted else "no",
    )


def read_rows(history: History, entries: Iterable[Entry]) -> tuple[Row, ...]:
    """Read what a listing shows of *entries*; one that cannot be read is listed with the reason."""
    by_id: dict[str, list[Ref]] = {}
    for ref in history.refs():
        by_id.setdefault(ref.id, []).append(ref)
    rows = []
    for entry in entries:
        refs = tuple(by_id.get(entry.id, ()))
        try:
            manifest = history.read(entry)
            rows.append(Row(entry, refs, manifest, history.trusted(manifest)))
        except NbckptError as error:
            rows.append(Row(entry, refs, None, trouble=str(error)))
    return tuple(rows)
