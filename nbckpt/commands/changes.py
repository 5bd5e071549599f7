"""Changes: tables of the variables that a restore changed or could not load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nbckpt.core.values.loading import Failure
from nbckpt.render import Column, Table


def failures_table(failed: Iterable[Failure], caption: str) -> Table:
    """Return a table of the variables that were not restored, with reasons."""
    rows = tuple((", ".join(failure.names), failure.reason) for failure in failed)
    return Table(caption, (Column("variable", code=True), Column("reason")), rows)


def changes_table(changes: Mapping[str, str], *, dry_run: bool = False) -> Table:
    """Return a table of the changes and their variables."""
    words = {
        "new": "new",
        "same": "unchanged",
        "changed": "replaced",
        "removed": "deleted, as in the checkpoint",
    }
    groups: dict[str, list[str]] = {}
    for name, change in changes.items():
        groups.setdefault(words[change], []).append(name)
    rows = tuple((kind, ", ".join(names)) for kind, names in groups.items())
    columns = (Column("change"), Column("variables", code=True))
    return Table("what would change" if dry_run else "what changed", columns, rows)
