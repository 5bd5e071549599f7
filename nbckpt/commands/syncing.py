"""push, pull, sync: copy checkpoints and experiments to any storage and back."""

from __future__ import annotations

import os
import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import Annotated, Any

from nbckpt.commands.options import Word
from nbckpt.commands.table import Session
from nbckpt.core.history import History
from nbckpt.core.references import SHORT, Entry
from nbckpt.errors import Interrupted, NbckptError, UsageError
from nbckpt.mirror import PERIOD_S, AutoStatus, Mirror, Mirrored
from nbckpt.mirror.pending import Waiting
from nbckpt.render import Column, Hint, Page, Result, Table, age, count, duration, size
from nbckpt.store import Cancel, masked
from nbckpt.sync import SyncConfig
from nbckpt.sync.progress import Progress
from nbckpt.sync.transfer import Moved, TransferOptions
from nbckpt.trials.model import spec_file
from nbckpt.trials.views.formats import tail

_MOST_EXPERIMENTS = 3
Url = Annotated[str, Word("URL", help="s3://bucket/folder or a folder; by default the location of the sync.")]
_NO_PLACES = ("on", "now", "soon", "cancel", "status")
"""The words that somebody may write for an option. As folders they would change where the sync goes."""
_NO_THREADS = "Threads cannot start here, so each %ckpt sync pushes once."


@dataclass(frozen=True, repr=False)
class Transferred(Result):
    """The result of a push or a pull.

    Attributes:
        mirrored: The counts.
        done: `pushed` or `pulled`.
        url: The remote location.
        seconds: The duration.
        note: A further note.
    """

    mirrored: Mirrored
    done: str
    url: str
    seconds: float
    note: str = ""

    @property
    def warns(self) -> bool:
        """See `Result.warns`."""
        moved = self.mirrored
        parts = [moved.checkpoints, *moved.experiments.values()]
        return bool(self.note or moved.kept or any(part.left_out for part in parts))

    def page(self) -> Page:
        """See `Result.page`."""
        moved, pushed = self.mirrored, self.done == "pushed"
        parts = {"checkpoints": moved.checkpoints}
        parts |= {f"experiment {name}": part for name, part in moved.experiments.items()}
        notes = [self.note] if self.note else []
        notes += [_left_out(name, part) for name, part in parts.items() if part.left_out]
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


def _left_out(name: str, moved: Moved) -> str:
    files = "; ".join(f"{path}: {why}" for path, why in moved.left_out.items())
    return f"Not copied from {name}: {files}"


@dataclass(frozen=True)
class SyncData:
    """The sync status of a store for other programs, which read it as JSON.

    The first fields are those of `AutoStatus`, with an empty *url* if the store is not synced. The others are
    those of `SyncShown`.
    """

    url: str
    period: float
    is_running: bool
    pushed_at: str | None
    last: Mirrored | None
    failure: str
    progress: Progress | None
    experiments: Mapping[str, Mapping[str, str]]
    after_saves: bool
    trouble: tuple[str, ...]
    waiting: tuple[int, int]
    waiting_size: int
    only_there: int


@dataclass(frozen=True, repr=False)
class SyncShown(Result):
    """The sync status of the store, and the experiments that upload their trials themselves.

    Attributes:
        status: The status of the background sync; None if the store is not synced.
        former: The remote location until the sync was turned off; empty otherwise.
        experiments: The settings of the newest experiments that have a `sync_config`, as text.
        trouble: Notes of these experiments about uploads that failed or still run.
        waiting: What is not pushed yet.
    """

    status: AutoStatus | None
    former: str = ""
    experiments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    trouble: tuple[str, ...] = ()
    waiting: Waiting = field(default_factory=Waiting)

    def page(self) -> Page:
        """See `Result.page`."""
        status = self.status
        if status is None:
            hints = (Hint("Sync in the background", "%ckpt sync URL"), Hint("Push once", "%ckpt push URL"))
            former = [f"Sync to {self.former} is off. Nothing there was deleted."] if self.former else []
            notes = (*former, *self.trouble)
            return Page("This store is not synced.", self._tables(), notes, hints=hints)
        by_time = f"every {status.period:g} s" if status.period else ""
        times = " and ".join(filter(None, (by_time, "after each save" if status.after_saves else "")))
        when = times if status.is_running else "with each %ckpt sync"
        when = when if times else "only with %ckpt sync --now"
        under_way = f"Pushing: {status.progress}" if status.progress else ""
        failure = _failed(status) if status.failure else ""
        lines = filter(
            None,
            (
                under_way,
                _last(status),
                _pending(self.waiting),
                _only_there(self.only_there),
                failure,
            ),
        )
        hints = (Hint("Sync now", "%ckpt sync --now"), Hint("Turn off", "%ckpt sync off"))
        headline = f"Synced to {status.url}, {when}."
        return Page(headline, self._tables(), (*lines, *self.trouble), hints=hints)

    def for_json(self) -> SyncData:
        """Return the status; see render/json.py."""
        status = self.status or AutoStatus("", 0.0, is_running=False)
        return SyncData(
            **vars(status),
            experiments=self.experiments,
            trouble=self.trouble,
            waiting=(self.waiting.checkpoints, self.waiting.trials),
            waiting_size=self.waiting.size,
            only_there=self.only_there,
        )

    @property
    def only_there(self) -> int:
        """The number of checkpoints that the last push saw at the other location only."""
        last = self.status.last if self.status else None
        return last.checkpoints.only_there if last else 0

    def _tables(self) -> tuple[Table, ...]:
        """Return the settings as a table, with a column for the store and one for each syncing experiment."""
        status = self.status
        own = status and _config(status)
        configs = ({"this store": dict(own.settings())} if own else {}) | dict(self.experiments)
        columns = (Column("setting", code=True), *(Column(tail(name)) for name in configs))
        names = dict.fromkeys(name for config in configs.values() for name in config)
        rows = tuple((name, *(config.get(name, "") for config in configs.values())) for name in names)
        return (Table("settings", columns, rows),)


