"""push, pull: checkpoints and experiments to any storage, and from it."""

from __future__ import annotations

import os
import time
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Template
from typing import Any

from nbckpt.commands.table import Command, Session, option, switch
from nbckpt.errors import Interrupted, UsageError
from nbckpt.mirror import AutoStatus, Mirror, Mirrored
from nbckpt.render import Column, Page, Result, Table, age, count, duration, size
from nbckpt.store import Cancel
from nbckpt.sync.folders import Moved
from nbckpt.sync.work import Terms


@dataclass(frozen=True, repr=False)
class Transferred(Result):
    """What a push or a pull did.

    Attributes:
        mirrored: What was moved.
        done: `pushed` or `pulled`.
        place: The other place.
        seconds: How long it took.
    """

    mirrored: Mirrored
    done: str
    place: str
    seconds: float

    def page(self) -> Page:
        """See `Result.page`."""
        moved, pushed = self.mirrored, self.done == "pushed"
        parts = {"checkpoints": moved.checkpoints}
        parts |= {f"experiment {name}": it for name, it in moved.experiments.items()}
        notes = [_left_out(name, it) for name, it in parts.items() if it.left_out]
        if moved.kept:
            notes.append(
                f"left as they are here: {', '.join(moved.kept)}. To take them anew, %ckpt rm them first"
            )
        if not moved.files:
            nothing = f"nothing new for {self.place}" if pushed else f"nothing new at {self.place}"
            same = sum(it.same for it in parts.values())
            is_there = (
                f"{count(same, 'file')} there already" if pushed else f"{count(same, 'file')} here already"
            )
            return Page(f"{nothing}: {is_there}", notes=tuple(notes))
        what = f"{self.done} {count(moved.files, 'file')}, {size(moved.size)}"
        headline = f"{what}, {'to' if pushed else 'from'} {self.place} in {duration(self.seconds)}"
        numbers = (self.done, "size", "there before" if pushed else "here before")
        columns = (Column("what"), *(Column(name, number=True) for name in numbers))
        rows = tuple(
            (name, f"{it.files:,}", size(it.size) if it.files else "-", f"{it.same:,}")
            for name, it in parts.items()
        )
        return Page(headline, (Table("files of each", columns, rows),), tuple(notes))


def _left_out(name: str, moved: Moved) -> str:
    files = "; ".join(f"{path}: {why}" for path, why in moved.left_out.items())
    return f"left out of {name}: {files}"


@dataclass(frozen=True, repr=False)
class SyncShown(Result):
    """How the store is kept at another place, too.

    Attributes:
        status: How it goes; None where it is not.
        former: Where it was until now.
    """

    status: AutoStatus | None
    former: str = ""

    def page(self) -> Page:
        """See `Result.page`."""
        status = self.status
        if status is None:
            advice = "in the background: %ckpt sync URL   once: %ckpt push URL"
            former = (f"{self.former} is synced no more; what is there stays",) if self.former else ()
            return Page("this store is kept here only", notes=former, advice=advice)
        when = f"every {status.period:g} s and after each save" if status.is_running else "when you say sync"
        under_way = f"under way: {status.progress}" if status.progress else ""
        notes = filter(None, (under_way, _last(status), status.failure and _failed(status)))
        advice = "now: %ckpt sync --now   no more: %ckpt sync off"
        return Page(f"synced to {status.url}, {when}", notes=tuple(notes), advice=advice)


def _last(status: AutoStatus) -> str:
    if status.pushed_at is None or status.last is None:
        is_first = status.is_running and not (status.failure or status.progress)
        return "the first push begins" if is_first else ""
    moved = status.last
    what = f"{count(moved.files, 'file')}, {size(moved.size)}" if moved.files else "nothing new"
    return f"up to date {age(status.pushed_at).text}: {what}"


def _failed(status: AutoStatus) -> str:
    return f"it is not up to date: {status.failure}. It is tried again"


def push(session: Session, url: str) -> Transferred:
    """Bring another place what is new here: checkpoints, and experiments with their trials."""
    made = _mirror(session, url)
    return _transferred(session, made.push, "pushed", made.target.url)


def pull(session: Session, url: str) -> Transferred:
    """Bring here what another place has: checkpoints, and experiments that are not here."""
    made = _mirror(session, url)
    return _transferred(session, made.pull, "pulled", made.target.url)


def sync(session: Session, url: str, period: float, now: bool, status: bool) -> Result:  # noqa: FBT001
    """Keep another place up to date: in the background, and in a shell once for each time it is said."""
    auto = session.auto
    if url == "off":
        former = auto.place
        auto.stop()
        return SyncShown(None, former)
    if url:
        auto.start(expanded(url, session.namespace), period)
    if now or not (status or auto.in_background):
        if auto.status is None:
            raise UsageError("this store is not synced to any place yet: say which, %ckpt sync URL")
        return _transferred(session, auto.push, "pushed", auto.place)
    return SyncShown(auto.status)


def expanded(place: str, namespace: Mapping[str, Any] | None) -> str:
    """Return a place with each `$name` in it replaced by that variable, of the notebook or the environment.

    Raises:
        UsageError: There is none of that name.
    """
    if "$" not in place:
        return place
    try:
        return Template(place).substitute(ChainMap(dict(namespace or {}), dict(os.environ)))
    except KeyError as error:
        raise UsageError(
            f"{place}: there is no variable {error.args[0]!r}, here or in the environment"
        ) from None
    except ValueError as error:
        raise UsageError(f"{place}: {error}. Write $$ for a dollar sign") from None


def _mirror(session: Session, url: str) -> Mirror:
    url = expanded(url, session.namespace) or (session.auto.status.url if session.auto.status else "")
    if not url:
        raise UsageError("say which place: a URL such as s3://bucket/folder, or a folder")
    return Mirror(session.tracker.store, session.library.folder, url)


def _transferred(session: Session, move: Callable[[Terms], Mirrored], done: str, place: str) -> Transferred:
    """Make a transfer with its progress shown; an interrupt cancels it."""
    cancel, bar, began = Cancel(), session.progress, time.monotonic()
    told = None if bar is None else lambda it: bar(it.done, it.size, it)
    try:
        mirrored = move(Terms(cancel=cancel, told=told))
    except KeyboardInterrupt:
        cancel.cancel()
        raise Interrupted("interrupted: what was moved is kept; the same again goes on") from None
    return Transferred(mirrored, done, place, time.monotonic() - began)


_URL = option(
    "url",
    nargs="?",
    default="",
    metavar="URL",
    help="s3://bucket/folder, or a folder; by default that of sync",
)

COMMANDS = (
    Command("push", push, (_URL,)),
    Command("pull", pull, (_URL,)),
    Command(
        "sync",
        sync,
        (
            option(
                "url",
                nargs="?",
                default="",
                metavar="URL|off",
                help="the other place; off for no more syncing",
            ),
            option("--period", type=float, default=300.0, metavar="S", help="how often, in seconds"),
            switch("--now", help="at once, and wait for it"),
            switch("--status", help="only show how it goes"),
        ),
    ),
)
