"""Trial: one run of a trainable with one configuration, as its journal tells it."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nbckpt.errors import CorruptError, FormatError, StoreError
from nbckpt.render import Page, Rich, count
from nbckpt.store.scan import OUTSIDE, link_outside
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.model import journal, log, params
from nbckpt.trials.model.journal import Damage, Event
from nbckpt.trials.model.metrics import is_number, lookup

V = TypeVar("V")

MOST_LINES = 40
_NAME = re.compile("t[0-9]{1,18}")

STOPPED = "stopped"
"""The note of a trial that a user stopped; a cause may follow after a semicolon."""


class Status(enum.StrEnum):
    """What a trial does."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"
    DAMAGED = "DAMAGED"


class Trial(Rich):
    """One configuration's run, as its journal tells it. Nothing here writes; `TrialRecorder` does.

    Reading it is safe from every thread.

    Attributes:
        id: Its short name in the experiment: `t0`, `t1`, …
        config: What it tries. After a restart of the kernel, what JSON has no word for is text here.
        status: What it does.
        results: Its results in order; those that were done again after a restore are there once.
        checkpoint: The name of the newest checkpoint, and `checkpoint_iteration` where it was made.
        error: The last failure's message, its `traceback`, and how many `failures` there were.
        note: A sentence about it, such as why it ended.
        early: Whether a user stopped it or a search gave it up, rather than its being done.
        damage: What is wrong with its files, in a sentence. A trial whose configuration cannot be read
            is DAMAGED; of a damaged journal the other lines count.
        read_at: The stamp of the journal up to which the trial is known; None before it was read or written.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.id = folder.name
        self.folder = folder
        self.config = dict(config)
        self.status = Status.PENDING
        self.results: list[dict[str, Any]] = []
        self.checkpoint: str | None = None
        self.checkpoint_iteration = 0
        self.error = self.traceback = self.note = self.damage = ""
        self.early = False
        self.failures = 0
        self.attempts = 0
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.read_at: tuple[int, int, int] | None = None
        self._known: dict[Hashable, tuple[object, Any]] = {}

    @classmethod
    def read(cls, folder: Path) -> Trial:
        """Return the trial that *folder* holds, without writing anything.

        It does not fail: `damage` says what of it cannot be read.
        """
        trial = cls(folder, {})
        for name in (journal.FILE, params.FILE):
            if link := link_outside(folder.parent, f"{folder.name}/{name}"):
                trial.status, trial.damage = Status.DAMAGED, f"{link} is not read: {OUTSIDE}"
                return trial
        file = folder / journal.FILE
        trial.read_at = journal.stamp(file)  # first: what comes while it is read is seen later
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
        """Take in what a journal says; yield what is wrong with it."""
        for event in events:
            if isinstance(event, Damage):
                yield event.cause
            else:
                fold(self, event)

    @property
    def changed(self) -> bool:
        """Whether its journal is not as it was when the trial was read, or is damaged, or was not read."""
        now = journal.stamp(self.folder / journal.FILE)
        return bool(self.damage) or self.read_at is None or self.read_at != now

    @property
    def iteration(self) -> int:
        """How many results there are."""
        return int(self.results[-1]["training_iteration"]) if self.results else 0

    @property
    def last_result(self) -> Mapping[str, Any]:
        """The newest result; empty before the first."""
        return self.results[-1] if self.results else {}

    @property
    def elapsed_s(self) -> float:
        """How long it has trained, in seconds, the parts that were done again not counted."""
        seconds = float(self.last_result.get("time_total_s", 0.0))
        return seconds if math.isfinite(seconds) else 0.0

    @property
    def unsaved_results(self) -> int:
        """How many results would have to be done again if everything ended now."""
        return self.iteration - self.checkpoint_iteration

    @property
    def finished(self) -> bool:
        """Whether it ended of itself, by a stop or by an error, or nobody knows its configuration."""
        return self.status in {Status.TERMINATED, Status.ERROR, Status.DAMAGED}

    @property
    def checkpoints(self) -> CheckpointFolder:
        """What it saved."""
        return CheckpointFolder(self.folder)

    def metric(self, name: str) -> list[float]:
        """Return the numbers reported under *name*, `a/b` for a nested one; other results are left out."""
        found = (lookup(result, name) for result in self.results)
        return [value for value in found if isinstance(value, (int, float))]

    def page(self) -> Page:
        """See `Rich.page`. It says more where the trial's experiment can be read."""
        return _bound.page(self)

    def newest(self, name: str) -> float | None:
        """Return the last number reported under *name*; results that were looked at are not again."""
        results = self.results
        of, (seen, before) = self._known.get(("newest", name), (None, (0, None)))
        if of is not results:
            seen, before = 0, None
        new = results[seen:]
        values = (lookup(result, name) for result in reversed(new))
        found: float | None = next(filter(is_number, values), before)
        self._known["newest", name] = results, (seen + len(new), found)
        return found

    def remember(self, what: Hashable, of: object, make: Callable[[], V]) -> V:
        """Return what *make* returns, which is called anew only where *of* is another object than before."""
        known = self._known.get(what)
        if known is None or known[0] is not of:
            known = self._known[what] = of, make()
        value: V = known[1]
        return value

    def log(self, most_lines: int = MOST_LINES) -> list[str]:
        """Return the last lines that it printed, as one would see them, of each at most 200 characters."""
        return log.last_lines(self.folder, most_lines)

    def __repr__(self) -> str:
        return f"Trial({self.id}, {self.status}, {self.iteration} results)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where it is: a copy would not know what happened since."""
        return _bound.find, (self.folder,)


