"""Fields: the values of a trial by the names that a filter and a frame use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nbckpt.trials.model.annotation import Annotation
from nbckpt.trials.model.metrics import flat
from nbckpt.trials.model.trial import Trial, state_of
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.model.where import Several, Where
from nbckpt.trials.views.statuses import states_of


def own_fields(trial: Trial, status: str, annotation: Annotation) -> dict[str, Any]:
    """Return what nbckpt itself knows about a trial."""
    return {
        "experiment": trial.folder.parent.name,
        "trial": trial.id,
        "status": status,
        "iteration": trial.iteration,
        "elapsed_s": trial.elapsed_s,
        "started_at": trial.started_at,
        "ended_at": trial.ended_at,
        "error": trial.error,
        "note": annotation.note,
        "tags": annotation.tags,
    }


def fields(trial: Trial, own: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the values of a trial: its configuration, its last metrics, and its *own* fields.

    A metric hides a value of the configuration that has its name, and a field of the trial hides both. If one
    of the *names* that are needed begins with `metrics/` or `config/`, all are there under these too.
    """
    state = state_of(trial)
    config, metrics = dict(flat(state.config)), dict(flat(state.last_result))
    values = config | metrics
    if any(name.startswith(("config/", "metrics/")) for name in names):
        values |= {f"config/{name}": value for name, value in config.items()}
        values |= {f"metrics/{name}": value for name, value in metrics.items()}
    return {**values, **own, "tag": Several(own["tags"])}


def matching(experiment: ExperimentView, where: str) -> Sequence[Trial]:
    """Return the trials of an experiment that pass a filter.

    Raises:
        UsageError: The filter cannot be read, or no trial has one of its names.
    """
    test, states = Where(where), states_of(experiment)
    rows = [
        (trial, fields(trial, own_fields(trial, states[trial.id], trial.annotation), test.names))
        for trial in experiment.trials
    ]
    if rows:
        test.check(name for _, values in rows for name in values)
    return [trial for trial, values in rows if test.matches(values)]
