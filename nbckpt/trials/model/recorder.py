"""TrialRecorder: write the events of a trial to its journal, and fold them into the trial."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nbckpt.media.base import Encoded
from nbckpt.media.stored import store
from nbckpt.provenance.trial import of_trial
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model import journal, reading, summary_file
from nbckpt.trials.model.decision import Decision
from nbckpt.trials.model.journal import Event, Journal
from nbckpt.trials.model.metrics import plain
from nbckpt.trials.model.trial import Status, Trial, state_of

_PACKAGE = Path(__file__).parents[2]


class TrialRecorder:
    """Writes a trial's journal. Each call writes first, so the journal is never behind the trial.

    One recorder at a time writes a trial. While an attempt runs, it is the recorder of the attempt.
    Otherwise it is the recorder of the process that holds the experiment's lock. Every method that writes
    raises StoreError if the disk fails.

    Args:
        trial: The trial, which changes with each event.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self._state = state_of(trial)
        self._journal = Journal(trial.folder / journal.FILE)
        self._is_behind = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def queue(self) -> None:
        """Record that the trial waits for its turn again."""
        self._record({"event": "queue"})

    def start(
        self, executor: str, checkpoint: Record | None, origin: str = "", *, provenance: bool = True
    ) -> None:
        """Record that the trial starts, or restarts from a checkpoint, or from the experiment's *origin*.

        With *provenance*, what is needed to do the trial again is kept, in the background.
        """
        iteration = 0 if checkpoint is None else checkpoint.iteration
        name = None if checkpoint is None else checkpoint.name
        start = {"executor": executor, "from": name, "iteration": iteration, "trial": self.trial.id}
        self._record({"event": "start"} | start | ({"origin": origin} if origin else {}))
        reading.read_cut(self._state)
        if provenance:
            of_trial(self.trial.folder, iteration=iteration, executor=executor)

    def result(
        self,
        result: Mapping[str, Any],
        media: Mapping[str, Encoded] | None = None,
        *,
        durable: bool = False,
        numbers: bool = False,
    ) -> None:
        """Record a result; *durable* if a checkpoint follows, because that must not outlive its result.

        With *numbers*, `all_numbers` holds for the result, which is not checked again.
        """
        event: Event = {"event": "result", "result": dict(result) if numbers else plain(result)}
        if media:  # before the journal: see docs/decisions/0078
            event["media"] = store(self.trial.folder.parent, media)
        self._record(event, durable=durable, numbers=numbers)

    def load(self, load: Mapping[str, float]) -> None:
        """Record the load of the machine, apart from the results."""
        self._record({"event": "load", "load": dict(load)})

    def saved(self, record: Record) -> None:
        """Record that the trial saved a checkpoint."""
        self._record({"event": "checkpoint", "name": record.name, "iteration": record.iteration})

    def decided(self, decision: Decision) -> None:
        """Record what the scheduler decided, before it takes effect."""
        event: Event = {"event": "decision", "do": decision.do, "reason": str(decision.reason)}
        if decision.rung is not None:
            event["rung"] = decision.rung
        if decision.do != "promote":  # the value was recorded at the pause
            event["value"] = decision.value
        if decision.do == "exploit":
            event |= {"donor": decision.donor, "checkpoint": decision.checkpoint}
            event["config"] = decision.config
        self._record(plain(event), durable=decision.do in {"promote", "exploit"})
        if takeover := self._state.scheduling.takeover:  # with the values that JSON cannot express
            takeover = takeover._replace(config=dict(decision.config))
            self._state.scheduling = replace(self._state.scheduling, takeover=takeover)

    def taken_over(self, record: Record, donor: str) -> None:
        """Record that the trial has *record* from another trial, and that trial's configuration, changed."""
        event = {"event": "checkpoint", "name": record.name, "iteration": record.iteration, "donor": donor}
        self._record(event, durable=True)

    def pause(self, note: str = "", *, by: Decision | None = None) -> None:
        """Record that the trial was paused. With a scheduler's decision, the scheduler holds the trial."""
        held: Event = {} if by is None else {"held": True}
        if by is not None and by.rung is not None:
            held["rung"] = by.rung
        self._record({"event": "pause", "note": note, **held}, durable=True)

    def end(self, note: str = "", *, stopped_early: bool = False) -> None:
        """Record that the trial is done, or *stopped_early*."""
        self._record({"event": "end", "note": note, "early": stopped_early}, durable=True)

    def fail(self, error: BaseException, *, retry: bool) -> None:
        """Record that the trial failed; with *retry* it starts again."""
        cause = error.__cause__ or error
        text = "".join(traceback.format_exception(type(cause), cause, _theirs(cause)))
        message = str(error)
        self._record({"event": "error", "error": message, "traceback": text, "retry": retry}, durable=True)

    def read_again(self) -> None:
        """Take in the journal again, after an interrupt between the journal and the trial."""
        read = vars(state_of(Trial.read(self.trial.folder)))
        vars(self._state).update(read | {"config": self._state.config})
        self._is_behind = False

    def sync(self) -> None:
        """Make all events so far survive the death of the machine."""
        self._journal.sync()

    def lose(self, message: str) -> None:
        """Mark the trial as failed in this process only, because its journal cannot be written."""
        state = self._state
        state.status, state.error, state.ended_at = Status.ERROR, message, time.time()
        self._is_behind = True

    def close(self) -> None:
        """Close the journal, and write the trial's summary. Later writes by others are seen as a change."""
        self._journal.close()
        self._state.rest()
        self._state.read_at = journal.stamp(self.trial.folder / journal.FILE)
        if not self._is_behind:  # otherwise the journal may say more than the trial
            summary_file.write(self.trial)

    def _record(self, event: Event, *, durable: bool = False, numbers: bool = False) -> None:
        if event["event"] != "result":  # a result has its own time
            event["at"] = time.time()
        was_behind, self._is_behind = self._is_behind, True
        self._journal.append(event, durable=durable)  # before the fold: see docs/decisions/0015
        self._state.fold(event, numbers=numbers)
        self._is_behind = was_behind


def _theirs(error: BaseException) -> TracebackType | None:
    """Return an exception's traceback from the first frame of the user's code."""
    frames = error.__traceback__
    while frames is not None and _is_ours(frames):
        frames = frames.tb_next
    return frames or error.__traceback__


def _is_ours(traceback: TracebackType) -> bool:
    """Return whether a frame belongs to nbckpt, or to IPython, which runs cells."""
    frame = traceback.tb_frame
    is_shell = str(frame.f_globals.get("__name__", "")).startswith("IPython.")
    return is_shell or _PACKAGE in Path(frame.f_code.co_filename).parents
