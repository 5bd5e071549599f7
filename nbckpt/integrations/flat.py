"""Nested dicts as other trackers have them: flat, with `a/b` for the key b in the dict a."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nbckpt.trials.model.metrics import plain


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by their `a/b` names, as JSON has them."""
    return dict(_leaves(plain(values), ""))


def numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a result by their `a/b` names; what is true or false is none."""
    return {name: value for name, value in flat(result).items() if type(value) in {int, float}}


def _leaves(values: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}/")
        else:
            yield f"{above}{key}", value
