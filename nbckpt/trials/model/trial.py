"""Trial: one run of a trainable with one configuration, read from its journal."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from nbckpt.errors import CorruptError, FormatError, StoreError
from nbckpt.hook import Hook
from nbckpt.media.stored import StoredMedia, stored
from nbckpt.render import Page, Rich, count
from nbckpt.store.scan import OUTSIDE, link_outside
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.model import journal, log, params
from nbckpt.trials.model.journal import Damage, Event
from nbckpt.trials.model.metrics import is_number, lookup

V = TypeVar("V")

MOST_LINES = 40
_MOST_PREVIEWS = 200
_NAME = re.compile("t[0-9]{1,18}")

STOPPED = "stopped"
"""The note of a trial that a user stopped; a cause may follow after a semicolon."""


class Status(enum.StrEnum):
    """The status of a trial, as pickles and code name it. `views/statuses.py` has the words for people."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"
    DAMAGED = "DAMAGED"


class Trial(Rich):
    """One configuration's run, read from its journal. `Trial` never writes; `TrialRecorder` does.

    Any thread may read it safely.

    Attributes:
        id: Its short name in the experiment: `t0`, `t1`, …
        config: Its configuration. After a restart of the kernel, values that JSON cannot express are texts.
        status: Its status.
        results: Its results in order; a result that was repeated after a restore appears once.
        media: The media of its results in order, such as images and tables.
        checkpoint: The name of the newest checkpoint; `checkpoint_iteration` is its iteration.
        error: The last failure's message; `traceback` is its traceback, `failures` counts all failures.
        origin: Where the checkpoint that it first started from is from; empty if it started without one.
        note: A sentence about the trial, such as why it ended.
        stopped_early: Whether a user stopped it, or a search gave it up, before it was done.
        damage: A sentence about damage in its files. A trial whose configuration cannot be read is DAMAGED;
            in a damaged journal the other lines count.
        read_at: The stamp of the journal when it was last read or written; None before that.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.id = folder.name
        self.folder = folder
        self.config = dict(config)
        self.status = Status.PENDING
        self.results: list[dict[str, Any]] = []
        self.media: list[StoredMedia] = []
        self.checkpoint: str | None = None
        self.checkpoint_iteration = 0
        self.error = self.traceback = self.note = self.damage = self.origin = ""
        self.stopped_early = False
        self.failures = 0
        self.attempts = 0
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.read_at: tuple[int, int, int] | None = None
        self._known: dict[Hashable, tuple[object, Any]] = {}

    @classmethod
    def read(cls, folder: Path) -> Trial:
        """Return the trial in *folder*, without writing anything.

        It never fails: `damage` names the part that cannot be read.
        """
        trial = cls(folder, {})
        for name in (journal.FILE, params.FILE):
            if link := link_outside(folder.parent, f"{folder.name}/{name}"):
                trial.status, trial.damage = Status.DAMAGED, f"{link} is not read: {OUTSIDE}"
                return trial
        file = folder / journal.FILE
        trial.read_at = journal.stamp(file)  # before reading, so that a write during it is seen as a change
        try:
            damages = list(trial._fold(journal.read(file)))
        except StoreError as error:
            damages = [str(error)]
        trial.damage = _in_words(damages)
        try:
            trial.config = params.read(folder)
        except (CorruptError, FormatError, StoreError) as error:
            trial.status, trial.damage = Status.DAMAGED, str(error)
        return trial

    def _fold(self, events: Iterable[Event | Damage]) -> Iterator[str]:
        """Take in the events of a journal. Yield a text for each damage."""
        for event in events:
            if isinstance(event, Damage):
                yield event.cause
            else:
                fold(self, event)

    @property
    def changed(self) -> bool:
        """Whether its journal changed since it was read, is damaged, or was never read."""
        now = journal.stamp(self.folder / journal.FILE)
        return bool(self.damage) or self.read_at is None or self.read_at != now

    @property
    def iteration(self) -> int:
        """The number of results."""
        return int(self.results[-1]["training_iteration"]) if self.results else 0

    @property
    def last_result(self) -> Mapping[str, Any]:
        """The newest result; empty before the first."""
        return self.results[-1] if self.results else {}

    @property
    def elapsed_s(self) -> float:
        """How many seconds it has trained; repeated parts count once."""
        seconds = float(self.last_result.get("time_total_s", 0.0))
        return seconds if math.isfinite(seconds) else 0.0

    @property
    def unsaved_results(self) -> int:
        """The number of results since the last checkpoint; a crash now would lose them."""
        return self.iteration - self.checkpoint_iteration

    @property
    def finished(self) -> bool:
        """Whether it is done, stopped or failed, or its configuration cannot be read."""
        return self.status in {Status.TERMINATED, Status.ERROR, Status.DAMAGED}

    @property
    def checkpoints(self) -> CheckpointFolder:
        """Its checkpoints."""
        return CheckpointFolder(self.folder)

    def metric(self, name: str) -> list[float]:
        """Return the numbers reported under *name*; `a/b` means b in the dict a. Omit other values."""
        values = (lookup(result, name) for result in self.results)
        return [value for value in values if isinstance(value, (int, float))]

    def page(self) -> Page:
        """See `Rich.page`. It shows more if the trial's experiment can be read."""
        return trial_page(self)

    def newest(self, name: str) -> float | None:
        """Return the last number reported under *name*. Each result is looked at once."""
        results = self.results
        of, (seen, before) = self._known.get(("newest", name), (None, (0, None)))
        if of is not results:
            seen, before = 0, None
        new = results[seen:]
        values = (lookup(result, name) for result in reversed(new))
        newest: float | None = next(filter(is_number, values), before)
        self._known["newest", name] = results, (seen + len(new), newest)
        return newest

    def remember(self, name: Hashable, of: object, make: Callable[[], V]) -> V:
        """Return the value of *make*, which is called again only if *of* is another object than before."""
        known = self._known.get(name)
        if known is None or known[0] is not of:
            known = self._known[name] = of, make()
        value: V = known[1]
        return value

    def log(self, most_lines: int = MOST_LINES) -> list[str]:
        """Return the last lines of its output, as a terminal shows them, each with at most 200 characters."""
        return log.last_lines(self.folder, most_lines)

    def __repr__(self) -> str:
        return f"Trial({self.id}, {self.status}, {self.iteration} results)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the folder's path only: a copy would miss later changes."""
        return find_trial.function, (self.folder,)