def _bare_page(trial: Trial) -> Page:
    return Page(repr(trial), notes=(f"kept in {trial.folder}",))


@dataclass
class _Bound:
    """What is above this module and knows more of a trial than its folder tells."""

    find: Callable[[Path], Trial] = Trial.read
    page: Callable[[Trial], Page] = _bare_page


_bound = _Bound()


def bind(*, find: Callable[[Path], Trial], page: Callable[[Trial], Page]) -> None:
    """Have trials found and shown with their experiment.

    Args:
        find: Returns the trial of a folder, for pickles.
        page: Returns what a notebook shows of a trial.
    """
    _bound.find, _bound.page = find, page


def read_trials(folder: Path, known: Mapping[str, Trial]) -> list[Trial]:
    """Return the trials in an experiment's folder, in the order in which they were made.

    Those that are *known*, and nobody wrote to since, are not read again.
    """
    names: list[str] = []
    with suppress(FileNotFoundError):  # it was removed just now
        names = [place.name for place in folder.iterdir() if _NAME.fullmatch(place.name)]
    trials = []
    for name in sorted(names, key=lambda name: int(name[1:])):
        trial, place = known.get(name), folder / name
        if trial is not None and not trial.changed:
            trials.append(trial)
        elif (place / journal.FILE).exists() or (place / params.FILE).exists():  # else it is being made
            trials.append(Trial.read(place))
    return trials


def fold(trial: Trial, event: Event) -> None:
    """Take one event of its journal into a trial: its whole state is a fold over these."""
    kind = event.get("event")
    if kind == "result":
        trial.results.append(event["result"])
        return
    at = event.get("at")
    if kind == "start":
        trial.status, trial.ended_at, trial.note, trial.early = Status.RUNNING, None, "", False
        trial.started_at = trial.started_at or at
        trial.attempts += 1
        # What was reported after the checkpoint is going to be done again.
        done = event["iteration"]
        if trial.results and trial.iteration > done:
            trial.results = [it for it in trial.results if it["training_iteration"] <= done]
        trial.checkpoint, trial.checkpoint_iteration = event["from"], done
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
        trial.note, trial.early, trial.ended_at = event.get("note", ""), event.get("early", False), at


def _in_words(damages: Sequence[str]) -> str:
    """Return in a sentence what is wrong with a journal; nothing if nothing is."""
    more = f", and {count(len(damages) - 1, 'more line')}" if len(damages) > 1 else ""
    return f"{damages[0]}{more}" if damages else ""
