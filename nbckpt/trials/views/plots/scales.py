"""Scales: parameters and metrics of trials as places on an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.suggestion import suggestion
from nbckpt.trials.model.metrics import is_number
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.views.formats import shown_value
from nbckpt.trials.views.metrics import flat_config, inferred
from nbckpt.trials.views.plots.style import label

_WIDE = 100.0
"""How many times larger the largest of some positive numbers is for a logarithmic scale."""
_MOST_CATEGORIES = 12
_LARGEST = 1e100
_LONGEST = 18
_CONFIG = "config/"


@dataclass(frozen=True)
class Scale:
    """The places of values on an axis, and the texts beside it.

    Attributes:
        name: The parameter or the metric.
        places: The place of each value; not a number where there is no value.
        logarithmic: Whether the axis has a logarithmic scale.
        categories: The texts at the places 0, 1, 2, … if the values are not numbers.
    """

    name: str
    places: Sequence[float]
    logarithmic: bool = False
    categories: Sequence[str] = ()

    @property
    def finite(self) -> list[float]:
        """The places that have a value."""
        return [place for place in self.places if math.isfinite(place)]

    def fractions(self) -> list[float]:
        """Return the places from 0 to 1; not a number where there is no value."""
        low, high = self.limits
        return [
            (self._along(place) - low) / (high - low) if math.isfinite(place) else math.nan
            for place in self.places
        ]

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of the axis, which differ; of a logarithmic one their logarithms."""
        along = [self._along(place) for place in self.finite] or [0.0]
        low, high = min(along), max(along)
        return (low, high) if low < high else (low - 0.5, high + 0.5)

    def _along(self, place: float) -> float:
        return math.log10(place) if self.logarithmic else place

    def ticks(self) -> dict[float, str]:
        """Return the texts beside the axis by their places from 0 to 1."""
        low, high = self.limits
        if self.categories:
            step = math.ceil(len(self.categories) / _MOST_CATEGORIES)
            return {
                (at - low) / (high - low): label(text, _LONGEST)
                for at, text in list(enumerate(self.categories))[::step]
            }
        return {(at - low) / (high - low): f"{value:.3g}" for at, value in self._numbers(low, high)}

    def _numbers(self, low: float, high: float) -> list[tuple[float, float]]:
        from matplotlib.ticker import MaxNLocator

        if self.logarithmic:
            wanted = range(math.ceil(low), math.floor(high) + 1, max(1, round((high - low) / 4)))
            return [(at, 10.0**at) for at in wanted]
        whole = all(place.is_integer() for place in self.finite)
        places = MaxNLocator(4, integer=whole, min_n_ticks=2).tick_values(low, high)
        return [(float(at), float(at)) for at in places if low <= at <= high]


def scale_of(name: str, values: Sequence[Any]) -> Scale:
    """Return the places of values, which are numbers, texts or anything else that JSON can express.

    All numbers are a number axis, with a logarithmic scale if they are positive and far apart. Otherwise each
    value is a category. `None` counts as missing.
    """
    known = [value for value in values if value is not None]
    if all(map(is_number, known)):
        places = [
            float(value) if value is not None and abs(value) < _LARGEST else math.nan for value in values
        ]
        finite = [place for place in places if math.isfinite(place)]
        wide = bool(finite) and min(finite) > 0 and max(finite) / min(finite) >= _WIDE
        return Scale(name, places, wide)
    texts = [None if value is None else _text(value) for value in values]
    ordered = sorted(known, key=lambda value: (not is_number(value), value if is_number(value) else 0))
    categories = list(dict.fromkeys(map(_text, ordered)))
    index = {text: float(at) for at, text in enumerate(categories)}
    return Scale(name, [math.nan if text is None else index[text] for text in texts], categories=categories)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else shown_value(value).text


def parameter(trials: Sequence[Trial], name: str) -> Scale:
    """Return the places of a parameter of trials. Among few values, `None` counts as a value."""
    values = [flat_config(trial).get(name) for trial in trials]
    few = len({pair[1] for pair in values if pair is not None}) <= _MOST_CATEGORIES
    none = "None" if few else None
    return scale_of(name, [None if pair is None else none if pair[0] is None else pair[0] for pair in values])


def metric(trials: Sequence[Trial], name: str) -> Scale:
    """Return the places of the last values of a metric of trials."""
    return scale_of(name, [trial.newest(name) for trial in trials])


def named(trials: Sequence[Trial], name: str) -> Scale:
    """Return the places of a parameter, or of a metric. `config/NAME` is the parameter.

    Raises:
        UsageError: There is neither.
    """
    keys = dict.fromkeys(key for trial in trials for key in flat_config(trial))
    if (key := name if name in keys else name.removeprefix(_CONFIG)) in keys:
        return parameter(trials, key)
    if any(trial.newest(name) is not None for trial in trials):
        return metric(trials, name)
    metrics = inferred(trials, most=None)
    close = suggestion(name, [*keys, *metrics])
    known = ", ".join([*keys, *metrics])
    raise UsageError(f"{name!r} is neither a parameter nor a metric: there are {known}. {close}".strip())
