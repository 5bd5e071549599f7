"""Rows: a trial as the browser shows it. All texts may come from a stranger, and all are cut."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nbckpt.errors import visible
from nbckpt.notebook.widget.wires import Message
from nbckpt.trials.model.metrics import as_float, is_number
from nbckpt.trials.model.trial import Status, Trial, state_of
from nbckpt.trials.views.eta import Progress
from nbckpt.trials.views.metrics import flat_config, value_of
from nbckpt.trials.views.statuses import last_line

MOST_METRICS = 20
"""Of how many metrics a row has the value."""

_LONGEST = 200
_LONGEST_NOTE = 2_000
_LARGEST = 1 << 53
_STATUSES = {"pending": "waiting", "pausing": "running", "stopping": "running", "saving": "running"}
_STATUSES |= {"damaged": "failed"}
_ASKED = {
    "pausing": "Pausing after this step…",
    "stopping": "Stopping after this step…",
    "saving": "Saving with the next step…",
}
_MOST_ERRORS = 8


def row_of(trial: Trial, state: str, running: Progress | None, view: View, *, front: bool = False) -> Message:
    """Return the row of a trial.

    Args:
        trial: The trial.
        state: Its status, as `states_of` says it.
        running: Its progress if it runs.
        view: What is shown of each trial.
        front: Whether it is on the Pareto front of several objectives.
    """
    annotation = trial.annotation
    config = flat_config(trial)
    values = {name: number_of(trial.newest(name)) for name in view.metrics}
    best = value_of(trial, view.metric, view.mode, "best") if view.metric else None
    return {
        "id": trial.id,
        "n": number_in(trial.id),
        "status": _STATUSES.get(state, state),
        "why": _cut(_ASKED.get(state) or trial.damage or trial.note),
        "settings": {name: setting_of(config[name][0]) for name in view.settings if name in config},
        "metrics": {name: value for name, value in values.items() if value is not None},
        "best": {} if best is None else {view.metric: number_of(best)},
        "step": trial.iteration,
        "of": running.total if running else None,
        "left_s": number_of(running.left_s) if running else None,
        "saved": None if trial.checkpoint_name is None else trial.checkpoint_iteration,
        "unsaved": 0 if trial.status == Status.TERMINATED else trial.unsaved_results,
        "error": _cut(last_line(trial)) if trial.status == Status.ERROR else "",
        "note": _cut(annotation.note, _LONGEST_NOTE),
        "tags": [_cut(tag) for tag in annotation.tags],
        "started": trial.started_at,
        "ended": trial.ended_at,
        "seconds": number_of(trial.elapsed_s),
        "front": front,
    }


class View:
    """What is shown of each trial: the metrics, the settings, and which metric compares trials."""

    def __init__(self, metrics: Sequence[str], settings: Sequence[str], metric: str, mode: str) -> None:
        names = dict.fromkeys([metric] if metric else [])
        self.metrics = list(names | dict.fromkeys(metrics))[:MOST_METRICS]
        self.settings, self.metric, self.mode = list(settings), metric, mode


def sign_of(trial: Trial, state: str, running: Progress | None, *, front: bool = False) -> tuple[Any, ...]:
    """Return a value that differs once the row of a trial may differ."""
    shown = state_of(trial)
    left = running and (running.total, running.iteration)
    last, note, error = id(shown.last_result), shown.note, shown.error
    return state, last, trial.iteration, note, error, shown.checkpoint, left, trial.annotation, front


def summary_of(states: Mapping[str, str], trials: Sequence[Trial], left_s: float | None) -> Message:
    """Return how many trials have each status, and the errors with their numbers, the most frequent first."""
    numbers = Counter(_STATUSES.get(state, state) for state in states.values())
    errors = Counter(_cut(last_line(trial)) for trial in trials if trial.status == Status.ERROR)
    groups = [{"text": text, "count": number} for text, number in errors.most_common(_MOST_ERRORS)]
    return {**numbers, "left_s": number_of(left_s), "error_groups": groups}


def compared_at(trials: Sequence[Trial]) -> str:
    """Return where a scheduler compared trials: `rungs`, the ends of `generations`, or empty for nowhere."""
    scheduled = [scheduling for trial in trials if (scheduling := state_of(trial).scheduling).rungs]
    if any(scheduling.has_generations for scheduling in scheduled):
        return "generations"
    return "rungs" if scheduled else ""


def number_in(name: str) -> int:
    """Return the number in a trial's name: t52 is 52; -1 if it has none."""
    digits = name.removeprefix("t")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else -1


def number_of(value: float | None) -> float | str | None:
    """Return a number as JSON: what is not finite as a text."""
    if value is None:
        return None
    if isinstance(value, int) and abs(value) < _LARGEST:
        return value
    number = as_float(value)
    if math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


def setting_of(value: Any) -> Any:
    """Return a value of a configuration: a number, a text, True or False; other values as text."""
    if isinstance(value, bool):
        return value
    return number_of(value) if is_number(value) else _cut(value if isinstance(value, str) else repr(value))


def _cut(text: str, most: int = _LONGEST) -> str:
    said = visible(text[: most + 1])
    return said if len(said) <= most else f"{said[: most - 1]}…"
