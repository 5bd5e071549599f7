"""Metrics and configurations: which of them views show, sorting by a metric, and the cell of a metric."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from nbckpt.errors import UsageError
from nbckpt.render import Cell
from nbckpt.trials.model.condensed import MOST_NAMES
from nbckpt.trials.model.metrics import as_float, flat, is_automatic, lookup, plain
from nbckpt.trials.model.stopping import Stopper
from nbckpt.trials.model.trial import Trial, remember, state_of
from nbckpt.trials.views.formats import shown_value

Scope = Literal["last", "best"]
"""Which value of a metric counts for a trial: the last, or the best of all."""

_SMALL_IS_GOOD = {
    "loss",
    "losses",
    "error",
    "err",
    "mse",
    "rmse",
    "mae",
    "mape",
    "nll",
    "perplexity",
    "ppl",
    "cost",
}
_SMALL_IS_GOOD |= {"regret", "wer", "cer", "fid", "divergence"}
_LARGE_IS_GOOD = {"acc", "accuracy", "auc", "auroc", "f1", "score", "reward", "return", "r2", "precision"}
_LARGE_IS_GOOD |= {"recall", "iou", "dice", "bleu", "rouge", "likelihood"}
_WORD = re.compile(r"[^\W_]+")
_KINDS = {
    "image": "an image",
    "figure": "a figure",
    "table": "a table",
    "text": "a text",
    "html": "a page",
    "svg": "a drawing",
    "file": "a file",
}
_MOST_METRICS = 3


def metric_columns(given: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Return the metrics to show with their headings; `a/b` means the metric b in the dict a.

    Args:
        given: Names, which become the headings too, or a dict of names and headings.

    Raises:
        UsageError: A name is given twice, or is not a text.
    """
    if isinstance(given, Mapping):
        return dict(given)
    columns: dict[str, str] = {}
    for name in given:
        if not isinstance(name, str):
            raise UsageError(f"{name!r} is not the name of a metric: give a dict of names and headings")
        if name in columns:
            raise UsageError(f"the metric {name!r} is given twice: once is enough")
        columns[name] = name
    return columns


def inferred(trials: Sequence[Trial], first: str = "", most: int | None = _MOST_METRICS) -> list[str]:
    """Return the names of at most *most* numbers that trials report; *first* comes first."""
    names = dict.fromkeys([first] if first else [])
    for trial in trials:
        names |= dict.fromkeys(trial.metric_names)
    return list(names)[:most]


def as_media(trials: Sequence[Trial], name: str) -> str:
    """Return the sentence that a name is that of media and not of a number; "" if no trial has such media."""
    for trial in trials:
        if media := state_of(trial).media.get(name):
            return f"{name!r} is {_KINDS[media.newest.type]}, not a number"
    return ""


def is_comparable(trials: Sequence[Trial], metric: str) -> bool:
    """Return whether some trial has a number under this name that is not NaN."""
    return any(not math.isnan(as_float(trial.newest(metric))) for trial in trials)


def lacking(trials: Sequence[Trial], metric: str, otherwise: str) -> tuple[str, str]:
    """Return why trials have no number of a metric, *otherwise* if they lack it, and their other metrics."""
    is_there = any(lookup(state_of(trial).last_result, metric) is not None for trial in trials)
    is_text = is_there and not is_comparable(trials, metric)
    known = ", ".join(name for name in inferred(trials, most=None) if not (is_text and name == metric))
    reason = f"{metric!r} is not a number in any trial" if is_text else otherwise
    return as_media(trials, metric) or reason, known or ("no others" if is_text else "none yet")


def unknown_metrics(
    trials: Sequence[Trial], stopper: Stopper, scheduler: object | None = None
) -> Iterator[str]:
    """Yield a sentence for each metric that a stop condition or a *scheduler* needs but no trial reports.

    Trials without results do not count.
    """
    ran = [trial for trial in trials if trial.iteration]
    if not ran:
        return
    unknown = set.intersection(*(set(stopper.unknown(trial)) for trial in ran))
    compared = {str(getattr(scheduler, name, "")) for name in ("metric", "time_attr")} - {""}
    unreported = {name for name in compared if all(trial.newest(name) is None for trial in ran)}
    for who, names in {"stop condition": unknown, "scheduler": unreported}.items():
        for name in sorted(names):
            known = ", ".join(inferred(trials, most=None)) or "none"
            yield f"the {who} needs {name!r}, which no trial reports: there are {known}"


def varying(trials: Sequence[Trial]) -> list[str]:
    """Return the keys of the configuration in which trials differ; `a/b` means a nested key."""
    configs = [flat_config(trial) for trial in trials]
    keys = dict.fromkeys(key for config in configs for key in config)
    nothing = ("", '""')
    return [key for key in keys if len({config.get(key, nothing)[1] for config in configs}) > 1]


def flat_config(trial: Trial) -> dict[str, tuple[Any, str]]:
    """Return a trial's configuration by its keys, `a/b` for nested keys: each value with its JSON."""
    config = state_of(trial).config
    return remember(trial, "config", config, partial(_flat, config))


def _flat(config: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    return {key: (value, json.dumps(value)) for key, value in flat(plain(config))}


def by_metric(trials: Sequence[Trial], metric: str, mode: str, scope: Scope = "last") -> Sequence[Trial]:
    """Return the trials by their values, the best first; unsorted without a metric and a mode."""
    if not metric or mode not in {"min", "max"}:
        return trials
    sign = 1 if mode == "min" else -1

    def rank(trial: Trial) -> tuple[bool, float]:
        value = as_float(value_of(trial, metric, mode, scope))
        return math.isnan(value), 0 if math.isnan(value) else sign * value

    return sorted(trials, key=rank)


def value_of(trial: Trial, metric: str, mode: str, scope: Scope) -> float | None:
    """Return the value of a metric by which a trial is ranked: its last value, or its best value."""
    if scope == "last":
        return trial.newest(metric)
    curves = state_of(trial).condensed.curves
    if curve := curves.get(metric):
        best = curve.low if mode == "min" else curve.high
        return None if best is None else best[1]
    if not is_automatic(metric) and len(curves) < MOST_NAMES:
        return None  # otherwise only the journal knows
    values = [value for value in trial.metric(metric) if not math.isnan(as_float(value))]
    return min(values, key=lambda value: value if mode == "min" else -value, default=None)


def likely_mode(metric: str) -> Literal["", "min", "max"]:
    """Return which values of a metric are usually the best, by the words in its name; "" if none says so.

    >>> likely_mode("val_loss"), likely_mode("test/accuracy"), likely_mode("score_error"), likely_mode("x")
    ('min', 'max', '', '')
    """
    words = set(_WORD.findall(metric.lower()))
    small, large = not words.isdisjoint(_SMALL_IS_GOOD), not words.isdisjoint(_LARGE_IS_GOOD)
    return "" if small == large else "min" if small else "max"


def metric_cell(trial: Trial, name: str) -> Cell:
    """Return the cell of a metric: its last value and a sparkline."""
    return remember(trial, ("cell", name), state_of(trial).last_result, partial(_metric_cell, trial, name))


def _metric_cell(trial: Trial, name: str) -> Cell:
    last, curve = trial.newest(name), state_of(trial).condensed.curves.get(name)
    if last is None:
        return Cell("")
    return Cell(shown_value(last).text, repr(last), curve.shown if curve else ())
