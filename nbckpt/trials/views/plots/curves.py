"""Learning curves: metrics over the iterations or over time, a line for each trial."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from nbckpt.errors import UsageError
from nbckpt.render import thinned
from nbckpt.trials.model.metrics import ITERATION, is_number, lookup
from nbckpt.trials.model.reading import iterations_of_rungs, results_in
from nbckpt.trials.model.trial import Trial, state_of
from nbckpt.trials.views.formats import shown_value, tail
from nbckpt.trials.views.metrics import flat_config, varying
from nbckpt.trials.views.plots import style
from nbckpt.trials.views.plots.drawn import Drawn
from nbckpt.trials.views.plots.request import MOST_CURVES, Chosen, Drawable, PlotRequest, choose, metrics_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_MOST_KEYS = 3
_MOST_POINTS = 2000
_LONGEST_LABEL = 40
_WIDTH, _HEIGHT, _HEIGHT_OF_MORE = 8.0, 4.0, 2.8
_LARGEST = 1e100
"""Larger values count as infinite, because no axis has room for them."""
_LINES: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")
_UNITS = {"h": 3600.0, "min": 60.0, "s": 1.0}

_RUNGS = "Dots are rungs, where the scheduler compared the trials."
_GENERATIONS = "Dots are the ends of generations, where the scheduler compared the trials."

Points = Sequence[tuple[float, float]]


def curves(
    experiment: Drawable, request: PlotRequest, names: Mapping[Trial, str] = MappingProxyType({})
) -> Drawn:
    """Draw the learning curves of a request. *names* has other names than the trials' own.

    Raises:
        UsageError: None of the trials reported a metric, there is no such trial, or matplotlib is not
            installed.
    """
    metrics = metrics_of(experiment, request)
    chosen = [choose(experiment, request, metric) for metric in metrics]
    first, best = chosen[0], chosen[0].best
    known, note = _most(experiment, metrics[0], first, request)
    named = [trial for choice in chosen for trial in choice.trials] if request.trials is not None else []
    trials = list(dict.fromkeys([*known, *named]))
    unit = _unit(trials) if request.x == "time" else ""
    labels = _labels(trials, names)
    height = _HEIGHT if len(metrics) == 1 else _HEIGHT_OF_MORE * len(metrics)
    figure = style.new_figure(_WIDTH, height)
    handles: dict[Trial, Line2D] = {}
    rungs = {trial: places for trial in trials if (places := _rungs(trial, unit))}
    marks = sum(map(len, rungs.values())) * len(metrics)
    for metric, axes in zip(metrics, figure.subplots(len(metrics), 1, squeeze=False)[:, 0], strict=True):
        lines = _lines(trials, metric, unit, logy=request.logy)
        handles |= _draw(axes, lines, labels, best, request.smooth)
        _mark_rungs(axes, handles, rungs)
        _scale(axes, metric, unit, logy=request.logy)
        marks += sum(min(len(points), _MOST_POINTS) for points in lines.values())
    _legend(figure, handles, best)
    shown = ", ".join(names.get(trial, trial.id) for trial in trials)
    over = "time in training" if unit else "iteration"
    alt = f"{' and '.join(metrics)} of {shown} of {experiment.name}, by {over}"
    alt += f", smoothed by {request.smooth:g}" if request.smooth else ""
    notes = [note, _meaning_of_dots(rungs), *(sentence for choice in chosen for sentence in choice.notes)]
    return Drawn(
        figure,
        f"{experiment.name}: {', '.join(metrics)}",
        f"{alt}.{first.praise(names)}" if best else alt,
        tuple(dict.fromkeys(filter(None, notes))),
        marks * (2 if request.smooth else 1),
        best or trials[0],
    )


def _most(
    experiment: Drawable, metric: str, chosen: Chosen, request: PlotRequest
) -> tuple[Sequence[Trial], str]:
    """Return the trials that one picture has room for, and a sentence about the others."""
    known, total = chosen.trials, len(chosen.trials)
    if total <= MOST_CURVES or request.trials is not None:
        return known, ""
    if chosen.mode:
        note = f"Showing the {MOST_CURVES} best of {total:,} trials by {chosen.by} ({chosen.mode})."
    else:
        best = f"%ckpt plot {experiment.name} --metric {quote(metric)} --mode max"
        note = f"Showing the first {MOST_CURVES} of {total:,} trials. Show the best: {best}"
    return known[:MOST_CURVES], note


def _lines(trials: Iterable[Trial], metric: str, unit: str, *, logy: bool) -> dict[Trial, Points]:
    """Return the points of each trial.

    Raises:
        UsageError: No value has a place on the scale.
    """
    lines = {trial: _points(trial, metric, unit, logy=logy) for trial in trials}
    if not any(math.isfinite(value) for points in lines.values() for _, value in points):
        above = " above 0: leave out --logy" if logy else " that can be drawn"
        raise UsageError(f"{metric!r} has no value{above}")
    return lines


def _scale(axes: Axes, metric: str, unit: str, *, logy: bool) -> None:
    """Give axes their scales and labels."""
    if logy:
        axes.set_yscale("log")
        style.logarithmic(axes.yaxis)
    axes.locator_params(axis="x", integer=not unit)
    style.dress(axes, f"time in training ({unit})" if unit else "iteration", metric)


def _points(trial: Trial, metric: str, unit: str, *, logy: bool) -> Points:
    """Return the numbers of a trial with their places. What has no place on the scale is not a number."""
    place, seconds = ("time_total_s", _UNITS[unit]) if unit else (ITERATION, 1.0)
    results = (event["result"] for event in results_in(trial.folder))  # all, so smoothing is exact
    values = ((lookup(result, place), lookup(result, metric)) for result in results)
    return [
        (at / seconds, float(value) if _fits(value, logy=logy) else math.nan)
        for at, value in values
        if is_number(value) and is_number(at) and abs(at) < _LARGEST
    ]


def _fits(value: float, *, logy: bool) -> bool:
    return abs(value) < _LARGEST and (value > 0 or not logy)


def _unit(trials: Iterable[Trial]) -> str:
    longest = max((trial.elapsed_s for trial in trials), default=0.0)
    return next((name for name, seconds in _UNITS.items() if longest >= 2 * seconds), "s")


def _draw(
    axes: Axes, lines: Mapping[Trial, Points], labels: Mapping[Trial, str], best: Trial | None, smooth: float
) -> dict[Trial, Line2D]:
    """Draw a line for each trial that has points, and a star at the end of the best. Return the lines."""
    handles = {}
    width = 1.4 if len(lines) <= len(style.COLOURS) else 1.0
    for number, (trial, points) in enumerate(lines.items()):
        if not points:
            continue
        colour = style.COLOURS[number % len(style.COLOURS)]
        shown = smoothed(points, smooth)
        if smooth:
            axes.plot(*_columns(points), color=colour, linewidth=0.8, alpha=0.3, zorder=1)
        line = axes.plot(*_columns(shown), color=colour, label=labels[trial], zorder=2 + (trial is best))[0]
        line.set_linestyle(_LINES[number // len(style.COLOURS) % len(_LINES)])
        line.set_linewidth(2.6 if trial is best else width)
        finite = [point for point in shown if math.isfinite(point[1])]
        line.set_marker("o" if len(finite) == 1 else "")
        if trial is best and finite:
            axes.scatter(*finite[-1], s=150, marker="*", color=colour, zorder=4, clip_on=False)
        handles[trial] = line
    return handles


def _rungs(trial: Trial, unit: str) -> list[float]:
    """Return where a scheduler compared a trial at its rungs."""
    if not trial.rungs:
        return []
    at = set(iterations_of_rungs(trial.folder))
    place, seconds = ("time_total_s", _UNITS[unit]) if unit else (ITERATION, 1.0)
    results = (event["result"] for event in results_in(trial.folder))
    return [lookup(result, place) / seconds for result in results if result[ITERATION] in at]


def _meaning_of_dots(trials: Iterable[Trial]) -> str:
    """Return what the dots of the trials mean that a scheduler compared; "" for no trial."""
    compared = [state_of(trial).scheduling for trial in trials]
    if any(scheduling.has_generations for scheduling in compared):
        return _GENERATIONS
    return _RUNGS if compared else ""


def _mark_rungs(axes: Axes, handles: Mapping[Trial, Line2D], rungs: Mapping[Trial, Sequence[float]]) -> None:
    """Draw a dot on the line of each trial at each of its rungs."""
    for trial, line in handles.items():
        points: list[tuple[float, float]] = [*zip(*map(list, line.get_data()), strict=True)]  # type: ignore[arg-type]
        dots = [min(points, key=lambda point: abs(point[0] - at)) for at in rungs.get(trial, ())]
        if dots:
            across, up = zip(*dots, strict=True)
            axes.scatter(across, up, s=22, color=line.get_color(), zorder=3)


def _columns(points: Points) -> tuple[list[float], list[float]]:
    shown = thinned(points, _MOST_POINTS)
    return [at for at, _ in shown], [value for _, value in shown]


def smoothed(points: Points, weight: float) -> Points:
    """Return a moving average in which each earlier value counts *weight* times as much as the next one.

    >>> smoothed([(1, 4.0), (2, 1.0)], 0.5)
    [(1, 4.0), (2, 2.0)]
    """
    if not weight:
        return points
    total = counted = 0.0
    averages = []
    for at, value in points:
        if math.isfinite(value):
            total, counted = total * weight + value, counted * weight + 1
        averages.append((at, total / counted if math.isfinite(value) else math.nan))
    return averages


def _legend(figure: Figure, handles: Mapping[Trial, Line2D], best: Trial | None) -> None:
    labels = [f"{'★ ' * (trial is best)}{line.get_label()}" for trial, line in handles.items()]
    legend = figure.legend(
        handles.values(), labels, loc="outside right upper", fontsize="small", frameon=False
    )
    style.plain_texts(legend.get_texts())


def _labels(trials: Sequence[Trial], names: Mapping[Trial, str]) -> dict[Trial, str]:
    """Return the trials' names with what distinguishes them; of a nested key the last part if clear."""
    keys = varying(trials)[:_MOST_KEYS]
    tails = [key.rpartition("/")[2] for key in keys]
    parts = {key: tail(end if tails.count(end) == 1 else key) for key, end in zip(keys, tails, strict=True)}
    return {trial: _label(names.get(trial, trial.id), trial, parts) for trial in trials}


def _label(name: str, trial: Trial, parts: Mapping[str, str]) -> str:
    config = flat_config(trial)
    tried = (f"{part}={shown_value(config[key][0]).text}" for key, part in parts.items() if key in config)
    return style.label(", ".join([name, *tried]), _LONGEST_LABEL)
