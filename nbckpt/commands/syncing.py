"""push, pull: checkpoints and experiments to any storage, and from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nbckpt.commands.table import Command, Session, option, switch
from nbckpt.errors import Interrupted, UsageError
from nbckpt.mirror import AutoStatus, Mirror, Mirrored
from nbckpt.render import Column, Page, Result, Table, age, count, duration, size
from nbckpt.store import Cancel
from nbckpt.sync.folders import Moved
from nbckpt.sync.progress import Progress
from nbckpt.sync.work import Terms


@dataclass(frozen=True, repr=False)
class Transferred(Result):
    """What a push or a pull did.

    Attributes:
        mirrored: What was moved.
        done: `pushed` or `pulled`.
        where: The other place, with `to` or `from`.
    """

    mirrored: Mirrored
    done: str
    where: str

    def page(self) -> Page:
        """See `Result.page`."""
        moved = self.mirrored
        if not moved.files:
            headline = f"nothing {self.done} {self.where}: all of it is there"
        else:
            headline = f"{self.done} {count(moved.files, 'file')}, {size(moved.size)}, {self.where}"
        columns = (
            Column("what"),
            Column("moved", number=True),
            Column("bytes", number=True),
            Column("there before", number=True),
            Column("left out"),
        )
        rows = [_row("checkpoints", moved.checkpoints)]
        rows += [_row(f"experiment {name}", it) for name, it in moved.experiments.items()]
        kept = ", ".join(moved.kept)
        notes = (f"left as they are here: {kept}. To take them anew, %ckpt rm them first",) if kept else ()
        return Page(headline, (Table("what was done", columns, tuple(rows)),), notes)


def _row(name: str, moved: Moved) -> tuple[str, ...]:
    left = ", ".join(f"{path} ({why})" for path, why in moved.left_out.items())
    return (name, str(moved.files), size(moved.size), str(moved.same), left or "-")


@dataclass(frozen=True, repr=False)
class SyncShown(Result):
    """How the store is kept at another place, too.

    Attributes:
        status: How it goes; None where it is not.
    """

    status: AutoStatus | None

    def page(self) -> Page:
        """See `Result.page`."""
        status = self.status
        if status is None:
            advice = "in the background: %ckpt sync URL   once: %ckpt push URL"
            return Page("this store is kept here only", advice=advice)
        when = f"every {status.period:g} s and after each save" if status.is_running else "when you say sync"
        notes = filter(None, (_under_way(status.progress), _last(status), status.failure and _failed(status)))
        advice = "now: %ckpt sync --now   no more: %ckpt sync off"
        return Page(f"synced to {status.url}, {when}", notes=tuple(notes), advice=advice)


def _under_way(progress: Progress | None) -> str:
    if progress is None:
        return ""
    left = "" if progress.seconds_left is None else f", {duration(progress.seconds_left)} left"
    moved = f"{size(progress.done)} of {size(progress.size)}, {size(int(progress.rate))}/s{left}"
    return f"under way: {progress.files_done} of {count(progress.files, 'file')}, {moved}: {progress.current}"


def _last(status: AutoStatus) -> str:
    if status.pushed_at is None or status.last is None:
        return ""
    moved = status.last
    what = f"{count(moved.files, 'file')}, {size(moved.size)}" if moved.files else "nothing new"
    return f"up to date {age(status.pushed_at).text}: {what}"


def _failed(status: AutoStatus) -> str:
    return f"it is not up to date: {status.failure}. It is tried again"


def push(session: Session, url: str) -> Transferred:
    """Bring another place what is new here: checkpoints, and experiments with their trials."""
    made = _mirror(session, url)
    return Transferred(_interruptible(session, made.push), "pushed", f"to {made.target.url}")


def pull(session: Session, url: str) -> Transferred:
    """Bring here what another place has: checkpoints, and experiments that are not here."""
    made = _mirror(session, url)
    return Transferred(_interruptible(session, made.pull), "pulled", f"from {made.target.url}")


def sync(session: Session, url: str, period: float, now: bool, status: bool) -> Result:  # noqa: FBT001
    """Keep another place up to date: in the background, and in a shell once for each time it is said."""
    auto = session.auto
    if url == "off":
        auto.stop()
        return SyncShown(None)
    if url:
        auto.start(url, period)
    if now or not (status or auto.in_background):
        if auto.status is None:
            raise UsageError("this store is not synced to any place yet: say which, %ckpt sync URL")
        made = _mirror(session, auto.status.url)
        return Transferred(_interruptible(session, auto.push), "pushed", f"to {made.target.url}")
    return SyncShown(auto.status)


def _mirror(session: Session, url: str) -> Mirror:
    url = url or (session.auto.status.url if session.auto.status else "")
    if not url:
        raise UsageError("say which place: a URL such as s3://bucket/folder, or a folder")
    return Mirror(session.tracker.store, session.library.folder, url)


def _interruptible(session: Session, transfer: Callable[[Terms], Mirrored]) -> Mirrored:
    """Make a transfer with its progress shown; an interrupt cancels it."""
    told = session.progress
    cancel = Cancel()
    terms = Terms(cancel=cancel, told=(lambda it: told(it.done, it.size)) if told else None)
    try:
        return transfer(terms)
    except KeyboardInterrupt:
        cancel.cancel()
        raise Interrupted("interrupted: what was moved is kept; the same again goes on") from None


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
