"""State: what is known of a trial. It is a fold over the trial's journal; see docs/decisions/0015."""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbckpt.media.stored import StoredMedia, stored
from nbckpt.trials.model.annotation import Annotation
from nbckpt.trials.model.condensed import Condensed
from nbckpt.trials.model.journal import Event, Stamp
from nbckpt.trials.model.metrics import ITERATION, TIME_THIS_ITER, all_numbers
from nbckpt.trials.model.scheduling import Scheduling

MOST_MEDIA = 200
"""Of how many names the media are kept: those with the newest."""
MOST_STEPS = 12
RECENT = 10
"""Of how many of the newest results the times are kept."""
MOST_WAITING = 256
"""How many results wait to be condensed together, which takes a tenth of the time."""
_MOST_LOADS = 1000


class Status(enum.StrEnum):
    """The status of a trial, as pickles and code name it. `views/statuses.py` has the words for people.

    Examples:
        >>> with nbckpt.track("baseline") as run:
        ...     run.report(loss=0.5)
        >>> run.trial.status is nbckpt.trials.Status.TERMINATED
        True
    """

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"
    DAMAGED = "DAMAGED"


@dataclass(frozen=True)
class MediaOfName:
    """The media that a trial reported under one name.

    Attributes:
        newest: The newest.
        count: How many there were.
        steps: The iterations of the newest results that had some, at most `MOST_STEPS`.
    """

    newest: StoredMedia
    count: int = 0
    steps: tuple[int, ...] = ()

    def followed_by(self, media: StoredMedia) -> MediaOfName:
        """Return this with newer media."""
        return MediaOfName(media, self.count + 1, (*self.steps, media.step)[-MOST_STEPS:])


@dataclass
class TrialState:
    """What is known of a trial. Only nbckpt changes it: users hold a `Trial`, which shows it.

    Its recorder writes it with each event, an attempt its note, and the experiment's runner what it reads
    from the disk. Its size does not grow with the results: see docs/decisions/0087. For the attributes see
    `Trial`; only these differ:

    Attributes:
        last_result: The newest result; empty before the first.
        times: How long the newest results took.
        media: The media by their names, the name with the newest last.
        checkpoint: The name of the newest checkpoint.
        read_at: The stamp of the journal when it was last read or written; None before that.
        noted: The note as the journal has it; an attempt shows others while it runs.
        annotated: The stamp of `notes.json` and what was read of it; None before that.
        is_cut: Whether results that it took in no longer count, so that the journal must be read again.
        is_partial: Whether it is from a summary, which lacks the texts, loads, previews and the traceback.
        scheduling: What the scheduler decided about it.
        kept: The condensed results, and newer results that wait for that. Only together they are all.
    """

    folder: Path
    config: dict[str, Any]
    status: Status = Status.PENDING
    last_result: Mapping[str, Any] = field(default_factory=dict)
    iteration: int = 0
    media: Mapping[str, MediaOfName] = field(default_factory=dict)
    loads: list[dict[str, float]] = field(default_factory=list)
    checkpoint: str | None = None
    checkpoint_iteration: int = 0
    error: str = ""
    traceback: str = ""
    note: str = ""
    damage: str = ""
    origin: str = ""
    stopped_early: bool = False
    failures: int = 0
    attempts: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    read_at: Stamp = None
    noted: str = ""
    annotated: tuple[Stamp, Annotation] | None = None
    is_cut: bool = False
    is_partial: bool = False
    scheduling: Scheduling = field(default_factory=Scheduling)
    times: deque[Any] = field(default_factory=lambda: deque(maxlen=RECENT))
    kept: tuple[Condensed, list[Mapping[str, Any]]] = field(default_factory=lambda: (Condensed(), []))
    _shown: tuple[object, int, Condensed] = (None, 0, Condensed())

    @property
    def condensed(self) -> Condensed:
        """What is kept of all results so far. Any thread may ask."""
        kept = self.kept
        waiting = len(kept[1])
        if not waiting:
            return kept[0]
        of, number, shown = self._shown
        if of is not kept or number != waiting:
            shown = kept[0].extended(kept[1][:waiting])
            self._shown = kept, waiting, shown
        return shown

    def rest(self) -> None:
        """Condense all results, because no further one is expected."""
        self.kept = self.condensed, []
        self._shown = TrialState._shown

    @property
    def elapsed_s(self) -> float:
        """How many seconds it has trained; repeated parts count once."""
        seconds = float(self.last_result.get("time_total_s", 0.0))
        return seconds if math.isfinite(seconds) else 0.0

    def fold(self, event: Event, *, numbers: bool = False) -> None:
        """Take in one event of the journal. With *numbers*, a result surely has numbers only."""
        kind = event.get("event")
        if kind == "result":
            self._take_result(event, numbers=numbers)
            return
        at, takeover = event.get("at"), self.scheduling.takeover
        self.scheduling = self.scheduling.followed_by(event, self.iteration)
        if kind == "start":
            self._start(event)
        elif kind == "checkpoint":
            self.checkpoint, self.checkpoint_iteration = event["name"], event["iteration"]
            if takeover is not None and "donor" in event:
                self.config = dict(takeover.config)
        elif kind == "queue":
            self.status = Status.PENDING
        elif kind == "load":
            self.loads.append({"at": at or 0.0, **event["load"]})
            del self.loads[:-_MOST_LOADS]
        elif kind == "error":
            self.error, self.traceback = event["error"], event["traceback"]
            self.failures += 1
            self.status = Status.PENDING if event["retry"] else Status.ERROR
            self.ended_at = at
        elif kind in {"pause", "end"}:
            self.status = Status.PAUSED if kind == "pause" else Status.TERMINATED
            self.note = self.noted = event.get("note", "")
            self.stopped_early = event.get("early", False)
            self.ended_at = at

    def _take_result(self, event: Event, *, numbers: bool = False) -> None:
        """Take in a result, which is in plain JSON."""
        result = event["result"]
        self.times.append(result.get(TIME_THIS_ITER))
        condensed, waiting = self.kept
        waiting.append(result)
        # Texts, lists and dicts may be large, so these do not wait.
        if len(waiting) >= MOST_WAITING or not (numbers or all_numbers(result)):
            self.kept = condensed.extended(waiting), []  # at once: other threads read it
        if "media" in event:
            every = dict(self.media)
            for media in stored(self.folder.parent, result[ITERATION], event["media"]):
                before = every.pop(media.name, MediaOfName(media))
                every[media.name] = before.followed_by(media)
            self.media = dict([*every.items()][-MOST_MEDIA:])
        # Last: views keep what they made of the other attributes until this is another object.
        self.iteration, self.last_result = result[ITERATION], result

    def take_again(self, events: Iterable[Event]) -> None:
        """Take in the events of all results that count, instead of the results so far."""
        again = TrialState(self.folder, self.config)
        for event in events:
            again._take_result(event)
        self.times, self.kept, self.media = again.times, again.kept, again.media
        self.iteration, self.last_result, self.is_cut = again.iteration, again.last_result, False

    def _start(self, event: Event) -> None:
        self.status, self.ended_at, self.stopped_early = Status.RUNNING, None, False
        self.note = self.noted = ""
        self.started_at = self.started_at or event.get("at")
        self.attempts += 1
        self.origin = event.get("origin", self.origin)
        # Results after the checkpoint are going to be repeated.
        done = event["iteration"]
        if self.iteration > done:
            self.iteration, self.is_cut = done, True
        self.checkpoint, self.checkpoint_iteration = event["from"], done
