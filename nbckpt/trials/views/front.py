"""Front: the best trial by one metric, and those that no other trial surpasses in several objectives.

See docs/decisions/0112.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from shlex import quote

from nbckpt.errors import UsageError
from nbckpt.trials.model.metrics import as_float
from nbckpt.trials.model.objectives import Objective, listed, objectives_of
from nbckpt.trials.model.pareto import Point, undominated
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.metrics import Scope, by_metric, lacking, value_of

ON_FRONT = "No other trial is better in one objective and at least as good in all others."


def front_of(trials: Sequence[Trial], objectives: Sequence[Objective]) -> list[Trial]:
    """Return the trials on the Pareto front, in the order of the first objective; [] below two objectives.

    The last value of each metric counts. A trial that lacks one, or has NaN, is not on the front.
    """
    if len(objectives) < 2:
        return []
    points = {trial: point for trial in trials if (point := _point(trial, objectives)) is not None}
    front = undominated(points.values())
    chosen = [trial for trial, point in points.items() if point in front]
    return list(by_metric(chosen, objectives[0].metric, objectives[0].mode))


def front_first(trials: Sequence[Trial], objectives: Sequence[Objective]) -> list[Trial]:
    """Return the trials of the front, and then the others in the order of the first objective."""
    front = dict.fromkeys(front_of(trials, objectives))
    others = by_metric(trials, objectives[0].metric, objectives[0].mode)
    return [*front, *(trial for trial in others if trial not in front)]


def wanted_objectives(
    spec: Spec, metric: Sequence[str] = (), mode: Sequence[str] = ()
) -> tuple[Objective, ...]:
    """Return the objectives that a user asks for; by default those of the experiment.

    Raises:
        UsageError: There are fewer than two, or a mode is missing.
    """
    if not metric:
        asked = spec
    else:
        names = [metric] if isinstance(metric, str) else metric
        asked = Spec(None, **objectives_of(names, mode or [spec.mode_of(name) for name in names]))
    if len(asked.objectives) < 2:
        raise UsageError(
            "a Pareto front needs two objectives or more: run with metric=['loss', 'latency'] and "
            "mode=['min', 'min'], or name them here"
        )
    return asked.objectives


def best_trial(experiment: ExperimentView, metric: str, mode: str, scope: Scope) -> Trial:
    """Return the trial with the best value of a metric; see `Experiment.best`.

    Raises:
        UsageError: No trial reported the metric, or it is not clear which metric or mode is meant.
    """
    spec, trials = experiment.spec, experiment.trials
    if spec.others and not metric:
        raise no_single_best(experiment.name, spec.objectives)
    metric = metric or spec.metric
    mode = mode or spec.mode_of(metric) or spec.mode
    if not metric or mode not in {"min", "max"}:
        raise UsageError("which metric? best(metric='loss', mode='min'), or mode='max'")
    best = next(iter(by_metric(trials, metric, mode, scope)), None)
    value = None if best is None else value_of(best, metric, mode, scope)
    if best is None or math.isnan(as_float(value)):
        reason, known = lacking(trials, metric, f"no trial of {experiment.name!r} reported {metric!r}")
        raise UsageError(f"{reason}: there are {known}")
    return best


def no_single_best(name: str, objectives: Sequence[Objective]) -> UsageError:
    """Return the error of a request for one best trial, if there are several objectives."""
    return UsageError(
        f"{name!r} has several objectives, {listed(objectives)}, so no trial is the best in all. Show the "
        f"Pareto front: %ckpt trials {name} --pareto. The best in one: %ckpt best {name} "
        f"--metric {quote(objectives[0].metric)}"
    )


def _point(trial: Trial, objectives: Sequence[Objective]) -> Point | None:
    """Return the values of a trial so that smaller is better; None if one is missing or NaN."""
    values = []
    for objective in objectives:
        value = as_float(trial.newest(objective.metric))
        if math.isnan(value):
            return None
        values.append(value if objective.mode == "min" else -value)
    return tuple(values)
