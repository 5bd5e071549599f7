"""Data: an experiment and its trials for other programs, which read them as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nbckpt.media.stored import MediaData
from nbckpt.trials.model.metrics import plain
from nbckpt.trials.model.objectives import Objective
from nbckpt.trials.model.trial import Trial, state_of
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.front import front_of
from nbckpt.trials.views.media import newest_media
from nbckpt.trials.views.statuses import states_of


@dataclass(frozen=True)
class TrialData:
    """A trial.

    Attributes:
        id: The short name, such as t3.
        status: pending, running, paused, done, stopped, failed or interrupted; or what it was asked to do:
            pausing, stopping or saving.
        config: The configuration.
        metrics: The last result.
        iteration: The number of results.
        unsaved_results: The number of results since the last checkpoint.
        checkpoint: The name of the last checkpoint; empty if there is none.
        origin: Where the checkpoint that it first started from is from; empty if it started without one.
        elapsed_s: How long it has trained, in seconds.
        attempts: How often it was started.
        started_at: When it was first started, in seconds since 1970 (UTC); null before that.
        ended_at: When it ended.
        error: The error that ended it; empty if there is none.
        note: A further note.
        user_note: The note that a user gave it.
        tags: The tags that a user gave it.
        damage: A sentence about damage in its files; empty if there is none.
        media: The newest media of each name.
        load: The newest sample of the machine's load; empty without `system_metrics`.
        rungs: The metric that the scheduler compared at each rung, by the rung; null if it was not a number.
        donor: The checkpoint of another trial from which it went on last, such as t0@8; maybe empty.
        provenance: What is needed to do its last attempt again; only if one trial is shown.
    """

    id: str
    status: str
    config: Mapping[str, Any]
    metrics: Mapping[str, Any]
    iteration: int
    unsaved_results: int
    checkpoint: str
    origin: str
    elapsed_s: float
    attempts: int
    started_at: float | None
    ended_at: float | None
    error: str
    note: str
    user_note: str
    tags: tuple[str, ...]
    damage: str
    media: tuple[MediaData, ...] = ()
    load: Mapping[str, float] = field(default_factory=dict)
    rungs: Mapping[int, float | None] = field(default_factory=dict)
    donor: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ExperimentData:
    """An experiment.

    Attributes:
        name: The name.
        folder: The folder that holds it.
        metric: The metric that compares trials, or the first of several; empty if none was given.
        mode: Whether its `min` or `max` is best; empty if this was not given.
        trials: The trials.
        notes: Problems outside the trials.
        objectives: The metrics to improve, each with its mode; several if there is a Pareto front.
        pareto: The names of the trials on the Pareto front; empty if there are fewer than two objectives.
    """

    name: str
    folder: str
    metric: str
    mode: str
    trials: tuple[TrialData, ...]
    notes: tuple[str, ...]
    objectives: tuple[Objective, ...] = ()
    pareto: tuple[str, ...] = ()


def experiment_data(experiment: ExperimentView) -> ExperimentData:
    """Return an experiment as data."""
    states, spec = states_of(experiment), experiment.spec
    return ExperimentData(
        experiment.name,
        str(experiment.folder),
        spec.metric,
        spec.mode,
        tuple(trial_data(trial, states[trial.id]) for trial in experiment.trials),
        tuple(experiment.notes),
        spec.objectives,
        tuple(trial.id for trial in front_of(experiment.trials, spec.objectives)),
    )


def trial_data(trial: Trial, status: str) -> TrialData:
    """Return a trial with this status as data."""
    annotation = trial.annotation
    return TrialData(
        trial.id,
        status,
        plain(trial.config),
        plain(trial.metrics),
        trial.iteration,
        trial.unsaved_results,
        trial.checkpoint_name or "",
        trial.origin,
        trial.elapsed_s,
        trial.attempts,
        trial.started_at,
        trial.ended_at,
        trial.error,
        trial.note,
        annotation.note,
        annotation.tags,
        trial.damage,
        tuple(media.for_json() for media in newest_media(trial)),
        next(iter(state_of(trial).loads[-1:]), {}),
        trial.rungs,
        state_of(trial).scheduling.donor,
    )
