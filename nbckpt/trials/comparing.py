"""compare(): trials of one or several experiments side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from nbckpt.errors import UsageError
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.home import experiments_folder, inside_store
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.views.comparison import Side, TrialsCompared
from nbckpt.trials.views.differences import compared
from nbckpt.trials.views.front import no_single_best
from nbckpt.trials.views.metrics import inferred
from nbckpt.trials.views.plots.request import ranking

BEST = "best"


def compare(
    *trials: str | Trial | Experiment,
    metrics: str | Sequence[str] = (),
    mode: str = "",
    folder: str | os.PathLike[str] | None = None,
) -> TrialsCompared:
    """Return trials side by side: what differs in parameters, metrics, curves, media and origin.

    The result shows itself in a notebook. `parameters_frame()`, `metrics_frame()`, `curves_frame()` and
    `provenance_frame()` return frames of pandas.

    Args:
        trials: 2 to 12 trials: a `Trial`, `t3` or `best` of the newest experiment, `EXP/t3`, `EXP/best`. An
            experiment stands for its best trial.
        metrics: The metrics to draw; the first says which trial is best. By default those of the experiment.
        mode: Whether `min` or `max` of the first metric is best; by default the experiment's mode, or what
            the name says.
        folder: Where experiments are kept; by default `experiments` in the store's folder.

    Raises:
        NotFoundError: There is no such experiment.
        UsageError: There is no such trial or metric, or nothing says which trial is best.

    Examples:
        >>> for lr in (0.1, 0.3):
        ...     with nbckpt.track("baseline", lr=lr) as run:
        ...         run.report(loss=lr / 2)
        >>> compared = nbckpt.trials.compare("baseline/t0", "baseline/t1", mode="min")
        >>> compared.parameters_frame().loc["lr"].to_list()
        [0.1, 0.3]
    """
    place = inside_store(experiments_folder()) if folder is None else Path(folder).absolute()
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    return compare_in(Catalog(place), trials, names, mode)


def compare_in(
    library: Catalog, trials: Sequence[str | Trial | Experiment], metrics: Sequence[str] = (), mode: str = ""
) -> TrialsCompared:
    """Return trials of a catalog side by side; see `compare`."""
    metric = next(iter(metrics), "")
    pairs = dict.fromkeys(_trial(library, word, metric, mode) for word in trials)
    if len(pairs) == 1 < len(trials):
        ((experiment, trial),) = pairs
        raise UsageError(
            f"all of these are the same trial, {experiment.name}/{trial.id}: name another one too"
        )
    several = len({experiment for experiment, _ in pairs}) > 1
    sides = [
        Side(experiment, trial, f"{experiment.name}/{trial.id}" if several else trial.id)
        for experiment, trial in pairs
    ]
    return compared(sides, metrics, mode)


def _trial(
    library: Catalog, word: str | Trial | Experiment, metric: str, mode: str
) -> tuple[Experiment, Trial]:
    if isinstance(word, Trial):
        return Experiment.read(word.folder.parent), word
    if isinstance(word, Experiment):
        return word, best_of(word, metric, mode)
    name, _, trial = word.rpartition("/")
    if trial == BEST:
        experiment = library.open(name)
    elif word in library.names():
        experiment = library.open(word)
    else:
        return library.trial(word)
    return experiment, best_of(experiment, metric, mode)


def best_of(experiment: Experiment, metric: str = "", mode: str = "") -> Trial:
    """Return the best trial by a metric, which by default is that of the experiment or the first reported.

    Raises:
        UsageError: No trial reported the metric, or nothing says whether its smallest value is best, or one
            of several objectives is to be named.
    """
    if experiment.spec.others and not metric:
        raise no_single_best(experiment.name, experiment.spec.objectives)
    metric = metric or experiment.spec.metric or next(iter(inferred(experiment.trials)), "")
    by, direction = (metric, mode) if mode else ranking(experiment, metric)
    if metric and not direction:
        options = f"--metric {quote(metric)} --mode min"
        raise UsageError(f"which trial of {experiment.name!r} is the best? Say {options}, or --mode max")
    return experiment.best(by, direction)
