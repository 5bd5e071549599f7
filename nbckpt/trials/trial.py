"""Trial: one run of a trainable with one configuration, as its journal tells it."""

from __future__ import annotations

import enum
import math
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeGuard, TypeVar

from nbckpt.errors import CorruptError, FormatError, NbckptError, StoreError
from nbckpt.render import Page, Rich, count
from nbckpt.trials import journal, log, params
from nbckpt.trials.checkpoints import CheckpointFolder, Record
from nbckpt.trials.journal import Damage, Event, Journal
from nbckpt.trials.trainable import plain

V = TypeVar("V")

MOST_LINES = 40

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
    """One configuration's run. Reading it is safe from every thread.

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
        self._read_at: tuple[int, int, int] | None = None
        self._known: dict[Hashable, tuple[object, Any]] = {}
        self._journal = Journal(folder / journal.FILE)
        self._lock = threading.Lock()

    @classmethod
    def read(cls, folder: Path) -> Trial:
        """Return the trial that *folder* holds, without writing anything.

        It does not fail: `damage` says what of it cannot be read.
        """
        trial = cls(folder, {})
        file = folder / journal.FILE
        trial._read_at = journal.stamp(file)  # first: what comes while it is read is seen later
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
                self._apply(event)

    @property
    def changed(self) -> bool:
        """Whether its journal is not as it was when the trial was read, or is damaged, or was not read."""
        now = journal.stamp(self.folder / journal.FILE)
        return bool(self.damage) or self._read_at is None or self._read_at != now

    def create(self) -> None:
        """Make the trial's folder and write its configuration."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / params.FILE).write_bytes(params.encode(self.config))
        except OSError as error:
            raise StoreError(
                f"cannot make the trial {str(self.folder)!r}: {error.strerror or error}"
            ) from error

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
    def at_risk(self) -> int:
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
        from nbckpt.trials.experiment import Experiment
        from nbckpt.trials.shown import TrialShown

        try:
            experiment = Experiment.read(self.folder.parent)
            experiment.trial(self)
            return TrialShown(experiment, self).page()
        except (NbckptError, OSError) as error:
            return Page(repr(self), notes=(str(error), f"kept in {self.folder}"))

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
        from nbckpt.trials.experiment import read_trial

        return read_trial, (self.folder,)

    # What happens to it. Each call writes to the journal first, so the journal is never behind.

    def start(self, executor: str, origin: Record | None) -> None:
        """It begins, or begins anew from a checkpoint."""
        iteration = 0 if origin is None else origin.iteration
        name = None if origin is None else origin.name
        self._record({"event": "start", "executor": executor, "from": name, "iteration": iteration})

    def result(self, result: Mapping[str, Any], *, durable: bool = False) -> None:
        """It reported; *durable* where a checkpoint follows, which must not outlive its result."""
        self._record({"event": "result", "result": plain(result)}, durable=durable)

    def saved(self, record: Record) -> None:
        """It saved a checkpoint."""
        self._record({"event": "checkpoint", "name": record.name, "iteration": record.iteration})

    def lose(self, message: str) -> None:
        """It failed, and so did its journal: it is known here only."""
        self.status, self.error, self.ended_at = Status.ERROR, message, time.time()

    def pause(self, note: str = "") -> None:
        """It was paused."""
        self._record({"event": "pause", "note": note}, durable=True)

    def end(self, note: str = "", *, early: bool = False) -> None:
        """It ended well, or *early*."""
        self._record({"event": "end", "note": note, "early": early}, durable=True)

    def fail(self, error: BaseException, *, retry: bool) -> None:
        """It failed; with *retry* it begins anew."""
        cause = error.__cause__ or error
        text = "".join(traceback.format_exception(type(cause), cause, _theirs(cause)))
        message = str(error)
        self._record({"event": "error", "error": message, "traceback": text, "retry": retry}, durable=True)

    def wait(self) -> None:
        """It waits for its turn again."""
        self._record({"event": "queue"})

    def close(self) -> None:
        """Let go of the journal."""
        self._journal.close()

    def _record(self, event: Event, *, durable: bool = False) -> None:
        if event["event"] != "result":  # a result has its time
            event["at"] = time.time()
        with self._lock:
            self._journal.append(event, durable=durable)
            self._apply(event)

    def _apply(self, event: Event) -> None:
        """Take in one event: the whole state is a fold over these."""
        kind = event.get("event")
        if kind == "result":
            self.results.append(event["result"])
            return
        at = event.get("at")
        if kind == "start":
            self.status, self.ended_at, self.note, self.early = Status.RUNNING, None, "", False
            self.started_at = self.started_at or at
            self.attempts += 1
            # What was reported after the checkpoint is going to be done again.
            done = event["iteration"]
            if self.results and self.iteration > done:
                self.results = [it for it in self.results if it["training_iteration"] <= done]
            self.checkpoint, self.checkpoint_iteration = event["from"], done
        elif kind == "checkpoint":
            self.checkpoint, self.checkpoint_iteration = event["name"], event["iteration"]
        elif kind == "queue":
            self.status = Status.PENDING
        elif kind == "error":
            self.error, self.traceback = event["error"], event["traceback"]
            self.failures += 1
            self.status = Status.PENDING if event["retry"] else Status.ERROR
            self.ended_at = at
        elif kind in {"pause", "end"}:
            self.status = Status.PAUSED if kind == "pause" else Status.TERMINATED
            self.note, self.early, self.ended_at = event.get("note", ""), event.get("early", False), at


def _theirs(error: BaseException) -> TracebackType | None:
    """Return an exception's traceback from where the user's code begins."""
    frames = error.__traceback__
    while frames is not None and Path(frames.tb_frame.f_code.co_filename).parent == Path(__file__).parent:
        frames = frames.tb_next
    return frames or error.__traceback__


def _in_words(damages: Sequence[str]) -> str:
    """Return in a sentence what is wrong with a journal; nothing if nothing is."""
    more = f", and {count(len(damages) - 1, 'more line')}" if len(damages) > 1 else ""
    return f"{damages[0]}{more}" if damages else ""


def is_number(value: Any) -> TypeGuard[float]:
    """Tell whether a value is a number, and not a truth."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def lookup(result: Mapping[str, Any], name: str) -> Any:
    """Return a metric by its name, `a/b` for the metric b in the dict a; None where there is none."""
    if name in result:
        return result[name]
    here: Any = result
    for part in name.split("/"):
        if not isinstance(here, Mapping) or part not in here:
            return None
        here = here[part]
    return here
