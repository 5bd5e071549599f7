"""diff: compare two checkpoints, or one with the live variables. Only trusted values are unpickled."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nbckpt.commands.meaning import find_ref, is_trial
from nbckpt.commands.options import Step
from nbckpt.commands.table import Session
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.diff import Difference
from nbckpt.core.files import FILES, KIND
from nbckpt.errors import NbckptError
from nbckpt.provenance.document import Provenance
from nbckpt.provenance.trial import read_attempts
from nbckpt.render import Column, Fold, Page, Result, Table, count
from nbckpt.tracker import Compared
from nbckpt.tracker.comparing import Comparable, by_name

_MOST_ORIGINS = 30


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """The comparison of two checkpoints, or of one with the live variables."""

    compared: Compared
    old: str
    new: str

    def page(self) -> Page:
        """See `Result.page`."""
        compared = self.compared
        differ = [difference for difference in compared.differences if difference.change != "same"]
        files = [difference for difference in compared.files if difference.change != "same"]
        same = len(compared.differences) - len(differ)
        packages = Table(
            "packages that differ",
            (Column("package"), Column(self.old), Column(self.new)),
            tuple(compared.packages),
        )
        notes = [f"{count(same, 'variable is', 'variables are')} the same."] if same else []
        if compared.is_part:
            notes.append(f"{self.old} holds a part of all variables. Only this part is compared.")
        notes += (
            []
            if compared.loaded
            else ["Only digests and previews are compared, because you did not sign all of the values."]
        )
        folds = (
            (Fold("the cells that saved them differ", "\n".join(compared.source)),) if compared.source else ()
        )
        headline = f"{self.old} -> {self.new}: {count(len(differ), 'variable differs', 'variables differ')}"
        if compared.files:
            headline += f", {count(len(files), 'file differs', 'files differ')}"
        tables = _table("variable", differ), _table("file", files), packages, self._origins()
        return Page(headline, tables, tuple(notes), folds)

    def _origins(self) -> Table:
        """Return a table of what else differs. It leaves out packages that the table of packages has."""
        known = {f"package {name}" for name, *_ in self.compared.packages}
        rows = [row for row in self.compared.provenance if row[0] not in known]
        more = f"; {_MOST_ORIGINS} of {len(rows)}" if len(rows) > _MOST_ORIGINS else ""
        columns = (Column("part", code=True), Column(self.old), Column(self.new))
        return Table(f"where they come from{more}", columns, tuple(rows[:_MOST_ORIGINS]))


def _table(kind: str, differ: Sequence[Difference]) -> Table:
    """Return a table of differences."""
    rows = tuple((difference.name, difference.change, "; ".join(difference.details)) for difference in differ)
    return Table(f"{kind}s that differ", (Column(kind, code=True), Column("change"), Column("details")), rows)


def diff(session: Session, old: Step, new: Step = "") -> Comparison:
    """Compare a checkpoint with another or with live variables.

    Args:
        old: The older checkpoint; EXP/t3@10 for a checkpoint of a trial.
        new: The newer checkpoint; by default the live variables.
    """
    namespace = None if new else session.live("diff A")
    tracker = session.tracker
    after = _side(session, new) if new else ""
    return Comparison(tracker.diff(_side(session, old), after, namespace, session.hidden), old, new or "now")


def _side(session: Session, ref: str) -> Comparable:
    """Return a checkpoint, of variables or of a trial, as one side of a comparison."""
    entry = find_ref(session, ref) if is_trial(ref) else None
    if entry or not is_trial(ref):
        return session.tracker.comparable(entry or ref)
    from nbckpt.trials.checkpoint_index import TrialCheckpoint

    trial, record = session.library.checkpoint(ref)
    manifest, _ = TrialCheckpoint(trial.folder, record.name).read()
    is_ours = session.tracker.history.signer.signed(manifest)

    @cache
    def fields() -> dict[str, Any]:
        kept = Checkpoint.from_directory(trial.folder / record.name).to_dict()
        return {str(key): value for key, value in kept.items() if key not in {FILES, KIND}}

    files = {path: saved for path, saved in record.files.items() if path in manifest.files}
    load = (lambda name: fields()[name]) if is_ours or not manifest.values else None
    return Comparable(manifest, by_name(manifest), load, files, provenance=_of_trial(trial.folder))


def _of_trial(folder: Path) -> Provenance | None:
    """Return the provenance of a trial's last attempt, or None if it cannot be read."""
    with suppress(NbckptError):
        return read_attempts(folder)[-1]
    return None
