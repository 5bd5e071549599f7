"""Flatten nested dicts for other trackers: `a/b` is the key b in the dict a."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nbckpt.trials.model.metrics import plain


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by their `a/b` names, converted to JSON types."""
    return dict(_leaves(plain(values), ""))


def numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a result by their `a/b` names. Booleans do not count as numbers."""
    return {name: value for name, value in flat(result).items() if type(value) in {int, float}}


def _leaves(values: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}/")
        else:
            yield f"{above}{key}", value
