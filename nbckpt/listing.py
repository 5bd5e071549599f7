"""Listing: checkpoints, including those of trials, as rows of a table. Only the rows shown are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from nbckpt.core.environment import NAMES
from nbckpt.core.history import History
from nbckpt.core.manifest import Manifest
from nbckpt.core.references import SHORT, Entry, Ref, References
from nbckpt.errors import NbckptError
from nbckpt.render import Cell, Column, Table, age, count, short, size
from nbckpt.states.snapshot import PREFIX, is_state

if TYPE_CHECKING:
    from nbckpt.trials.checkpoint_index import TrialCheckpoint


@dataclass(frozen=True)
class Row:
    """A checkpoint in a listing.

    Attributes:
        ref: Its unambiguous reference for commands: the full id, or `EXPERIMENT/t3@10` for a checkpoint of a
            trial.
        refs: Its names. A checkpoint of a trial has no names.
        manifest: Its manifest, or None if the manifest cannot be read; then *trouble* says why.
        size: Its size in bytes.
        trusted: Whether a restore is allowed without `--trust`.
    """

    ref: str
    refs: tuple[Ref, ...]
    manifest: Manifest | None
    size: int = 0
    trusted: bool = False
    trouble: str = ""

    @property
    def id(self) -> str:
        """Its id. Empty for a checkpoint of a trial."""
        return "" if "/" in self.ref else self.ref

    @property
    def label(self) -> str:
        """Its label for people: its names, or else its short id or its reference."""
        return ", ".join(map(str, self.refs)) or self.id[:SHORT] or self.ref

    @property
    def variables(self) -> list[str]:
        """The names of its variables, largest first."""
        return [name for name in self._names if not is_state(name) and name not in NAMES]

    @property
    def states(self) -> list[str]:
        """The names of its states, largest first."""
        return [name.removeprefix(PREFIX) for name in self._names if is_state(name)]

    @property
    def _names(self) -> list[str]:
        values = self.manifest.values if self.manifest is not None else ()
        return [value.name for value in sorted(values, key=lambda value: -value.preview.get("bytes", 0))]

    def says(self, text: str) -> bool:
        """Tell whether *text* occurs in its names, id, message, variables or file names."""
        words = [self.label, self.id, self.trouble, *self.variables, *self.states]
        if self.manifest is not None:
            words += [self.manifest.message, *self.manifest.files]
        return any(text.casefold() in word.casefold() for word in words)


class Rows:
    """Reads rows, one at a time. A checkpoint that cannot be read becomes a row with the reason.

    Args:
        history: The store's checkpoints and their signatures.
        names: The store's names; by default those of *history*.
    """

    def __init__(self, history: History, names: References | None = None) -> None:
        self._history = history
        self._names = names or history
        self._metric = lru_cache(maxsize=None)(_metric_of)

    @cached_property
    def _refs(self) -> dict[str, tuple[Ref, ...]]:
        refs: dict[str, tuple[Ref, ...]] = {}
        for ref in self._names.refs():
            refs[ref.id] = (*refs.get(ref.id, ()), ref)
        return refs

    def read(self, checkpoint: Entry | TrialCheckpoint) -> Row:
        """Return the row of a checkpoint."""
        ref = checkpoint.id if isinstance(checkpoint, Entry) else checkpoint.ref
        refs = self._refs.get(ref, ())
        try:
            return Row(ref, refs, *self._look(checkpoint))
        except (NbckptError, OSError) as error:
            return Row(ref, refs, None, trouble=str(error))

    def _look(self, checkpoint: Entry | TrialCheckpoint) -> tuple[Manifest, int, bool]:
        """Return the manifest of a checkpoint, its size, and whether it may be restored."""
        if isinstance(checkpoint, Entry):
            manifest = self._history.read(checkpoint)
            return manifest, manifest.size(), self._history.trusted(manifest)
        manifest, taken = checkpoint.read(self._metric(checkpoint.trial.parent))
        return manifest, taken, not manifest.values or self._history.signer.signed(manifest)


def _metric_of(experiment: Path) -> str:
    from nbckpt.trials.checkpoint_index import metric_of  # imported only if checkpoints of trials are listed

    return metric_of(experiment)


def read_rows(history: History, checkpoints: Iterable[Entry | TrialCheckpoint]) -> tuple[Row, ...]:
    """Return a row for each checkpoint that is there, in the given order."""
    rows = Rows(history)
    read = ((checkpoint, rows.read(checkpoint)) for checkpoint in checkpoints)
    return tuple(row for checkpoint, row in read if row.manifest or not _is_gone(history, checkpoint))


def _is_gone(history: History, checkpoint: Entry | TrialCheckpoint) -> bool:
    """Tell whether a checkpoint was listed by a catalogue, or just now, and is not in the store."""
    return isinstance(checkpoint, Entry) and not history.store.exists(checkpoint.key)


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
    label = Cell(row.label if row.refs or not row.id else "-")
    name = Cell(row.id[:SHORT] or "-", row.id)
    manifest = row.manifest
    if manifest is None:
        return (label, name, row.trouble, "", "", "", "", "", "")
    cell = manifest.provenance.get("cell", {})
    new = manifest.provenance.get("new_bytes")
    return (
        label,
        name,
        manifest.message,
        age(manifest.created_at),
        size(row.size),
        size(new) if isinstance(new, int) else "-",
        _contents(row, manifest),
        Cell(f"[{cell['count']}]" if cell.get("count") else "-", str(cell.get("source", ""))[:500]),
        "yes" if row.trusted else "no",
    )


def _contents(row: Row, manifest: Manifest) -> Cell:
    """Return the contents of a checkpoint for its cell: variables and states, or else files."""
    groups = (("", row.variables), ("states: ", row.states))
    shown = "; ".join(kind + _some(names) for kind, names in groups if names)
    names = [*row.variables, *row.states] or sorted(manifest.files)
    files = count(len(manifest.files), "file") if manifest.files else "-"
    return Cell(short(shown, 50) or files, ", ".join(names[:100]))


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f", … ({len(names)})" if len(names) > 3 else "")
