"""Parallel coordinates: an axis for each parameter and for the metric, a line for each trial."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nbckpt.errors import UsageError
from nbckpt.render import count
from nbckpt.trials.model.metrics import as_float
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.metrics import varying
from nbckpt.trials.views.plots import style
from nbckpt.trials.views.plots.drawn import Drawn
from nbckpt.trials.views.plots.request import PlotRequest, choose, metrics_of
from nbckpt.trials.views.plots.scales import Scale, metric, parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_AXES = 9
_WIDTH, _HEIGHT = 8.0, 4.0
_FAINTEST, _LINES_OF_FULL_STRENGTH = 0.06, 40
_HALF = 0.19
"""Half the width of an axis, whose distance to the next is 1."""
_LONGEST_TICK, _LONGEST_NAME = 9, 18


def parallel(experiment: ExperimentView, request: PlotRequest) -> Drawn:
    """Draw the parallel coordinates of a request.

    Raises:
        UsageError: No trial reported the metric, the trials do not differ, or matplotlib is not installed.
    """
    (name,) = metrics_of(experiment, request)
    chosen = choose(experiment, request, name)
    trials = [trial for trial in chosen.trials if math.isfinite(as_float(trial.newest(name)))]
    keys = varying(trials)
    if not keys:
        raise UsageError(
            f"parallel coordinates need trials that differ in a parameter and have a finite {name!r}: "
            f"{experiment.name!r} has {count(len(trials), 'trial')} with one. "
            f"Draw curves: %ckpt plot {experiment.name}"
        )
    figure = style.new_figure(_WIDTH, _HEIGHT)
    axes = figure.subplots()
    scales = [*(parameter(trials, key) for key in keys[:_MOST_AXES]), metric(trials, name)]
    best = trials.index(chosen.best) if chosen.best in trials else None
    largest_is_best = chosen.mode == "max" and chosen.by == name
    _lines(axes, scales, best, chosen.best.id if chosen.best else "", largest_is_best=largest_is_best)
    for at, scale in enumerate(scales):
        _axis(axes, at, scale)
    axes.set_xlim(-0.3, len(scales) - 0.55)
    axes.set_ylim(-0.05, 1.15)
    axes.set_axis_off()
    notes = [*chosen.notes]
    if more := len(keys) - _MOST_AXES:
        notes += [f"{count(more, 'more parameter is', 'more parameters are')} not shown."] * (more > 0)
    if without := len(chosen.trials) - len(trials):
        notes.append(
            f"{count(without, 'trial')} without a finite {name} {'is' if without == 1 else 'are'} left out."
        )
    shown = ", ".join(scale.name for scale in scales)
    alt = f"Parallel coordinates of {count(len(trials), 'trial')} of {experiment.name}: {shown}."
    alt += chosen.praise()
    return Drawn(
        figure,
        f"{experiment.name}: {shown}",
        alt,
        tuple(notes),
        len(trials) * len(scales),
        chosen.best or trials[0],
    )


def _lines(
    axes: Axes, scales: Sequence[Scale], best: int | None, name: str, *, largest_is_best: bool
) -> None:
    """Draw a line for each trial, coloured by the last scale; the best values are in front."""
    from matplotlib.collections import LineCollection

    rows = list(zip(*(scale.fractions() for scale in scales), strict=True))
    badness = [1 - row[-1] if largest_is_best else row[-1] for row in rows]
    order = sorted(range(len(rows)), key=lambda at: -badness[at])
    alpha = min(0.9, max(_FAINTEST, _LINES_OF_FULL_STRENGTH / len(rows)))
    segments = [segment for at in order for segment in _segments(rows[at])]
    colours = style.scale()([badness[at] for at in order for _ in range(len(scales) - 1)])
    axes.add_collection(LineCollection(segments, colors=colours, alpha=alpha, linewidths=1.3, zorder=2))
    if best is not None:
        axes.add_collection(LineCollection(_segments(rows[best]), colors=style.BEST, linewidths=3, zorder=5))
        edge = len(scales) - 1 + _HALF
        axes.scatter(edge, rows[best][-1], s=200, marker="*", color=style.BEST, zorder=6)
        axes.annotate(
            name,
            (edge, rows[best][-1]),
            (10, -3),
            textcoords="offset points",
            color=style.GREY,
            weight="bold",
        )


def _segments(row: Sequence[float]) -> list[list[tuple[float, float]]]:
    """Return the parts of a line between the axes, which are wide: texts inside them stay readable."""
    return [
        [(at + _HALF, low), (at + 1 - _HALF, high)] for at, (low, high) in enumerate(itertools.pairwise(row))
    ]


def _axis(axes: Axes, at: int, scale: Scale) -> None:
    """Draw an upright axis, with its texts inside and its name above."""
    from matplotlib.patches import Rectangle

    edge = 0.035
    band = Rectangle((at - _HALF, -edge), 2 * _HALF, 1 + 2 * edge, color=style.GREY, alpha=0.14, linewidth=0)
    axes.add_patch(band)
    for place, text in scale.ticks().items():
        shown = style.label(text, _LONGEST_TICK)
        axes.text(at, place, shown, color=style.GREY, size=8, ha="center", va="center", parse_math=False)
    name = style.label(scale.name.rpartition("/")[2], _LONGEST_NAME)
    axes.text(at, 1.08, name, color=style.GREY, size=9, weight="bold", ha="center", parse_math=False)
