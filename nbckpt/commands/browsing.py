"""status, ls: list the checkpoints of a store. Nothing is unpickled."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from nbckpt.commands.options import Number, PageNumber, Text, Word
from nbckpt.commands.table import Session
from nbckpt.core.history import History
from nbckpt.core.references import Entry
from nbckpt.errors import NbckptError, NotFoundError, UsageError
from nbckpt.listing import Row as Row
from nbckpt.listing import Rows, listing_table, read_rows
from nbckpt.render import Hint, Page, Result, count, size
from nbckpt.store import LocalStore
from nbckpt.store.scan import link_outside, size_of
from nbckpt.tracker import Tracker
from nbckpt.trials.home import experiments_folder

if TYPE_CHECKING:
    from nbckpt.trials.checkpoint_index import TrialCheckpoint

_SHOWN = 20
_FIRST = (
    Hint("Save", "%ckpt save NAME"),
    Hint("List", "%ckpt ls"),
    Hint("Restore", "%ckpt restore REF"),
    Hint("Help", "%ckpt help"),
)


@dataclass(frozen=True, repr=False)
class Listing(Result):
    """Checkpoints, newest first.

    Attributes:
        rows: The checkpoints that are shown.
        total: The number of all checkpoints that match.
        where: The store.
        first: The index of the first row among all.
        name: Only versions of this name are listed; empty for all names.
        find: Only checkpoints that contain this text are listed; empty for all.
        trials: Which checkpoints of trials are listed too: `all`, the `newest` of each trial, or "" for none.
    """

    rows: tuple[Row, ...]
    total: int
    where: str
    first: int = 0
    name: str = ""
    find: str = ""
    trials: str = ""

    def page(self) -> Page:
        """See `Result.page`."""
        search = f" with {self.find!r}" if self.find else ""
        where = f"in {self.where}" + (" and its trials" if self.trials else "")
        if not self.rows:
            hint = Hint("Show all", "%ckpt ls") if self.find else Hint("Save", "%ckpt save NAME")
            return Page(f"No checkpoints{search} {where}.", hints=(hint,))
        last = self.first + len(self.rows)
        part = f"{self.first + 1:,} to {last:,}" if self.first else f"the newest {len(self.rows):,}"
        more = f"; {part} of them" if self.total > len(self.rows) else ""
        return Page(
            f"{count(self.total, 'checkpoint')}{search} {where}{more}",
            (listing_table(self.rows),),
            hints=self._older() if last < self.total else (),
        )

    def _older(self) -> tuple[Hint, ...]:
        """Return the commands for the next page and for all rows."""
        most = len(self.rows)
        name = f" {shlex.quote(self.name)}" if self.name else ""
        find = f" --find {shlex.quote(self.find)}" if self.find else ""
        trials = f" --{self.trials}" if self.trials else ""
        asked = f"%ckpt ls{name}{trials}{find}"
        pages = f" -n {most}" if most != _SHOWN else ""
        older = f"{asked}{pages} --page {self.first // most + 2}"
        return Hint("Next page", older), Hint("Show all", f"{asked} -n 0")


def ls(
    session: Session,
    name: Annotated[str, Word("NAME", "ref")] = "",
    *,
    all_: bool = False,
    newest: bool = False,
    auto: bool = False,
    most: Number = _SHOWN,
    page: PageNumber = 1,
    find: Text = "",
) -> Listing:
    """List the checkpoints, newest first.

    Args:
        name: List only the versions of this name.
        all_: Also list the checkpoints of trials.
        newest: Also list the newest checkpoint of each trial.
        auto: Also list the points that auto made.
        most: The number of rows on a page; 0 for all.
        find: List only checkpoints with TEXT in a name, the id, the message, a variable or a file.
    """
    trials = "all" if all_ else "newest" if newest else ""
    if name and trials:
        raise UsageError(f"ls takes NAME, for the versions of one name, or --{trials}. Leave one of them out")
    session.tracker.history.check_format()
    history = session.tracker.history.listed()
    listed = _listed(session, history, name, trials, points=auto)
    if find:
        rows = [row for row in map(Rows(history).read, listed) if row.says(find)]
        total, first = len(rows), first_row(len(rows), most, page, "checkpoint")
        shown = tuple(rows[first:][: most or None])
    else:
        total, first = len(listed), first_row(len(listed), most, page, "checkpoint")
        there = listed[first:][: most or None]
        shown = read_rows(history, there)
        total -= len(there) - len(shown)
    return Listing(shown, total, session.tracker.store.url, first, name, find, trials)


def _listed(
    session: Session, history: History, name: str, trials: str, *, points: bool
) -> list[Entry | TrialCheckpoint]:
    """Return the entries of the checkpoints to list, newest first."""
    entries = history.living(("checkpoints", "points")) if points else history.entries()
    if name:
        newest = session.tracker.find(name)
        targets = {ref.id for ref in history.refs(name)} or {newest.id}
        entries = [entry for entry in entries if entry.id in targets]
    if not trials:
        return [*entries]
    from nbckpt.trials.checkpoint_index import find

    of_trials = find(session.library, newest=trials == "newest")
    listed: list[Entry | TrialCheckpoint] = [*entries, *of_trials]
    return sorted(listed, key=lambda checkpoint: checkpoint.moment, reverse=True)


def first_row(total: int, most: int, page: int, noun: str) -> int:
    """Return the index of the first row on a page of *most* rows.

    Raises:
        UsageError: There is no such page.
    """
    if most < 0:
        raise UsageError(f"-n {most} is not valid: give a number of rows, or 0 for all")
    pages = max(1, -(-total // (most or max(total, 1))))
    if not 1 <= page <= pages:
        on_each = f"{count(total, noun)}, {most or 'all'} on a page"
        raise UsageError(f"there is no page {page}: {on_each}, so the last page is {pages}")
    return (page - 1) * most


@dataclass(frozen=True, repr=False)
class Status(Result):
    """A summary of the store."""

    where: str
    total: int
    space: int | None
    rows: tuple[Row, ...]
    undo: str
    trials: str = ""

    def page(self) -> Page:
        """See `Result.page`."""
        space = f", {size(self.space)} on disk" if self.space else ""
        undo = f"Undo the {self.undo}: %ckpt undo" if self.undo else ""
        notes = tuple(filter(None, (undo, self.trials)))
        tables = (listing_table(self.rows),) if self.rows else ()
        return Page(
            f"{count(self.total, 'checkpoint')} in {self.where}{space}",
            tables,
            notes,
            hints=_FIRST,
        )


def status(session: Session) -> Status:
    """Show the store and its newest checkpoints."""
    tracker = session.tracker
    tracker.history.check_format()
    history = tracker.history.listed()
    entries = history.entries()
    return Status(
        tracker.store.url,
        len(entries),
        _space(tracker),
        read_rows(history, entries[:3]),
        tracker.undoable,
        _newest_trials(session),
    )


def _newest_trials(session: Session) -> str:
    """Return a sentence about the trials of the newest experiment."""
    folder = experiments_folder(session.tracker.store.url)
    if link_outside(folder.parent, folder.name) or not any(folder.glob("*/experiment.json")):
        return ""
    from nbckpt.trials.views.statuses import counted, states_of

    try:
        experiment = session.library.open()
    except NotFoundError:
        return ""
    except NbckptError as error:
        return f"The newest experiment cannot be read: {error}"
    return f"Newest experiment {experiment.name}: {counted(states_of(experiment))}. Show it: %ckpt trials"


def _space(tracker: Tracker) -> int | None:
    """Return the size of a local store in bytes; None for other stores."""
    return size_of(tracker.store.folder) if isinstance(tracker.store, LocalStore) else None
