"""State: what is known of a trial. It is a fold over the trial's journal; see docs/decisions/0015."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nbckpt.media.stored import StoredMedia, stored
from nbckpt.trials.model.journal import Event

_MOST_PREVIEWS = 200
_MOST_LOADS = 1000


class Status(enum.StrEnum):
    """The status of a trial, as pickles and code name it. `views/statuses.py` has the words for people."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"
    DAMAGED = "DAMAGED"


@dataclass
class TrialState:
    """What is known of a trial. Only nbckpt changes it: users hold a `Trial`, which shows it.

    Its recorder writes it with each event, an attempt its note, and the experiment's runner what it reads
    from the disk. For the attributes see `Trial`; only these differ:

    Attributes:
        checkpoint: The name of the newest checkpoint.
        read_at: The stamp of the journal when it was last read or written; None before that.
    """

    folder: Path
    config: dict[str, Any]
    status: Status = Status.PENDING
    results: list[dict[str, Any]] = field(default_factory=list)
    media: list[StoredMedia] = field(default_factory=list)
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
    read_at: tuple[int, int, int] | None = None

    @property
    def last_result(self) -> Mapping[str, Any]:
        """The newest result; empty before the first."""
        return self.results[-1] if self.results else {}

    @property
    def iteration(self) -> int:
        """The number of results."""
        return int(self.results[-1]["training_iteration"]) if self.results else 0

    @property
    def elapsed_s(self) -> float:
        """How many seconds it has trained; repeated parts count once."""
        seconds = float(self.last_result.get("time_total_s", 0.0))
        return seconds if math.isfinite(seconds) else 0.0

    def fold(self, event: Event) -> None:
        """Take in one event of the journal."""
        kind = event.get("event")
        if kind == "result":
            self.results.append(event["result"])
            if "media" in event:
                self._take_media(event)
            return
        at = event.get("at")
        if kind == "start":
            self._start(event)
        elif kind == "checkpoint":
            self.checkpoint, self.checkpoint_iteration = event["name"], event["iteration"]
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
            self.note, self.stopped_early = event.get("note", ""), event.get("early", False)
            self.ended_at = at

    def _take_media(self, event: Event) -> None:
        """Take in the media of a result. Only the newest keep their previews, so memory stays small."""
        self.media += stored(self.folder.parent, event["result"]["training_iteration"], event["media"])
        for at in range(len(self.media) - 1 - _MOST_PREVIEWS, -1, -1):
            if not self.media[at].preview:
                break
            self.media[at] = replace(self.media[at], preview={})

    def _start(self, event: Event) -> None:
        self.status, self.ended_at, self.note, self.stopped_early = Status.RUNNING, None, "", False
        self.started_at = self.started_at or event.get("at")
        self.attempts += 1
        self.origin = event.get("origin", self.origin)
        # Results after the checkpoint are going to be repeated.
        done = event["iteration"]
        if self.results and self.iteration > done:
            self.results = [result for result in self.results if result["training_iteration"] <= done]
            self.media = [media for media in self.media if media.step <= done]
        self.checkpoint, self.checkpoint_iteration = event["from"], done
