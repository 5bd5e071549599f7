"""push, pull: copy checkpoints and experiments to any storage and back."""

from __future__ import annotations

import os
import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from string import Template
from typing import Annotated, Any

from nbckpt.commands.options import Word
from nbckpt.commands.table import Session
from nbckpt.core.history import History
from nbckpt.core.references import SHORT, Entry, Ref
from nbckpt.errors import Interrupted, NbckptError, UsageError
from nbckpt.mirror import Mirror, Mirrored
from nbckpt.render import Column, Page, Result, Table, count, duration, size
from nbckpt.store import Cancel, masked
from nbckpt.sync.transfer import Moved, TransferOptions

Url = Annotated[str, Word("URL", help="s3://bucket/folder or a folder; by default the location of the sync.")]
_MOST_NAMED = 5


@dataclass(frozen=True, repr=False)
class Transferred(Result):
    """The result of a push or a pull.

    Attributes:
        mirrored: The counts.
        done: `pushed` or `pulled`.
        url: The remote location.
        seconds: The duration.
        notes: Further notes.
    """

    mirrored: Mirrored
    done: str
    url: str
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        moved = self.mirrored
        parts = [moved.checkpoints, *moved.experiments.values()]
        return bool(self.notes or moved.kept or any(part.left_out for part in parts))

    def page(self) -> Page:
        """See `Result.page`."""
        moved, pushed = self.mirrored, self.done == "pushed"
        parts = _parts(moved)
        notes = [*self.notes, *left_out(moved)]
        if moved.kept:
            notes.append(f"Not changed, because they run here: {', '.join(moved.kept)}.")
        if not moved.files:
            nothing = f"Nothing new for {self.url}" if pushed else f"Nothing new at {self.url}"
            same = sum(part.same for part in parts.values())
            is_there = (
                f"{count(same, 'file')} there already" if pushed else f"{count(same, 'file')} here already"
            )
            return Page(f"{nothing}: {is_there}", notes=tuple(notes))
        copied = f"{self.done.capitalize()} {count(moved.files, 'file')}, {size(moved.size)}"
        headline = f"{copied}, {'to' if pushed else 'from'} {self.url} in {duration(self.seconds)}."
        numbers = (self.done, "size", "there before" if pushed else "here before")
        columns = (Column("what"), *(Column(name, number=True) for name in numbers))
        rows = tuple(
            (name, f"{part.files:,}", size(part.size) if part.files else "-", f"{part.same:,}")
            for name, part in parts.items()
        )
        return Page(headline, (Table("files of each", columns, rows),), tuple(notes))


def _parts(mirrored: Mirrored) -> dict[str, Moved]:
    experiments = {f"experiment {name}": part for name, part in mirrored.experiments.items()}
    return {"checkpoints": mirrored.checkpoints, **experiments}


def left_out(mirrored: Mirrored) -> Iterator[str]:
    """Yield what to say of the files that a push or a pull left out, for each part that has some."""
    for name, part in _parts(mirrored).items():
        if part.left_out:
            files = "; ".join(f"{path}: {why}" for path, why in part.left_out.items())
            yield f"Not copied from {name}: {files}"


def push(session: Session, url: Url = "") -> Transferred:
    """Push new checkpoints and trials to another location."""
    made = _mirror(session, url)
    return transferred(session, made.push, "pushed", made.target.url)


def pull(session: Session, url: Url = "") -> Transferred:
    """Pull new checkpoints and trials from another location."""
    made, history = _mirror(session, url), session.tracker.history
    refs = [ref for ref, _ in history.named(history.refs())]
    entries = {entry.id for entry in history.entries()}
    pulled = transferred(session, made.pull, "pulled", made.target.url)
    foreign = _foreign(history, [entry for entry in history.entries() if entry.id not in entries])
    return replace(pulled, notes=(*foreign, *_renumbered(refs, history.refs())))


def _foreign(history: History, pulled: Iterable[Entry]) -> Iterator[str]:
    """Yield what to say of checkpoints that this user did not sign, if there are some."""
    foreign = list[str]()
    for entry in pulled:
        with suppress(NbckptError):  # the listing tells which checkpoints cannot be read
            foreign += [] if history.trusted(history.read(entry)) else [entry.id[:SHORT]]
    if foreign:
        number = f"{count(len(foreign), 'checkpoint')} {'is' if len(foreign) == 1 else 'are'}"
        yield f"{number} not signed by you. Look at one before you trust it: %ckpt show {foreign[0]}"


def _renumbered(before: Iterable[Ref], after: Iterable[Ref]) -> Iterator[str]:
    """Yield what to say of versions that have other numbers now, if there are some."""
    now = {ref.key: ref for ref in after}
    moved = [(ref, new) for ref in before if (new := now.get(ref.key, ref)) != ref]
    if moved:
        pairs = ", ".join(f"{ref} is now {new}" for ref, new in moved[:_MOST_NAMED])
        more = f", and {len(moved) - _MOST_NAMED:,} more" if len(moved) > _MOST_NAMED else ""
        yield f"Other checkpoints there had the same version numbers, so {pairs}{more}."


def expanded(url: str, namespace: Mapping[str, Any] | None) -> str:
    """Replace each `$name` in a URL by that variable of the notebook or of the environment.

    Raises:
        UsageError: The variable does not exist, or no name follows a `$`.
    """
    if "$" not in url:
        return url
    try:
        return Template(url).substitute(ChainMap(dict(namespace or {}), dict(os.environ)))
    except KeyError as error:
        raise UsageError(
            f"{masked(url)}: there is no variable {error.args[0]!r}, here or in the environment"
        ) from None
    except ValueError as error:
        raise UsageError(f"{masked(url)}: {error}. Write $$ for a dollar sign") from None


def _mirror(session: Session, url: str) -> Mirror:
    url = expanded(url, session.namespace) or (session.auto.status.url if session.auto.status else "")
    if not url:
        raise UsageError("name a location: a URL such as s3://bucket/folder, or a folder")
    return Mirror(session.tracker.store, session.library.folder, url)


def transferred(
    session: Session, move: Callable[[TransferOptions], Mirrored], done: str, url: str
) -> Transferred:
    """Make a transfer and show its progress; an interrupt cancels it."""
    cancel, bar, began = Cancel(), session.progress, time.monotonic()
    on_progress = None if bar is None else lambda now: bar(now.done, now.size, now)
    try:
        mirrored = move(TransferOptions(cancel=cancel, on_progress=on_progress))
    except KeyboardInterrupt:
        cancel.cancel()
        raise Interrupted(
            "Interrupted. Copied files are kept. To continue, run the same command again."
        ) from None
    return Transferred(mirrored, done, url, time.monotonic() - began)
