"""Learning curves: a metric over the iterations, a line for each trial, drawn by matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nbckpt.errors import UsageError
from nbckpt.render import Hint, Page, Picture, Result, short, thinned, visible
from nbckpt.store.files import explained, writing
from nbckpt.trials.model.metrics import ITERATION, flat, is_number, lookup, plain
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.formats import shown_value, tail
from nbckpt.trials.views.metrics import by_metric, inferred, varying

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CURVES = 20
_MOST_KEYS = 3
_MOST_POINTS = 2000
_LONGEST = 48
_INCHES = (8.0, 4.0)
_HEIGHT = 400
_DPI = 120
_LARGEST = 1e100
"""Larger values count as infinite, because no axis has room for them."""
_LINES: tuple[Literal["-", "--"], ...] = ("-", "--")
_COLOURS = 10


@dataclass(frozen=True, repr=False)
class Curves(Result):
    """Learning curves, as a picture.

    Attributes:
        title: The experiment and the metric.
        picture: The picture.
        notes: Which trials are missing in the picture, and why.
        hints: The next commands.
    """

    title: str
    picture: Picture
    notes: tuple[str, ...] = ()
    hints: tuple[Hint, ...] = ()

    def page(self) -> Page:
        """See `Result.page`."""
        return Page(self.title, notes=self.notes, pictures=(self.picture,), hints=self.hints)


def curves(
    experiment: ExperimentView,
    metric: str,
    names: Iterable[str | Trial] | None,
    mode: str = "",
    file: Path | None = None,
) -> Curves:
    """Return the learning curves of a metric as a picture; see `figure`. Any thread may call this.

    Args:
        experiment: The experiment.
        metric: The name of the metric.
        names: Which trials; see `figure`.
        mode: Whether `min` or `max` of this metric is best; by default the experiment's mode.
        file: Also write the picture to this file, in the format of its ending. An older file is replaced.

    Raises:
        UsageError: See `figure`; or the ending names no format of matplotlib.
        StoreError: The disk failed; an older file is unchanged.
    """
    metric = metric or experiment.spec.metric or next(iter(inferred(experiment.trials)), "")
    chosen, notes = _chosen(experiment, metric, names, mode)
    shown = ", ".join(trial.id for trial in chosen)
    alt = f"{metric} of {shown} of {experiment.name}, by iteration"
    drawn = _draw(experiment, metric, chosen)
    if file is not None:
        _write(drawn, file)
        notes.append(f"Written to {file}.")
    hint = Hint("Details", f"%ckpt show {experiment.name}/{chosen[0].id}")
    return Curves(f"{experiment.name}: {metric}", Picture(alt, _png(drawn), _HEIGHT), tuple(notes), (hint,))


def _write(drawn: Figure, file: Path) -> None:
    form, formats = file.suffix[1:].lower(), drawn.canvas.get_supported_filetypes()
    if form not in formats:
        raise UsageError(f"{str(file)!r} has no ending of a picture: use one of {', '.join(sorted(formats))}")
    with explained("write", file), writing(file) as opened:
        drawn.savefig(opened, format=form, dpi=_DPI)


def figure(experiment: ExperimentView, metric: str, names: Iterable[str | Trial] | None) -> Figure:
    """Draw a metric over the iterations, a line for each trial. Return the figure; a notebook shows it.

    The figure does not belong to pyplot, whose figures belong to one thread.

    Args:
        experiment: The experiment.
        metric: The name of the metric; `a/b` means the metric b in a dict a.
        names: Which trials. By default at most 20: the best if a mode is known, else the first.

    Raises:
        UsageError: None of the trials reported the metric, there is no such trial, or matplotlib is not
            installed.
    """
    chosen, notes = _chosen(experiment, metric, names)
    drawn = _draw(experiment, metric, chosen)
    if notes:
        drawn.axes[0].set_title("\n".join(notes), fontsize="small", parse_math=False)
    drawn._repr_png_ = partial(_png, drawn)  # type: ignore[attr-defined]  # what IPython shows
    return drawn


def _chosen(
    experiment: ExperimentView, metric: str, names: Iterable[str | Trial] | None, mode: str = ""
) -> tuple[Sequence[Trial], list[str]]:
    """Return the trials to draw, and a sentence about the trials that are left out."""
    asked = experiment.trials if names is None else [experiment.trial(name) for name in names]
    known: Sequence[Trial] = [trial for trial in dict.fromkeys(asked) if trial.newest(metric) is not None]
    if not metric or not known:
        reported = ", ".join(inferred(experiment.trials, most=None)) or "none yet"
        who = "no trial" if names is None else "none of these trials"
        wanted = repr(metric) if metric else "a number"
        raise UsageError(f"{who} of {experiment.name!r} reported {wanted}: there are {reported}")
    if names is not None:
        without = [trial.id for trial in asked if trial not in known]
        return known, [f"{', '.join(without)} reported no {metric}"] if without else []
    if len(known) <= MOST_CURVES:
        return known, []
    total, spec = len(known), experiment.spec
    by, mode = (metric, mode) if mode else (spec.metric, spec.mode)
    shown = by_metric(known, by, mode)[:MOST_CURVES]
    if by and mode:
        return shown, [f"Showing the {MOST_CURVES} best of {total} trials by {by} ({mode})."]
    best = f"%ckpt plot {experiment.name} --metric {metric} --mode max"
    return shown, [f"Showing the first {MOST_CURVES} of {total} trials. Show the best: {best}"]


def _draw(experiment: ExperimentView, metric: str, trials: Sequence[Trial]) -> Figure:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise UsageError("learning curves need matplotlib: pip install matplotlib") from None
    drawn = Figure(figsize=_INCHES, layout="constrained")
    FigureCanvasAgg(drawn)
    axes = drawn.subplots()
    keys = varying(trials)[:_MOST_KEYS]
    for number, trial in enumerate(trials):
        values = [(result[ITERATION], lookup(result, metric)) for result in list(trial.results)]
        numbers = [(at, value) for at, value in values if is_number(value)]
        known = [(at, value if abs(value) < _LARGEST else math.nan) for at, value in numbers]
        points = thinned(known, _MOST_POINTS)
        line = axes.plot(*zip(*points, strict=True), label=_label(trial, keys))[0]
        line.set_color(f"C{number % _COLOURS}")
        line.set_linestyle(_LINES[number // _COLOURS % len(_LINES)])
        line.set_marker("o" if len(points) == 1 else "")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    # Users' names are not mathematics: a `$` in a name is a plain `$`.
    axes.set_xlabel("iteration", parse_math=False)
    axes.set_ylabel(short(visible(metric), _LONGEST), parse_math=False)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    legend = drawn.legend(loc="outside right upper", fontsize="small", frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return drawn


def _label(trial: Trial, keys: Iterable[str]) -> str:
    config = dict(flat(plain(trial.config)))
    tried = (f"{tail(key)}={shown_value(config[key]).text}" for key in keys if key in config)
    return short(visible(", ".join([trial.id, *tried])), _LONGEST)


def _png(drawn: Figure) -> bytes:
    file = io.BytesIO()
    drawn.savefig(file, format="png", dpi=_DPI)
    return file.getvalue()
