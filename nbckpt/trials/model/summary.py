"""Summary: what tables, filters and sorting need of a trial, as plain JSON. A cache, never the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from nbckpt.core.schema import OneOf, check
from nbckpt.errors import CorruptError
from nbckpt.media.stored import stored
from nbckpt.trials.model.annotation import LONGEST_NOTE, MOST_TAGS, Annotation
from nbckpt.trials.model.condensed import MOST_NAMES, Condensed
from nbckpt.trials.model.curve import Curve
from nbckpt.trials.model.metrics import ITERATION, plain
from nbckpt.trials.model.scheduling import Scheduling, Takeover
from nbckpt.trials.model.state import MOST_MEDIA, MOST_STEPS, MediaOfName, Status, TrialState
from nbckpt.trials.model.trial import Trial, state_of, trial_of

VERSION = 1
"""The version of what summaries hold. One of another version is not read."""

_MOMENT = OneOf(None, float)
_FIELDS: dict[str, Any] = {
    "iteration": int,
    "checkpoint": OneOf(None, str),
    "checkpoint_iteration": int,
    "error": str,
    "note": str,
    "origin": str,
    "stopped_early": bool,
    "failures": int,
    "attempts": int,
    "started_at": _MOMENT,
    "ended_at": _MOMENT,
}
"""The fields of a state that a summary holds as they are."""
_FORM = _FIELDS | {
    "status": str,
    "config": dict,
    "result": {f"{ITERATION}?": int, "time_total_s?": float, "timestamp?": float},
    "curves": [(str, list)],
    "media": [{"name": str, "step": int, "count": int, "steps": [int]}],
    "load": {str: float},
    "user_note": str,
    "tags": [str],
    "scheduled?": {
        "promoted": int,
        "held": bool,
        "reason": str,
        "rungs": [(int, OneOf(None, float))],
        "do?": str,
        "at?": int,
        "value?": OneOf(None, float),
        "takeover?": OneOf(None, (str, str, dict)),
        "donor?": str,
    },
}
_SCHEDULED = [name.removesuffix("?") for name in _FORM["scheduled?"]]


@dataclass(frozen=True)
class Summary:
    """A trial as a row of a table, a filter and a frame see it.

    The trial of a summary that was read has everything that these need. It reads its journal if more is
    asked of it: results, texts, previews of media, samples of the load, a traceback.

    Attributes:
        trial: The trial.
        annotation: The note and the tags that a user gave it.
    """

    trial: Trial
    annotation: Annotation

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain JSON."""
        state = state_of(self.trial)
        return {
            **{name: getattr(state, name) for name in _FIELDS},
            "status": str(state.status),
            "note": state.noted,
            "config": plain(state.config),
            "result": state.last_result,
            "curves": [[name, curve.to_json()] for name, curve in state.condensed.curves.items()],
            "media": [_media_to_json(media) for media in state.media.values()],
            "load": state.loads[-1] if state.loads else {},
            "user_note": self.annotation.note,
            "tags": list(self.annotation.tags),
            **_scheduled(state),
        }

    @classmethod
    def from_json(cls, document: Any, folder: Path) -> Self:
        """Return the summary of the trial in *folder* from a document that anyone may have written.

        Raises:
            CorruptError: It is not the document of a summary.
        """
        label = f"the summary of {folder.name}"
        check(document, _FORM, label)
        too_many = len(document["curves"]) > MOST_NAMES or len(document["media"]) > MOST_MEDIA
        if too_many or len(document["tags"]) > MOST_TAGS or len(document["user_note"]) > LONGEST_NOTE:
            raise CorruptError(f"{label} is damaged: it has more than nbckpt writes")
        if document["status"] not in set(Status) - {Status.DAMAGED}:
            raise CorruptError(f"{label} is damaged: {document['status'][:40]!r} is not a status")
        state = TrialState(folder, document["config"], Status(document["status"]), is_partial=True)
        vars(state).update({name: document[name] for name in _FIELDS}, noted=document["note"])
        state.last_result = document["result"]
        state.kept = Condensed({name: Curve.from_json(curve) for name, curve in document["curves"]}), []
        state.media = {media.newest.name: media for media in _media_from_json(document["media"], folder)}
        state.loads = [document["load"]] if document["load"] else []
        if scheduled := document.get("scheduled"):
            state.scheduling = _scheduling(scheduled)
        annotation = Annotation(document["user_note"], tuple(document["tags"]))
        return cls(trial_of(state), annotation)


def _scheduled(state: TrialState) -> dict[str, Any]:
    scheduling = state.scheduling
    if scheduling == Scheduling():
        return {}
    document = vars(scheduling) | {"rungs": [[*rung] for rung in scheduling.rungs.items()]}
    if takeover := scheduling.takeover:
        document["takeover"] = [takeover.donor, takeover.checkpoint, plain(takeover.config)]
    return {"scheduled": document}


def _scheduling(document: dict[str, Any]) -> Scheduling:
    takeover = document.get("takeover")
    read = {"rungs": dict(document["rungs"]), "takeover": Takeover(*takeover) if takeover else None}
    return Scheduling(**{name: document[name] for name in _SCHEDULED if name in document} | read)


def _media_to_json(media: MediaOfName) -> dict[str, Any]:
    newest = media.newest
    line = {"type": newest.type, "digest": newest.digest, "size": newest.size}
    line |= {"ending": newest.path.suffix[1:]} if newest.type == "file" else {}
    return {"name": newest.name, "step": newest.step, "count": media.count, "steps": [*media.steps], **line}


def _media_from_json(documents: list[Any], folder: Path) -> Iterator[MediaOfName]:
    for document in documents:
        for newest in stored(folder.parent, document["step"], {document["name"]: document}):
            yield MediaOfName(newest, document["count"], tuple(document["steps"][-MOST_STEPS:]))
