"""restore, undo, snippet: get variables back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbckpt.commands.table import Command, Session, option, switch
from nbckpt.core.history import SHORT
from nbckpt.core.manifest import Manifest
from nbckpt.core.surroundings import packages
from nbckpt.render import Column, Page, Result, Table, age, count, duration, short
from nbckpt.tracker import Restored


@dataclass(frozen=True, repr=False)
class RestoreResult(Result):
    """Variables that came back, or with a dry run would."""

    restored: Restored
    ref: str

    def page(self) -> Page:
        """See `Result.page`."""
        restored = self.restored
        manifest = restored.manifest
        done = "would restore" if restored.dry_run else "restored"
        took = "" if restored.dry_run else f" in {duration(restored.seconds)}"
        what = count(sum(change != "removed" for change in restored.changes.values()), "variable")
        which = f"{self.ref} ({manifest.id[:SHORT]}, saved {age(manifest.created_at).text})"
        headline = f"{done} {what} of {which}{took}"
        notes = []
        if restored.apart:
            names = short(", ".join(restored.apart), 100)
            notes.append(f"what was shared with {names} is not shared any more, since that was not asked for")
        undo = any(change != "new" for change in restored.changes.values()) and not restored.dry_run
        return Page(
            headline,
            (self._changes(), self._failures()),
            tuple(notes),
            advice="take it back: %ckpt undo" if undo else "",
        )

    def _changes(self) -> Table:
        words = {
            "new": "new here",
            "same": "same as now",
            "changed": "replaces what is live",
            "removed": "removed: it was deleted then",
        }
        groups: dict[str, list[str]] = {}
        for name, change in self.restored.changes.items():
            groups.setdefault(words[change], []).append(name)
        rows = tuple((kind, ", ".join(names)) for kind, names in groups.items())
        return Table(
            "what happens" if self.restored.dry_run else "what happened",
            (Column("change"), Column("variables", code=True)),
            rows,
        )

    def _failures(self) -> Table:
        rows = tuple((", ".join(it.names), it.reason) for it in self.restored.failed)
        return Table(
            _failure_caption(self.restored.manifest),
            (Column("variable", code=True), Column("reason")),
            rows,
        )


def _failure_caption(manifest: Manifest) -> str:
    """Return a caption that names the packages whose versions may be the cause."""
    then, here = manifest.provenance.get("packages", {}), packages()
    differ = [
        f"{name} {then[name]} (here {here[name]})"
        for name in then
        if name in here and then[name] != here[name]
    ]
    missing = [name for name in then if name not in here]
    hints = differ + ([f"not imported here: {', '.join(missing[:5])}"] if missing and not differ else [])
    return "not restored; the others are" + (f". Saved with {'; '.join(hints[:4])}" if hints else "")


def restore(
    session: Session,
    ref: str,
    names: Sequence[str],
    prefix: str,
    dry_run: bool,  # noqa: FBT001  argparse gives these by name
    trust: bool,  # noqa: FBT001
    lazy: bool,  # noqa: FBT001
) -> RestoreResult:
    """Put the variables of a checkpoint back."""
    return RestoreResult(
        session.tracker.restore(
            ref,
            session.live("restore"),
            names,
            prefix=prefix,
            dry_run=dry_run,
            trust=trust,
            lazy=lazy,
            hidden=session.hidden,
            progress=session.progress,
        ),
        ref,
    )


@dataclass(frozen=True, repr=False)
class Undone(Result):
    """A restore or a removal that was taken back."""

    what: str
    names: tuple[str, ...]

    def page(self) -> Page:
        """See `Result.page`."""
        names = f": {short(', '.join(self.names), 120)}" if self.names else ""
        advice = "do it again: %ckpt undo" if self.names else ""
        return Page(f"took back the {self.what}{names}", advice=advice)


def undo(session: Session) -> Undone:
    """Take back the last restore or rm; again, to do it again."""
    what, names = session.tracker.undo(session.live("undo"))
    return Undone(what, tuple(names))


@dataclass(frozen=True, repr=False)
class Snippet(Result):
    """Plain Python that restores a checkpoint without magics."""

    code: str
    inserted: bool

    def page(self) -> Page:
        """See `Result.page`."""
        if self.inserted:
            return Page("put into the next cell: Python that restores it without magics")
        return Page("Python that restores it without magics:", code=self.code)


def snippet(session: Session, ref: str) -> Snippet:
    """Write plain Python that restores a checkpoint, into a new cell where there are cells."""
    entry = session.tracker.find(ref)
    code = (
        "from nbckpt import Tracker\n\n"
        f"Tracker({session.tracker.store.url!r}).restore({entry.id[: SHORT + 4]!r}, globals())  # {ref}"
    )
    if session.insert is not None:
        session.insert(code)
    return Snippet(code, session.insert is not None)


COMMANDS = (
    Command(
        "restore",
        restore,
        (
            option("ref", metavar="REF", kind="ref", help="a name, name@3, an id, latest, latest~2"),
            option(
                "names",
                nargs="*",
                metavar="VAR",
                kind="variable",
                help="only these; patterns such as df_* too",
            ),
            option(
                "--as",
                dest="prefix",
                default="",
                metavar="PREFIX",
                help="put PREFIX in front of every name",
            ),
            switch("--dry-run", help="only say what would change"),
            switch("--trust", help="restore it even if someone else made it"),
            switch("--lazy", help="do not check arrays; read them when they are used"),
        ),
    ),
    Command("undo", undo),
    Command("snippet", snippet, (option("ref", metavar="REF", kind="ref", help="which checkpoint"),)),
)
