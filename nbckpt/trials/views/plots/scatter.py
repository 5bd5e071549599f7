"""Scatter plot: a point for each trial, over two parameters or metrics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from nbckpt.errors import UsageError
from nbckpt.render import count
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.plots import style
from nbckpt.trials.views.plots.drawn import Drawn
from nbckpt.trials.views.plots.request import PlotRequest, choose, metrics_of
from nbckpt.trials.views.plots.scales import Scale, metric, named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT = 8.0, 4.4
_FEW, _MANY = 50, 2000


def scatter(experiment: ExperimentView, request: PlotRequest) -> Drawn:
    """Draw the scatter plot of a request, coloured by the metric.

    Raises:
        UsageError: There is no such parameter or metric, no trial has both, or matplotlib is not installed.
    """
    across, up = request.scatter
    (name,) = metrics_of(experiment, request)
    chosen = choose(experiment, request, name)
    trials = chosen.trials
    x, y, colour = named(trials, across), named(trials, up), metric(trials, name)
    shown = [at for at in range(len(trials)) if math.isfinite(x.places[at]) and math.isfinite(y.places[at])]
    if not shown:
        raise UsageError(f"no trial of {experiment.name!r} has a finite {across!r} and {up!r}")
    figure = style.new_figure(_WIDTH, _HEIGHT)
    axes = figure.subplots()
    size = 44 if len(shown) <= _FEW else 16 if len(shown) <= _MANY else 5
    places = [x.places[at] for at in shown], [y.places[at] for at in shown]
    is_coloured = name not in {across, up}
    if is_coloured:
        _coloured(
            axes, places, colour, shown, size, largest_is_best=chosen.mode == "max" and chosen.by == name
        )
    else:
        axes.scatter(*places, s=size, color=style.COLOURS[0], alpha=0.8, linewidths=0)
    best = trials.index(chosen.best) if chosen.best is not None else None
    if chosen.best is not None and best in shown:
        _mark(axes, x.places[best], y.places[best], chosen.best.id)
    style.dress(axes, across, up)
    scaled(axes, "x", x)
    scaled(axes, "y", y)
    by = f", coloured by {name}" if is_coloured else ""
    without = len(trials) - len(shown)
    notes = [f"{count(without, 'trial')} without {across} and {up} left out."] if without else []
    alt = f"{up} over {across} of {count(len(shown), 'trial')} of {experiment.name}{by}.{chosen.praise()}"
    title = f"{experiment.name}: {up} over {across}"
    return Drawn(figure, title, alt, (*chosen.notes, *notes), len(shown), chosen.best or trials[shown[0]])


def _coloured(
    axes: Axes,
    places: tuple[list[float], list[float]],
    colour: Scale,
    shown: list[int],
    size: float,
    *,
    largest_is_best: bool,
) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm, Normalize

    finite = colour.finite
    norm = (LogNorm if colour.logarithmic else Normalize)(min(finite, default=0), max(finite, default=1))
    scale = style.scale().reversed() if largest_is_best else style.scale()
    mappable = ScalarMappable(norm, scale)
    colours = scale(norm([colour.places[at] for at in shown]))
    axes.scatter(*places, s=size, c=colours, alpha=0.85, linewidths=0)
    bar = axes.figure.colorbar(mappable, ax=axes, pad=0.02, aspect=30)
    bar.set_label(style.label(colour.name), color=style.GREY, parse_math=False)
    bar.ax.tick_params(which="both", colors=style.GREY, labelsize="small")
    bar.outline.set_visible(False)
    if colour.logarithmic:
        style.logarithmic(bar.ax.yaxis)


def _mark(axes: Axes, x: float, y: float, name: str) -> None:
    axes.scatter(x, y, s=190, marker="*", color=style.BEST, zorder=5)
    axes.annotate(
        name, (x, y), xytext=(9, 7), textcoords="offset points", color=style.GREY, weight="bold", zorder=6
    )


def scaled(axes: Axes, side: Literal["x", "y"], scale: Scale) -> None:
    """Give an axis the texts of categories, or a logarithmic scale."""
    axis = axes.xaxis if side == "x" else axes.yaxis
    if scale.logarithmic:
        axes.set(**{f"{side}scale": "log"})
        style.logarithmic(axis)
    elif scale.categories:
        low, high = scale.limits
        ticks = scale.ticks()
        axis.set_ticks([low + place * (high - low) for place in ticks], list(ticks.values()))
        style.plain_texts(axis.get_ticklabels())