def _config(status: AutoStatus) -> SyncConfig:
    """Return the settings of the store's sync as those of an experiment's. A push has no timeout."""
    return SyncConfig(
        status.url,
        sync_period=status.period,
        sync_timeout=None,
        sync_on_checkpoint=status.after_saves,
    )


def _pending(waiting: Waiting) -> str:
    """Return the changes that are not pushed yet, as text."""
    parts = [count(waiting.checkpoints, "checkpoint")] if waiting.checkpoints else []
    parts += [f"changes of {count(waiting.trials, 'trial')}"] if waiting.trials else []
    return f"Not pushed yet: {' and '.join(parts)}, {size(waiting.size)}." if parts else ""


def _only_there(number: int) -> str:
    return f"Only there: {count(number, 'checkpoint')}. Pull: %ckpt pull" if number else ""


def _last(status: AutoStatus) -> str:
    if status.pushed_at is None or status.last is None:
        is_first = status.is_running and not (status.failure or status.progress)
        return "The first push begins." if is_first else ""
    moved = status.last
    pushed = f"{count(moved.files, 'file')}, {size(moved.size)}" if moved.files else "nothing new"
    return f"Last push {age(status.pushed_at).text}: {pushed}."


def _failed(status: AutoStatus) -> str:
    return f"The last push failed: {status.failure}. It is tried again."


def push(session: Session, url: Url = "") -> Transferred:
    """Push new checkpoints and trials to another location."""
    made = _mirror(session, url)
    return _transferred(session, made.push, "pushed", made.target.url)


def pull(session: Session, url: Url = "") -> Transferred:
    """Pull new checkpoints and trials from another location."""
    made, history = _mirror(session, url), session.tracker.history
    before = {entry.id for entry in history.entries()}
    pulled = _transferred(session, made.pull, "pulled", made.target.url)
    return replace(pulled, note=_foreign(history, [e for e in history.entries() if e.id not in before]))


def _foreign(history: History, pulled: Iterable[Entry]) -> str:
    """Return what to say of checkpoints that this user did not sign; "" if there are none."""
    foreign = list[str]()
    for entry in pulled:
        with suppress(NbckptError):  # the listing tells which checkpoints cannot be read
            foreign += [] if history.trusted(history.read(entry)) else [entry.id[:SHORT]]
    if not foreign:
        return ""
    number = f"{count(len(foreign), 'checkpoint')} {'is' if len(foreign) == 1 else 'are'}"
    return f"{number} not signed by you. Look at one before you trust it: %ckpt show {foreign[0]}"


def sync(
    session: Session,
    url: Annotated[str, Word("URL|off")] = "",
    *,
    period: Annotated[float, Word("S")] = PERIOD_S,
    no_saves: bool = False,
    now: bool = False,
    soon: bool = False,
    cancel: bool = False,
    status: bool = False,
) -> Transferred | SyncShown:
    """Keep another location up to date in the background.

    In a shell, push to it once.

    Args:
        url: The other location; off turns the sync off.
        period: Seconds from one push to the next; 0 for no push by time alone.
        no_saves: Do not push after each save. With --period 0, only --now and --soon push.
        now: Push now, and wait for the end.
        soon: Push now, in the background.
        cancel: Cancel the push that runs; it is tried again later.
        status: Only show the state of the sync.
    """
    session.auto.follow()
    auto, former, was_in_background = session.auto, session.auto.url, session.auto.in_background
    if url == "off":
        auto.stop()
        return _shown(session, former)
    if url in _NO_PLACES:
        raise UsageError(f"{url!r} is not a location. Options begin with --. A folder of that name: ./{url}")
    if url:
        auto.start(expanded(url, session.namespace), period, after_saves=not no_saves)
    in_place = now or not (status or auto.in_background)
    if auto.status is None and (in_place or soon):
        raise UsageError("this store is not synced. Name a location: %ckpt sync URL")
    if cancel:
        auto.cancel()
    elif soon and auto.in_background:
        auto.wake()
    elif in_place or soon:
        made = _transferred(session, auto.push, "pushed", auto.url)
        return replace(made, note=_NO_THREADS) if was_in_background and not auto.in_background else made
    return _shown(session)


def _shown(session: Session, former: str = "") -> SyncShown:
    """Return the sync status, with the newest experiments that upload their trials themselves."""
    library = session.library
    configs: dict[str, Mapping[str, str]] = {}
    trouble: list[str] = []
    for name in library.names()[-_MOST_EXPERIMENTS:]:
        try:
            file = library.folder / name / spec_file.FILE
            if settings := _settings(file, file.stat().st_mtime_ns):
                configs[name] = settings
                trouble += [f"{name}: {note}" for note in library.open(name).notes]
        except (NbckptError, OSError) as error:  # an unreadable experiment must not hide the others
            trouble.append(f"{name}: {error}")
    auto = session.auto
    return SyncShown(auto.status, former, configs, tuple(trouble), auto.waiting())


@lru_cache(maxsize=_MOST_EXPERIMENTS)
def _settings(file: Path, _changed: int) -> Mapping[str, str]:
    """Return the sync settings of an experiment. The result is cached: the file is long and read often."""
    return spec_file.read(file.parent).sync


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


def _transferred(
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