def _bare_page(trial: Trial) -> Page:
    return Page(repr(trial), notes=(f"kept in {trial.folder}",))


find_trial: Hook[[Path], Trial] = Hook(Trial.read)
"""Returns the trial of a folder, for pickles. A module that knows experiments finds it in its experiment."""

trial_page: Hook[[Trial], Page] = Hook(_bare_page)
"""Returns the page that a notebook shows for a trial."""


def trial_names(folder: Path) -> list[str]:
    """Return the names of the trials in an experiment's folder, in the order in which they were made."""
    names: list[str] = []
    with suppress(FileNotFoundError):  # the experiment was removed just now
        names = [entry.name for entry in folder.iterdir() if _NAME.fullmatch(entry.name)]
    return sorted(names, key=lambda name: int(name[1:]))


def read_trials(folder: Path, known: Mapping[str, Trial]) -> list[Trial]:
    """Return the trials in an experiment's folder, in the order in which they were made.

    A *known* trial whose journal has not changed is not read again.
    """
    trials = []
    for name in trial_names(folder):
        trial, trial_folder = known.get(name), folder / name
        if trial is not None and not trial.changed:
            trials.append(trial)
        elif (trial_folder / journal.FILE).exists() or (trial_folder / params.FILE).exists():
            trials.append(Trial.read(trial_folder))  # without both files it is still being made
    return trials


def fold(trial: Trial, event: Event) -> None:
    """Take in one event of the journal: a trial's whole state is a fold over these events."""
    kind = event.get("event")
    if kind == "result":
        trial.results.append(event["result"])
        if "media" in event:
            _take_media(trial, event)
        return
    at = event.get("at")
    if kind == "start":
        trial.status, trial.ended_at, trial.note, trial.stopped_early = Status.RUNNING, None, "", False
        trial.started_at = trial.started_at or at
        trial.attempts += 1
        # Results after the checkpoint are going to be repeated.
        done = event["iteration"]
        if trial.results and trial.iteration > done:
            trial.results = [result for result in trial.results if result["training_iteration"] <= done]
            trial.media = [media for media in trial.media if media.step <= done]
        trial.checkpoint, trial.checkpoint_iteration = event["from"], done
        trial.origin = event.get("origin", trial.origin)
    elif kind == "checkpoint":
        trial.checkpoint, trial.checkpoint_iteration = event["name"], event["iteration"]
    elif kind == "queue":
        trial.status = Status.PENDING
    elif kind == "error":
        trial.error, trial.traceback = event["error"], event["traceback"]
        trial.failures += 1
        trial.status = Status.PENDING if event["retry"] else Status.ERROR
        trial.ended_at = at
    elif kind in {"pause", "end"}:
        trial.status = Status.PAUSED if kind == "pause" else Status.TERMINATED
        trial.note, trial.stopped_early, trial.ended_at = event.get("note", ""), event.get("early", False), at


def _take_media(trial: Trial, event: Event) -> None:
    """Take in the media of a result. Only the newest keep their previews, so memory stays small."""
    step, folder = event["result"]["training_iteration"], trial.folder.parent
    trial.media += stored(folder, step, event["media"])
    for at in range(len(trial.media) - 1 - _MOST_PREVIEWS, -1, -1):
        if not trial.media[at].preview:
            break
        trial.media[at] = replace(trial.media[at], preview={})


def _in_words(damages: Sequence[str]) -> str:
    """Return a sentence about the damages of a journal, or ""."""
    more = f", and {count(len(damages) - 1, 'more line')}" if len(damages) > 1 else ""
    return f"{damages[0]}{more}" if damages else ""
