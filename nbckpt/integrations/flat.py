"""Flatten nested dicts for other trackers: `a/b` is the key b in the dict a."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbckpt.trials.model import metrics


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by their `a/b` names, converted to JSON types."""
    return dict(metrics.flat(metrics.plain(values)))


def numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a result by their `a/b` names, as floats. Booleans do not count as numbers."""
    return {name: metrics.as_float(value) for name, value in flat(result).items() if metrics.is_number(value)}
