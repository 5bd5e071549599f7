"""Pareto plot: a point for each trial over two objectives, and the front that no trial surpasses."""

from __future__ import annotations

import math

from nbckpt.errors import UsageError
from nbckpt.render import count
from nbckpt.trials.model.objectives import Objective, listed
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.front import front_of, wanted_objectives
from nbckpt.trials.views.metrics import likely_mode
from nbckpt.trials.views.plots import style
from nbckpt.trials.views.plots.drawn import Drawn
from nbckpt.trials.views.plots.request import PlotRequest, choose
from nbckpt.trials.views.plots.scales import metric
from nbckpt.trials.views.plots.scatter import scaled

_WIDTH, _HEIGHT = 8.0, 4.4
_FEW, _MANY = 50, 2000
_MOST_NAMES = 12


def pareto(experiment: ExperimentView, request: PlotRequest) -> Drawn:
    """Draw trials over two objectives, by default the first two of the experiment.

    Raises:
        UsageError: There are no two objectives, no trial reported both, or matplotlib is not installed.
    """
    objectives = _two(experiment, request)
    across, up = (objective.metric for objective in objectives)
    known = choose(experiment, request, across).trials
    x, y = metric(known, across), metric(known, up)
    places = {
        trial: (x.places[at], y.places[at])
        for at, trial in enumerate(known)
        if math.isfinite(x.places[at]) and math.isfinite(y.places[at])
    }
    if not places:
        raise UsageError(f"no trial of {experiment.name!r} has a finite {across!r} and {up!r}")
    front = front_of(list(places), objectives)
    figure = style.new_figure(_WIDTH, _HEIGHT)
    axes = figure.subplots()
    size = 44 if len(places) <= _FEW else 16 if len(places) <= _MANY else 5
    across_all, up_all = zip(*places.values(), strict=True)
    axes.scatter(across_all, up_all, s=size, color=style.GREY, alpha=0.6, linewidths=0)
    axes.plot(
        *zip(*(places[trial] for trial in front), strict=True),
        color=style.BEST,
        marker="o",
        linewidth=1.4,
        drawstyle="steps-post",
    )
    for trial in front[:_MOST_NAMES]:
        axes.annotate(
            trial.id,
            places[trial],
            xytext=(6, 5),
            textcoords="offset points",
            color=style.GREY,
            fontsize="small",
        )
    style.dress(axes, *map(str, objectives))
    scaled(axes, "x", x)
    scaled(axes, "y", y)
    return Drawn(
        figure,
        f"{experiment.name}: Pareto front of {listed(objectives)}",
        f"{up} over {across} of {count(len(places), 'trial')} of {experiment.name}. {_names(front)}",
        _notes(experiment, objectives, len(known) - len(places)),
        len(places) + len(front),
        front[0],
    )


def _two(experiment: ExperimentView, request: PlotRequest) -> tuple[Objective, Objective]:
    names, spec = [name for name in request.metrics if name], experiment.spec
    modes = [request.mode or spec.mode_of(name) or likely_mode(name) for name in names]
    first, second, *_ = wanted_objectives(spec, names, modes)
    return first, second


def _names(front: list[Trial]) -> str:
    more = ", …" if len(front) > _MOST_NAMES else ""
    return f"On the Pareto front: {', '.join(trial.id for trial in front[:_MOST_NAMES])}{more}."


def _notes(
    experiment: ExperimentView, objectives: tuple[Objective, Objective], without: int
) -> tuple[str, ...]:
    notes = []
    if len(experiment.spec.objectives) > 2:
        others = [known for known in experiment.spec.objectives if known not in objectives]
        notes.append(f"The front is that of these two objectives alone. Not shown: {listed(others)}.")
    if without:
        notes.append(f"{count(without, 'trial')} without a finite value of both left out.")
    return tuple(notes)
