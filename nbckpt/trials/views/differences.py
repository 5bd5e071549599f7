"""Differences: parameters, metrics, curves and origins in which trials differ; comparison.py shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbckpt.errors import NbckptError, UsageError
from nbckpt.provenance.document import Provenance
from nbckpt.provenance.lines import differences
from nbckpt.provenance.trial import read_attempts
from nbckpt.render import Picture
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.views.comparison import ComparedMetric, ComparedValues, Side, TrialsCompared
from nbckpt.trials.views.metrics import flat_config, inferred, likely_mode, value_of, varying
from nbckpt.trials.views.plots import style
from nbckpt.trials.views.plots.curves import curves
from nbckpt.trials.views.plots.request import PlotRequest

MOST_TRIALS = 12
_MOST_DRAWN = 3


@dataclass(frozen=True)
class _Selection:
    """Some trials, as the plots know them."""

    name: str
    spec: Spec
    trials: tuple[Trial, ...]

    def trial(self, name: str | Trial) -> Trial:
        """See `Drawable.trial`."""
        return next(trial for trial in self.trials if trial is name or trial.id == name)


def compared(sides: Sequence[Side], metrics: Sequence[str] = (), mode: str = "") -> TrialsCompared:
    """Return trials side by side.

    Args:
        sides: The trials.
        metrics: The metrics to draw; by default the first that the trials reported.
        mode: Whether `min` or `max` of the first metric is best; by default the experiment's mode, or what
            the name says.

    Raises:
        UsageError: These are not between 2 and 12 trials; the mode is unknown; or no trial reported one of
            the metrics.
    """
    if mode not in {"", "min", "max"}:
        raise UsageError(f"mode={mode!r} is unknown: use 'min' or 'max'")
    if not 2 <= len(sides) <= MOST_TRIALS:
        raise UsageError(
            f"compare shows 2 to {MOST_TRIALS} trials, and these are {len(sides)}: %ckpt compare t1 t2"
        )
    trials = [side.trial for side in sides]
    configs = [flat_config(trial) for trial in trials]
    keys = varying(trials)
    parameters = [
        ComparedValues(key, tuple(config[key][0] if key in config else None for config in configs))
        for key in keys
    ]
    same = len({key for config in configs for key in config}) - len(keys)
    names = inferred(trials, sides[0].experiment.spec.metric, most=None)
    known = [name for name in names if any(trial.newest(name) is not None for trial in trials)]
    modes = {next(iter(metrics or known), ""): mode}
    rows = tuple(_metric(sides, name, modes.get(name, "")) for name in known)
    picture, notes = _curves(sides, list(metrics), rows, mode)
    return TrialsCompared(
        tuple(side.name for side in sides),
        tuple(parameters),
        rows,
        tuple(_provenance(trials)),
        same,
        picture,
        notes,
        tuple(sides),
    )


def _metric(sides: Sequence[Side], name: str, mode: str) -> ComparedMetric:
    """Return a metric of the trials. Without a *mode*, the objectives or the metric's name say it."""
    mode = mode or sides[0].experiment.spec.mode_of(name) or likely_mode(name)
    last = tuple(side.trial.newest(name) for side in sides)
    best = tuple(value_of(side.trial, name, mode, "best") if mode else None for side in sides)
    return ComparedMetric(name, mode, last, best)


def _curves(
    sides: Sequence[Side], metrics: list[str], rows: Sequence[ComparedMetric], mode: str
) -> tuple[Picture | None, tuple[str, ...]]:
    """Return the curves over each other. If none was asked for, a sentence says why there are none."""
    trials = tuple(side.trial for side in sides)
    drawn = metrics or [row.name for row in rows][:_MOST_DRAWN]
    if not drawn:
        return None, ()
    experiments = dict.fromkeys(side.experiment.name for side in sides)
    selection = _Selection(", ".join(experiments), sides[0].experiment.spec, trials)
    try:
        names = {side.trial: side.name for side in sides}
        plot = curves(selection, PlotRequest(drawn, trials, mode), names)
    except UsageError as error:
        if metrics:
            raise
        return None, (f"No curves: {error}",)
    return style.picture(plot.figure, plot.alt, plot.marks), plot.notes


def _provenance(trials: Sequence[Trial]) -> Iterator[ComparedValues]:
    """Yield the parts of what is needed to do trials again in which one of them differs from the first."""
    first, *others = (_newest_attempt(trial) for trial in trials)
    pairs = [differences(first, other) for other in others]
    for name, old in {name: old for pair in pairs for name, old, _ in pair}.items():
        new = ({part: value for part, _, value in pair}.get(name, old) for pair in pairs)
        yield ComparedValues(name, (old, *new))


def _newest_attempt(trial: Trial) -> Provenance | None:
    try:
        return read_attempts(trial.folder)[-1]
    except NbckptError:  # `show` says why
        return None
