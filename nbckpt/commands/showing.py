"""show: look at one checkpoint, trial or experiment in detail. Nothing is unpickled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from shlex import quote
from typing import Annotated, Any

from nbckpt.commands.meaning import also_a_trial, find_ref, is_trial
from nbckpt.commands.options import Word
from nbckpt.commands.saving import torn_note
from nbckpt.commands.table import Session
from nbckpt.core.environment import NAMES
from nbckpt.core.manifest import Manifest
from nbckpt.core.packs.reader import Reader
from nbckpt.core.tables import files_table, previews, values_table
from nbckpt.errors import CorruptError, UsageError
from nbckpt.listing import Row, Rows
from nbckpt.provenance.checkpoint import read_provenance
from nbckpt.provenance.lines import described
from nbckpt.render import Column, Fold, Hint, Page, Picture, Result, Table, age, count, size
from nbckpt.trials import Experiment
from nbckpt.trials.checkpoint_index import TrialCheckpoint
from nbckpt.trials.views.media import newest_media
from nbckpt.trials.views.trial_page import TrialShown, provenance_of

_MOST_PICTURES = 12
_MOST_PICTURE = 4 << 20


@dataclass(frozen=True, repr=False)
class Shown(Result):
    """All details of one checkpoint."""

    row: Row
    pictures: tuple[Picture, ...] = ()
    also: str = ""
    provenance: tuple[str, ...] = ()
    hints: tuple[Hint, ...] = ()

    @property
    def exit_status(self) -> int:
        """See `Result.exit_status`: 1 if the checkpoint is damaged."""
        return int(self.row.manifest is None)

    def page(self) -> Page:
        """See `Result.page`."""
        manifest = self.row.manifest
        if manifest is None:
            return Page(self.row.trouble)
        provenance = manifest.provenance
        when = age(manifest.created_at)
        message = f": {manifest.message}" if manifest.message else ""
        name = f"id {manifest.id[:16]}, " if self.row.id else ""
        notes = [f"{name}saved {when.text} ({when.hint}), {size(self.row.size)}"]
        if provenance.get("notebook"):
            notes.append(f"from {provenance['notebook']}")
        if provenance.get("python") and not self.provenance:
            notes.append(f"Python {provenance['python']} on {provenance.get('system', '?')}")
        if not self.row.trusted:
            ref = quote(self.row.label.split(", ")[0])
            once, for_good = f"%ckpt restore {ref} --trust", f"%ckpt trust {ref}"
            notes.append(f"Not signed by you. To restore it once: {once}. To sign it for good: {for_good}")
        states = [value.name for value in manifest.values if value.name in NAMES]
        notes += [self.also] if self.also else []
        notes += [f"Also saved: {_settings(states)}."] if states else []
        notes += [f"Deleted before the save: {', '.join(manifest.deleted)}."] if manifest.deleted else []
        return Page(
            f"{self.row.label}{message}",
            (_variables(manifest), _skipped(manifest), _files(manifest)),
            (
                *notes,
                *torn_note(value.name for value in manifest.values if value.changed),
                *manifest.warnings,
                *self.provenance,
            ),
            tuple(_folds(provenance)),
            self.pictures,
            self.hints,
        )


def _settings(names: Sequence[str]) -> str:
    """Return the saved settings of libraries as text."""
    generators = [name.removesuffix(".state").removesuffix(".random") for name in names if "random" in name]
    said = [f"random generator states ({', '.join(generators)})"] if generators else []
    return ", ".join(said + ["NumPy print options"] * ("numpy.printoptions" in names))


def _variables(manifest: Manifest) -> Table:
    return values_table("variables", previews(value for value in manifest.values if value.name not in NAMES))


def _files(manifest: Manifest) -> Table:
    return files_table({path: content.size for path, content in manifest.files.items()})


def _skipped(manifest: Manifest) -> Table:
    columns = (Column("variable", code=True), Column("because of", code=True), Column("reason"))
    return Table(
        "not saved",
        columns,
        tuple((skipped.name, skipped.path, skipped.reason) for skipped in manifest.skipped),
    )


def _folds(provenance: Any) -> Iterable[Fold]:
    cell = provenance.get("cell", {})
    if cell.get("source"):
        yield Fold(f"cell [{cell.get('count', '?')}]", str(cell["source"]))
    packages = provenance.get("packages", {})
    if packages:
        yield Fold(
            count(len(packages), "package"),
            "  ".join(f"{name} {version}" for name, version in packages.items()),
        )


def show(
    session: Session,
    ref: Annotated[str, Word("REF", "ref or trial")],
    *,
    step: Annotated[int | None, Word("N")] = None,
    name: Annotated[str, Word("NAME")] = "",
) -> Shown | TrialShown | Experiment:
    """Show a checkpoint or a trial in detail.

    For a checkpoint these are its variables, with previews and pictures, and the cell that saved it.

    Args:
        ref: A name, name@3, an id, latest or latest~2; EXP/t3 for a trial, EXP/t3@10 for its checkpoint.
        step: For a trial, show the media of this result, such as images and tables.
        name: For a trial, show only the media of this name.
    """
    tracker = session.tracker
    entry = find_ref(session, ref)
    if entry is None and is_trial(ref) and "@" not in ref:
        shown = TrialShown(*session.library.trial(ref), step=step, name=name)
        newest_media(shown.trial, step, name)  # raises an error if there are none
        return shown
    if name or step is not None:
        raise UsageError("--step and --name are for the media of a trial: %ckpt show EXP/t3 --step 10")
    if entry is None and is_trial(ref):
        return _checkpoint_of_trial(session, ref)
    if entry is None and ref in session.library.names():
        return session.library.open(ref)
    row = Rows(tracker.history, tracker.history.listed()).read(entry or tracker.find(ref))
    if row.manifest is None:
        return Shown(row)
    reader = tracker.read(row.manifest)
    provenance = tuple(described(read_provenance(row.manifest, reader)))
    return Shown(row, tuple(_pictures(row.manifest, reader)), also_a_trial(session, ref), provenance)


def _pictures(manifest: Manifest, reader: Reader) -> Iterable[Picture]:
    """Yield the pictures of the values. Leave out damaged pictures and those above the size limit."""
    small = [value for value in manifest.values if value.picture and value.picture.size <= _MOST_PICTURE]
    for value in small[:_MOST_PICTURES]:
        with suppress(CorruptError):  # `verify` reports the damage
            if value.picture:
                yield Picture(value.name, reader.read(reader.sized(value.picture)))


def _checkpoint_of_trial(session: Session, ref: str) -> Shown:
    trial, record = session.library.checkpoint(ref)
    row = Rows(session.tracker.history).read(TrialCheckpoint(trial.folder, record.name))
    return Shown(row, provenance=provenance_of(trial), hints=(Hint("Restore", f"%ckpt restore {row.ref}"),))
