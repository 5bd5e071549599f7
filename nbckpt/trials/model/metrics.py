"""Metrics: the names that nbckpt uses, how to look up a metric, and how to write metrics as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from nbckpt.core.schema import MOST_NESTED

DONE = "done"
ITERATION = "training_iteration"
SHOULD_CHECKPOINT = "should_checkpoint"
TIME_THIS_ITER = "time_this_iter_s"
# Counts of nbckpt, and values that describe a result: not the metrics that people look for.
_AUTOMATIC = re.compile(r"(time|timesteps|episodes)_(total|this_iter)(_s)?|training_iteration|timestamp|done")
_DEEPEST = MOST_NESTED - 20
"""The deepest nesting of a kept value. Files put the value inside a few more lists and objects."""
PLAIN = frozenset({int, float, str, bool, type(None)})
_NAMES = frozenset({str})


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a number, and not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def lookup(result: Mapping[str, Any], name: str) -> Any:
    """Return a metric by its name; `a/b` means the metric b in the dict a. None if it is missing."""
    if name in result:
        return result[name]
    here: Any = result
    for part in name.split("/"):
        if not isinstance(here, Mapping) or part not in here:
            return None
        here = here[part]
    return here


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values; `a/b` means b in the dict a."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{key}/")
        else:
            yield f"{above}{key}", value


def numbers(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the numbers in a result, without nbckpt's counts; `a/b` means b in the dict a."""
    for name, value in flat(result):
        if not _AUTOMATIC.fullmatch(name) and is_number(value):
            yield name


def plain(values: Mapping[str, Any], above: frozenset[int] = frozenset()) -> dict[str, Any]:
    """Return metrics in JSON form: NumPy's numbers as numbers, values that JSON cannot express as text."""
    if all_plain(values) and _NAMES.issuperset(map(type, values)):
        return dict(values)
    above |= {id(values)}
    return {str(key): as_plain(value, above) for key, value in values.items()}


def all_plain(values: Mapping[str, Any]) -> bool:
    """Return whether JSON can express all these values directly; such values never change."""
    return PLAIN.issuperset(map(type, values.values()))


def as_plain(value: Any, above: frozenset[int] = frozenset()) -> Any:
    """Return a value in JSON form, or its `repr`; also if it contains itself (is *above*)."""
    if type(value) in PLAIN:
        return value
    if id(value) in above or len(above) >= _DEEPEST:
        return repr(value)
    if isinstance(value, Mapping):
        return plain(value, above)
    if isinstance(value, (list, tuple)):
        above |= {id(value)}
        return [as_plain(item, above) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a scalar of NumPy, torch or jax
        return as_plain(value.item()) if type(value.item()) is not type(value) else repr(value)
    return repr(value)
