"""status, ls, show, diff: look at what is kept. Nothing is unpickled but, in diff, what is trusted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nbckpt.commands.table import Command, Session, option
from nbckpt.commands.trials import also_a_trial, is_ref, is_trial, show_trial
from nbckpt.core.history import SHORT
from nbckpt.core.manifest import Manifest
from nbckpt.core.shown import files_table, previews, values_table
from nbckpt.core.surroundings import NAMES
from nbckpt.errors import NbckptError
from nbckpt.listing import Row as Row
from nbckpt.listing import listing_table, read_rows
from nbckpt.render import Column, Fold, Page, Picture, Result, Table, age, count, size
from nbckpt.store import LocalStore
from nbckpt.tracker import Compared, Tracker
from nbckpt.trials.table import counted, states_of

_MOST_PICTURES = 12
_SHOWN = 20


@dataclass(frozen=True, repr=False)
class Listing(Result):
    """Checkpoints, newest first."""

    rows: tuple[Row, ...]
    total: int
    where: str

    def page(self) -> Page:
        """See `Result.page`."""
        if not self.rows:
            return Page(f"no checkpoints in {self.where}", advice="make one: %ckpt save")
        more = f"; the newest {len(self.rows)} of them" if self.total > len(self.rows) else ""
        rest = "all of them: %ckpt ls -n 0" if more else ""
        return Page(
            f"{count(self.total, 'checkpoint')} in {self.where}{more}",
            (listing_table(self.rows),),
            advice=rest,
        )


def ls(session: Session, name: str | None, most: int) -> Listing:
    """List the checkpoints, newest first."""
    tracker = session.tracker
    entries = tracker.entries()
    if name is not None:
        tracker.find(name)
        targets = {ref.id for ref in tracker.history.refs(name)} or {tracker.find(name).id}
        entries = [entry for entry in entries if entry.id in targets]
    return Listing(read_rows(tracker.history, entries[: most or None]), len(entries), tracker.store.url)


@dataclass(frozen=True, repr=False)
class Status(Result):
    """The store at a glance."""

    where: str
    total: int
    space: int | None
    rows: tuple[Row, ...]
    undo: str
    trials: str = ""

    def page(self) -> Page:
        """See `Result.page`."""
        space = f", {size(self.space)} on disk" if self.space else ""
        advice = "save: %ckpt save NAME   look: %ckpt ls   back: %ckpt restore REF   more: %ckpt help"
        undo = f"%ckpt undo takes back the {self.undo}" if self.undo else ""
        notes = tuple(filter(None, (undo, self.trials)))
        tables = (listing_table(self.rows),) if self.rows else ()
        return Page(
            f"{count(self.total, 'checkpoint')} in {self.where}{space}",
            tables,
            notes,
            advice=advice,
        )


def status(session: Session) -> Status:
    """Show the store, its newest checkpoints and what can be undone."""
    tracker = session.tracker
    entries = tracker.entries()
    return Status(
        tracker.store.url,
        len(entries),
        _space(tracker),
        read_rows(tracker.history, entries[:3]),
        tracker.undoable,
        _newest_trials(session),
    )


def _newest_trials(session: Session) -> str:
    """Return how the newest experiment goes, in a sentence."""
    try:
        experiment = session.library.open()
    except NbckptError:
        return ""
    return f"the newest experiment, {experiment.name}, has {counted(states_of(experiment))}: %ckpt trials"


def _space(tracker: Tracker) -> int | None:
    """Return the bytes that a local store takes."""
    if not isinstance(tracker.store, LocalStore):
        return None
    return sum(file.stat().st_size for file in tracker.store.folder.rglob("*") if file.is_file())


@dataclass(frozen=True, repr=False)
class Shown(Result):
    """One checkpoint in full."""

    row: Row
    pictures: tuple[Picture, ...] = ()
    also: str = ""

    def page(self) -> Page:
        """See `Result.page`."""
        manifest = self.row.manifest
        if manifest is None:
            return Page(self.row.trouble)
        provenance = manifest.provenance
        label = ", ".join(map(str, self.row.refs)) or manifest.id[:SHORT]
        when = age(manifest.created_at)
        message = f": {manifest.message}" if manifest.message else ""
        notes = [f"id {manifest.id[:16]}, saved {when.text} ({when.hint}), {size(manifest.size())}"]
        if provenance.get("notebook"):
            notes.append(f"from {provenance['notebook']}")
        if provenance.get("python"):
            notes.append(f"Python {provenance['python']} on {provenance.get('system', '?')}")
        notes += (
            []
            if self.row.trusted
            else ["not signed by you: it can be looked at, not restored without --trust"]
        )
        states = [value.name for value in manifest.values if value.name in NAMES]
        notes += [self.also] if self.also else []
        notes += [f"with it: {', '.join(states)}"] if states else []
        notes += [f"deleted before it was saved: {', '.join(manifest.deleted)}"] if manifest.deleted else []
        return Page(
            f"{label}{message}",
            (_variables(manifest), _skipped(manifest), _files(manifest)),
            (*notes, *manifest.warnings),
            tuple(_folds(provenance)),
            self.pictures,
        )


def _variables(manifest: Manifest) -> Table:
    return values_table("variables", previews(it for it in manifest.values if it.name not in NAMES))


def _files(manifest: Manifest) -> Table:
    return files_table({path: content.size for path, content in manifest.files.items()})


def _skipped(manifest: Manifest) -> Table:
    columns = (Column("variable", code=True), Column("because of", code=True), Column("reason"))
    return Table("not saved", columns, tuple((it.name, it.path, it.reason) for it in manifest.skipped))


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


def show(session: Session, ref: str) -> Result:
    """Show a checkpoint: its variables, previews, pictures, the cell that made it; or a trial."""
    tracker = session.tracker
    if not is_ref(session, ref):
        if is_trial(ref):
            return show_trial(session, ref)
        if ref in session.library.names():
            return session.library.open(ref)
    row = read_rows(tracker.history, [tracker.find(ref)])[0]
    if row.manifest is None:
        return Shown(row)
    reader = tracker.read(row.manifest)
    found = [value for value in row.manifest.values if value.picture][:_MOST_PICTURES]
    pictures = tuple(Picture(value.name, reader.read(value.picture.runs)) for value in found if value.picture)
    return Shown(row, pictures, also_a_trial(session, ref))


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Two checkpoints, or one and what is live, side by side."""

    compared: Compared
    old: str
    new: str

    def page(self) -> Page:
        """See `Result.page`."""
        compared = self.compared
        differ = [it for it in compared.differences if it.change != "same"]
        same = len(compared.differences) - len(differ)
        rows = tuple((it.name, it.change, "; ".join(it.details)) for it in differ)
        table = Table(
            "variables that differ",
            (Column("variable", code=True), Column("change"), Column("details")),
            rows,
        )
        packages = Table(
            "packages that differ",
            (Column("package"), Column(self.old), Column(self.new)),
            tuple(compared.packages),
        )
        notes = [f"{count(same, 'variable is', 'variables are')} the same"] if same else []
        notes += (
            []
            if compared.loaded
            else ["compared by digests and previews only: not all of it is signed by you"]
        )
        folds = (
            (Fold("the cells that saved them differ", "\n".join(compared.source)),) if compared.source else ()
        )
        headline = f"{self.old} -> {self.new}: {count(len(differ), 'variable differs', 'variables differ')}"
        return Page(headline, (table, packages), tuple(notes), folds)


def diff(session: Session, old: str, new: str | None) -> Comparison:
    """Compare checkpoint A with B, or with the live variables."""
    namespace = None if new else session.live("diff A")
    compared = session.tracker.diff(old, new or "", namespace, session.hidden)
    return Comparison(compared, old, new or "now")


COMMANDS = (
    Command("status", status),
    Command(
        "ls",
        ls,
        (
            option("name", nargs="?", metavar="NAME", kind="ref", help="only the versions of this name"),
            option(
                "-n",
                "--most",
                type=int,
                default=_SHOWN,
                metavar="N",
                help=f"how many at most ({_SHOWN}); 0: all",
            ),
        ),
    ),
    Command(
        "show",
        show,
        (
            option(
                "ref",
                metavar="REF",
                kind="ref or trial",
                help="a name, name@3, an id, latest, latest~2; or a trial: t3, EXP/t3",
            ),
        ),
    ),
    Command(
        "diff",
        diff,
        (
            option("old", metavar="A", kind="ref", help="the older checkpoint"),
            option(
                "new",
                nargs="?",
                metavar="B",
                kind="ref",
                help="the newer one; by default what is live",
            ),
        ),
    ),
)
