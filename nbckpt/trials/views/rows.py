"""Rows: which trials the table of an experiment shows, and what stands in its columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from nbckpt.render import Cell, Column, Table, duration, short
from nbckpt.trials.model.metrics import is_number, plain
from nbckpt.trials.model.trial import Status, Trial, state_of
from nbckpt.trials.views.eta import Progress
from nbckpt.trials.views.formats import shown_value, tail
from nbckpt.trials.views.front import ON_FRONT
from nbckpt.trials.views.metrics import flat_config, metric_cell, varying

_MOST_CONFIG = 5
_LONGEST_NOTE = 40

_Filled = tuple[Column, Callable[[Trial], Cell | str]]
"""A column, and what makes its cell of a trial."""


def fair_share(trials: Sequence[Trial], states: Mapping[str, str], most: int) -> list[Trial]:
    """Return at most *most* trials in their order, the same number from each status."""
    if not most or len(trials) <= most:
        return list(trials)
    waiting: dict[str, list[Trial]] = {}
    for trial in trials:
        waiting.setdefault(states[trial.id], []).append(trial)
    chosen: set[Trial] = set()
    while len(chosen) < most:
        for queue in waiting.values():
            if queue and len(chosen) < most:
                chosen.add(queue.pop(0))
    return [trial for trial in trials if trial in chosen]


def table_of(
    shown: Sequence[Trial],
    trials: Sequence[Trial],
    states: Mapping[str, str],
    metrics: Mapping[str, str],
    running: Mapping[str, Progress],
    front: Container[Trial] | None = None,
) -> Table:
    """Return the table of the trials that are shown, with the settings in which all trials differ.

    Args:
        shown: The trials that are shown.
        trials: All trials.
        states: The statuses in words.
        metrics: The metrics to show, with their headings.
        running: The progress of the running trials.
        front: The trials on the Pareto front, which are marked; None if there are no several objectives.
    """
    columns: list[_Filled] = [
        *_of_state(shown, trials, states),
        *_of_front(front),
        (Column("iteration", number=True), lambda trial: str(running.get(trial.id, trial.iteration))),
        *(
            (Column(tail(heading), number=True), partial(metric_cell, name=name))
            for name, heading in metrics.items()
        ),
        *_of_training(shown, running),
        *_of_annotations(shown),
    ]
    rows = tuple(tuple(cell(trial) for _, cell in columns) for trial in shown)
    return Table("trials", tuple(column for column, _ in columns), rows)


def _of_state(
    shown: Sequence[Trial], trials: Sequence[Trial], states: Mapping[str, str]
) -> Iterator[_Filled]:
    """Yield the names, the statuses and the settings in which trials differ."""
    configs = {trial.id: {key: value for key, (value, _) in flat_config(trial).items()} for trial in shown}

    def setting(trial: Trial, key: str) -> Cell:
        return shown_value(configs[trial.id].get(key, ""))

    yield Column("trial"), lambda trial: Cell(trial.id, json.dumps(plain(trial.config)))
    yield Column("status"), lambda trial: _state_cell(trial, states[trial.id])
    for key in varying(trials)[:_MOST_CONFIG]:
        yield Column(tail(key), number=_all_numbers(configs.values(), key)), partial(setting, key=key)


def _of_front(front: Container[Trial] | None) -> Iterator[_Filled]:
    if front is not None:
        yield Column("pareto"), lambda trial: Cell("front", ON_FRONT) if trial in front else ""


def _of_training(shown: Sequence[Trial], running: Mapping[str, Progress]) -> Iterator[_Filled]:
    """Yield the rungs, the checkpoints and the times."""
    etas = {trial.id: running[trial.id].eta for trial in shown if trial.id in running}
    yield from _of_rungs(shown)
    yield Column("checkpoint", number=True), _checkpoint
    yield Column("unsaved", number=True), _unsaved
    yield Column("elapsed", number=True), lambda trial: duration(trial.elapsed_s)
    if any(etas.values()):
        yield Column("eta", number=True), lambda trial: etas.get(trial.id, "")


def _of_rungs(shown: Sequence[Trial]) -> Iterator[_Filled]:
    """Yield the rungs, or the generations, if a trial has reached one, and why it goes on or not."""
    scheduled = [state_of(trial).scheduling for trial in shown]
    if any(scheduling.rungs for scheduling in scheduled):
        are_generations = any(scheduling.has_generations for scheduling in scheduled)
        heading = "generation" if are_generations else "rung"
        yield Column(heading, number=True), partial(_rung, first=int(are_generations))
        yield Column("why"), _why


def _of_annotations(shown: Sequence[Trial]) -> Iterator[_Filled]:
    """Yield the tags and the notes of users, if there are some."""
    known = {trial.id: trial.annotation for trial in shown}
    if any(annotation.tags for annotation in known.values()):
        yield Column("tags"), lambda trial: ", ".join(known[trial.id].tags)
    if any(annotation.note for annotation in known.values()):
        yield Column("note"), lambda trial: _short_note(known[trial.id].note)


def _short_note(note: str) -> Cell:
    return Cell(short(" ".join(note.split()), _LONGEST_NOTE), note)


def _step(checkpoint: str | None) -> str:
    """Return the short name of a checkpoint: `@10` for `checkpoint_000010`."""
    return f"@{checkpoint.rpartition('_')[2].lstrip('0') or '0'}" if checkpoint else "-"


def _checkpoint(trial: Trial) -> Cell:
    return Cell(_step(trial.checkpoint_name), trial.checkpoint_name or "")


def _rung(trial: Trial, first: int) -> Cell:
    """Return the last rung that a trial has reached."""
    scheduling = state_of(trial).scheduling
    return Cell(str(max(scheduling.rungs) + first) if scheduling.rungs else "")


def _why(trial: Trial) -> Cell:
    """Return what the scheduler decided last, without the rung, which has a column; the title says all."""
    reason = state_of(trial).scheduling.reason
    return Cell(short(reason.rpartition(": ")[2], _LONGEST_NOTE), reason)


def _state_cell(trial: Trial, state: str) -> Cell:
    is_plain = not trial.damage or trial.status == Status.DAMAGED
    return Cell(state if is_plain else f"{state}, damaged", trial.damage or trial.note)


def _unsaved(trial: Trial) -> Cell:
    if trial.status == Status.TERMINATED:
        return Cell("-")
    return Cell(str(trial.unsaved_results), "Results since the last checkpoint; a crash now would lose them.")


def _all_numbers(configs: Iterable[Mapping[str, Any]], key: str) -> bool:
    return all(is_number(config.get(key)) for config in configs)
