"""Importance: how much each parameter matters for a metric."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nbckpt.errors import UsageError
from nbckpt.render import count, thinned
from nbckpt.trials.model.metrics import as_float
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.metrics import varying
from nbckpt.trials.views.plots import style
from nbckpt.trials.views.plots.drawn import Drawn
from nbckpt.trials.views.plots.request import PlotRequest, choose, metrics_of
from nbckpt.trials.views.plots.scales import Scale, parameter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST_TRIALS = 4
_MOST_TRIALS = 500
"""More make fANOVA slow, and change its answer little."""
_MOST_BARS = 20
_FANOVA = "fANOVA of Optuna: the share of the variance of the metric that each parameter explains."
_RANKS = (
    "Rank correlation without its sign: it does not see parameters that act together. "
    "For fANOVA: pip install optuna scikit-learn"
)


def importance(experiment: ExperimentView, request: PlotRequest) -> Drawn:
    """Draw how much each parameter matters for the metric of a request, and say how this was computed.

    Raises:
        UsageError: Too few trials reported the metric, they do not differ, or matplotlib is not installed.
    """
    (name,) = metrics_of(experiment, request)
    chosen = choose(experiment, request, name)
    trials = [trial for trial in chosen.trials if math.isfinite(as_float(trial.newest(name)))]
    sampled = f"Computed from {_MOST_TRIALS} of {len(trials):,} trials." * (len(trials) > _MOST_TRIALS)
    trials = thinned(trials, _MOST_TRIALS)
    scales = [parameter(trials, key) for key in varying(trials)]
    whole = [scale for scale in scales if len(scale.finite) == len(trials) and len(set(scale.places)) > 1]
    values = [as_float(trial.newest(name)) for trial in trials]
    if len(trials) < _LEAST_TRIALS or not whole or len(set(values)) == 1:
        raise UsageError(
            f"importance needs at least {_LEAST_TRIALS} trials that differ in a parameter and in a finite "
            f"{name!r}: {experiment.name!r} has {len(trials)}. Compare them: %ckpt trials {experiment.name}"
        )
    shares, method = fanova(whole, values), _FANOVA
    if shares is None:
        shares, method = rank_correlation(whole, values), _RANKS
    ranked = dict(sorted(shares.items(), key=lambda item: -item[1]))
    figure = _bars(ranked, name, method.split(":")[0])
    left_out = [scale.name for scale in scales if scale not in whole]
    notes = [method, *filter(None, [sampled]), *chosen.notes]
    notes += [f"Left out, because not all trials have them: {', '.join(left_out)}."] if left_out else []
    shown = ", ".join(f"{key} {share:.2f}" for key, share in list(ranked.items())[:_MOST_BARS])
    alt = (
        f"Importance of parameters of {experiment.name} for {name}, of {count(len(trials), 'trial')}: {shown}"
    )
    title = f"{experiment.name}: importance for {name}"
    return Drawn(figure, title, alt, tuple(notes), len(ranked), chosen.best or trials[0], ranked)


def fanova(scales: Sequence[Scale], values: Sequence[float]) -> dict[str, float] | None:
    """Return the share of the variance of *values* that each parameter explains; None without Optuna."""
    try:
        import optuna
        import sklearn  # noqa: F401  Optuna imports it only when it computes
    except ImportError:
        return None
    storage = optuna.storages.InMemoryStorage()
    with _unlogged(type(storage).__module__):
        study = optuna.create_study(storage=storage)
    distributions = {scale.name: _distribution(scale, optuna.distributions) for scale in scales}
    for at, value in enumerate(values):
        params = {scale.name: scale.places[at] for scale in scales}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=value))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return dict(optuna.importance.get_param_importances(study, evaluator=evaluator))


@contextmanager
def _unlogged(module: str) -> Iterator[None]:
    """Keep what this thread logs in a module out of the log. Other threads may run studies of the user."""
    me, logger = threading.get_ident(), logging.getLogger(module)

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != me

    logger.addFilter(is_of_others)
    try:
        yield
    finally:
        logger.removeFilter(is_of_others)


def _distribution(scale: Scale, distributions: Any) -> Any:
    if scale.categories:
        return distributions.CategoricalDistribution([float(at) for at in range(len(scale.categories))])
    return distributions.FloatDistribution(min(scale.places), max(scale.places), log=scale.logarithmic)


def rank_correlation(scales: Sequence[Scale], values: Sequence[float]) -> dict[str, float]:
    """Return how well each parameter alone orders *values*, from 0 to 1.

    This is Spearman's correlation without its sign. For categories it is the correlation ratio of the ranks.
    """
    import numpy as np

    ranked = _ranks(values)
    spread = ((ranked - ranked.mean()) ** 2).sum()
    shares = {}
    for scale in scales:
        if scale.categories:
            groups = [ranked[np.asarray(scale.places) == at] for at in range(len(scale.categories))]
            between = sum(len(group) * (group.mean() - ranked.mean()) ** 2 for group in groups)
            shares[scale.name] = float((between / spread) ** 0.5)
        else:
            shares[scale.name] = abs(float(np.corrcoef(_ranks(scale.places), ranked)[0, 1]))
    return shares


def _ranks(values: Sequence[float]) -> Any:
    """Return the ranks of values; equal values share the mean of their ranks."""
    import numpy as np

    _, places, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def _bars(shares: Mapping[str, float], metric: str, method: str) -> Figure:
    shown = list(shares.items())[:_MOST_BARS]
    figure = style.new_figure(8.0, 1.1 + 0.32 * len(shown))
    axes = figure.subplots()
    bars = axes.barh([style.label(key, 30) for key, _ in shown], [share for _, share in shown], height=0.62)
    for bar in bars:
        bar.set_color(style.COLOURS[0])
    texts = axes.bar_label(bars, fmt="%.2f", padding=4, color=style.GREY, fontsize="small")
    style.dress(axes, f"importance for {style.label(metric)} ({method})", grid=False)
    axes.spines[["bottom"]].set_visible(False)
    axes.set_xticks([])
    axes.invert_yaxis()
    axes.margins(x=0.08)
    style.plain_texts([*axes.get_yticklabels(), *texts])
    return figure
