"""sync: keep another location up to date in the background."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from nbckpt.commands.options import Word
from nbckpt.commands.pushing import Transferred, expanded, left_out, transferred
from nbckpt.commands.table import Session
from nbckpt.errors import NbckptError, UsageError
from nbckpt.mirror import PERIOD_S, AutoStatus, Mirrored
from nbckpt.mirror.pending import Waiting
from nbckpt.render import Column, Hint, Page, Result, Table, age, count, size
from nbckpt.sync import SyncConfig
from nbckpt.sync.progress import Progress
from nbckpt.trials.model import spec_file
from nbckpt.trials.views.formats import tail

_MOST_EXPERIMENTS = 3
_NO_PLACES = ("on", "now", "soon", "cancel", "status")
"""The words that somebody may write for an option. As folders they would change where the sync goes."""
_NO_THREADS = "Threads cannot start here, so each %ckpt sync pushes once."


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
        face: How users write a command here: `%ckpt` or `nbckpt`.
    """

    status: AutoStatus | None
    former: str = ""
    experiments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    trouble: tuple[str, ...] = ()
    waiting: Waiting = field(default_factory=Waiting)
    face: str = "%ckpt"

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
        when = times if status.is_running else f"with each {self.face} sync"
        when = when if times else f"only with {self.face} sync --now"
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
                *(left_out(status.last) if status.last else ()),
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
        made = transferred(session, auto.push, "pushed", auto.url)
        return replace(made, notes=(_NO_THREADS,)) if was_in_background and not auto.in_background else made
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
    return SyncShown(auto.status, former, configs, tuple(trouble), auto.waiting(), session.face)


@lru_cache(maxsize=_MOST_EXPERIMENTS)
def _settings(file: Path, _changed: int) -> Mapping[str, str]:
    """Return the sync settings of an experiment. The result is cached: the file is long and read often."""
    return spec_file.read(file.parent).sync
