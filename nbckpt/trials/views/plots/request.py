"""Request: what to draw, and of which trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol

from nbckpt.errors import UsageError
from nbckpt.render import count
from nbckpt.suggestion import suggestion
from nbckpt.trials.model.metrics import as_float
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.views.metrics import by_metric, inferred, lacking, likely_mode

MOST_CURVES = 20
MOST_METRICS = 6


class Drawable(Protocol):
    """Trials that can be drawn: an experiment, or some trials of several experiments."""

    @property
    def name(self) -> str:
        """A name for headlines."""

    @property
    def spec(self) -> Spec:
        """What says which metric counts."""

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials."""

    def trial(self, name: str | Trial) -> Trial:
        """Return a trial by its short name.

        Raises:
            UsageError: There is no such trial.
        """


@dataclass(frozen=True)
class PlotRequest:
    """What to draw.

    Attributes:
        metrics: The metrics; by default that of the experiment, or the first that trials report.
        trials: Which trials. By default all, and for curves the best 20.
        mode: Whether `min` or `max` is best; by default the experiment's mode, or what the name says.
        smooth: How much curves are smoothed, from 0 to below 1.
        logy: Whether curves have a logarithmic scale.
        x: What curves are drawn over: `step` for the iteration, `time` for the time of training.
        parallel: Draw parallel coordinates: an axis for each parameter, a line for each trial.
        scatter: Draw a point for each trial, over two parameters or metrics.
        importance: Draw how much each parameter matters for the metric.
        pareto: Draw a point for each trial over two objectives, and the Pareto front as a line.
    """

    metrics: Sequence[str] = ()
    trials: Sequence[str | Trial] | None = None
    mode: str = ""
    smooth: float = 0.0
    logy: bool = False
    x: Literal["step", "time"] = "step"
    parallel: bool = False
    scatter: Sequence[str] = ()
    importance: bool = False
    pareto: bool = False


@dataclass(frozen=True)
class Chosen:
    """The trials to draw.

    Attributes:
        trials: The trials that reported the metric: the best first, or in the order in which they were named.
        by: The metric that says which is best.
        mode: Whether its `min` or `max` is best; "" if nothing says so.
        best: The trial to mark, if there are several.
        notes: Sentences about trials that are left out.
    """

    trials: Sequence[Trial]
    by: str
    mode: str
    best: Trial | None
    notes: tuple[str, ...] = ()

    def praise(self, names: Mapping[Trial, str] = MappingProxyType({})) -> str:
        """Return a sentence about the best trial, or "". *names* has other names than the trials' own."""
        if self.best is None:
            return ""
        name = names.get(self.best, self.best.id)
        return f" Best by {self.by} ({self.mode}): {name}, {as_float(self.best.newest(self.by)):.4g}."


def check(request: PlotRequest) -> None:
    """Refuse a request that contradicts itself.

    Raises:
        UsageError: It does; the message says how to ask.
    """
    if not 0 <= request.smooth < 1:
        raise UsageError(f"--smooth {request.smooth:g}: give a number from 0 to below 1, for example 0.6")
    asked = {
        "--parallel": request.parallel,
        "--scatter": bool(request.scatter),
        "--importance": request.importance,
        "--pareto": request.pareto,
    }
    kinds = [name for name, wanted in asked.items() if wanted]
    if len(kinds) > 1:
        raise UsageError(f"{' and '.join(kinds)} are different plots: draw one at a time")
    curves = {"--smooth": request.smooth > 0, "--logy": request.logy, "--x": request.x != "step"}
    odd = [name for name, wanted in curves.items() if wanted] if kinds else []
    if odd:
        raise UsageError(f"{odd[0]} is for curves: leave out {odd[0]} or {kinds[0]}")
    most = 2 if request.pareto else 1 if kinds else MOST_METRICS
    if len(request.metrics) > most:
        raise UsageError(f"one plot shows at most {count(most, 'metric')}")


def metrics_of(experiment: Drawable, request: PlotRequest) -> list[str]:
    """Return the metrics to draw, each once.

    Raises:
        UsageError: No metric is named, and no trial reported a number.
    """
    default = experiment.spec.metric or next(iter(inferred(experiment.trials)), "")
    names = list(dict.fromkeys(name for name in request.metrics if name)) or [default]
    if names == [""]:
        raise _unknown(experiment, "", named=request.trials is not None)
    return names


def choose(experiment: Drawable, request: PlotRequest, metric: str) -> Chosen:
    """Return the trials that reported a metric, the best first.

    Raises:
        UsageError: None of the trials reported the metric, or there is no such trial.
    """
    names = request.trials
    asked = experiment.trials if names is None else [experiment.trial(name) for name in names]
    known: Sequence[Trial] = [trial for trial in dict.fromkeys(asked) if trial.newest(metric) is not None]
    if not known:
        raise _unknown(experiment, metric, named=names is not None)
    by, mode = ranking(experiment, metric, request.mode)
    ranked = by_metric(known, by, mode)
    sound = [trial for trial in ranked if math.isfinite(as_float(trial.newest(by)))]
    best = sound[0] if mode and sound and len(known) > 1 else None
    without = [trial.id for trial in asked if trial not in known] if names is not None else []
    notes = (f"{', '.join(without)} reported no {metric}",) if without else ()
    return Chosen(ranked if names is None else known, by, mode, best, notes)


def ranking(experiment: Drawable, metric: str, mode: str = "") -> tuple[str, str]:
    """Return the metric that says which trial is best, and its mode; "" if nothing says the mode.

    This is the drawn *metric* if a *mode* is given or if it is one of several objectives, else the
    experiment's own metric, else the drawn one if its name says what is good.
    """
    spec = experiment.spec
    if not mode and spec.others and (own := spec.mode_of(metric)):
        return metric, own
    if not mode and spec.metric and spec.mode:
        return spec.metric, spec.mode
    return metric, mode or likely_mode(metric)


def _unknown(experiment: Drawable, metric: str, *, named: bool) -> UsageError:
    known = inferred(experiment.trials, most=None)
    who = "none of these trials" if named else "no trial"
    wanted = repr(metric) if metric else "a number"
    close = suggestion(metric, known).strip()
    lacks = f"{who} of {experiment.name!r} reported {wanted}"
    reason, reported = lacking(experiment.trials, metric, lacks)
    return UsageError(f"{reason}: there are {reported}{close and '. ' + close}")
