"""TrialRecorder: writes what happens to a trial into its journal, and folds it into the trial."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model import journal, params
from nbckpt.trials.model.journal import Event, Journal
from nbckpt.trials.model.metrics import plain
from nbckpt.trials.model.trial import Status, Trial, fold


class TrialRecorder:
    """Writes a trial's journal. Each call writes first, so the journal is never behind the trial.

    One recorder at a time writes a trial: that of its attempt or, while no attempt runs, that of the process
    that holds the experiment's lock. Every method that writes raises StoreError if the disk fails.

    Args:
        trial: The trial, which changes with each event.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self._journal = Journal(trial.folder / journal.FILE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(self) -> None:
        """Make the trial's folder and write its configuration."""
        params.write({self.trial.folder: self.trial.config})

    def queue(self) -> None:
        """The trial waits for its turn again."""
        self._record({"event": "queue"})

    def start(self, executor: str, origin: Record | None) -> None:
        """The trial begins, or begins again from a checkpoint."""
        iteration = 0 if origin is None else origin.iteration
        name = None if origin is None else origin.name
        self._record({"event": "start", "executor": executor, "from": name, "iteration": iteration})

    def result(self, result: Mapping[str, Any], *, durable: bool = False) -> None:
        """The trial reported; *durable* if a checkpoint follows, which must not outlive its result."""
        self._record({"event": "result", "result": plain(result)}, durable=durable)

    def saved(self, record: Record) -> None:
        """The trial saved a checkpoint."""
        self._record({"event": "checkpoint", "name": record.name, "iteration": record.iteration})

    def pause(self, note: str = "") -> None:
        """The trial was paused."""
        self._record({"event": "pause", "note": note}, durable=True)

    def end(self, note: str = "", *, early: bool = False) -> None:
        """The trial ended well, or *early*."""
        self._record({"event": "end", "note": note, "early": early}, durable=True)

    def fail(self, error: BaseException, *, retry: bool) -> None:
        """The trial failed; with *retry* it begins again."""
        cause = error.__cause__ or error
        text = "".join(traceback.format_exception(type(cause), cause, _theirs(cause)))
        message = str(error)
        self._record({"event": "error", "error": message, "traceback": text, "retry": retry}, durable=True)

    def lose(self, message: str) -> None:
        """The trial failed, and so did its journal: only this process knows."""
        trial = self.trial
        trial.status, trial.error, trial.ended_at = Status.ERROR, message, time.time()

    def close(self) -> None:
        """Let go of the journal; what another process writes into it from now on is seen as a change."""
        self._journal.close()
        self.trial.read_at = journal.stamp(self.trial.folder / journal.FILE)

    def _record(self, event: Event, *, durable: bool = False) -> None:
        if event["event"] != "result":  # a result has its time
            event["at"] = time.time()
        self._journal.append(event, durable=durable)  # before the fold: see docs/decisions/0015
        fold(self.trial, event)


def _theirs(error: BaseException) -> TracebackType | None:
    """Return an exception's traceback from where the user's code begins."""
    frames = error.__traceback__
    while frames is not None and Path(frames.tb_frame.f_code.co_filename).parent == Path(__file__).parent:
        frames = frames.tb_next
    return frames or error.__traceback__
