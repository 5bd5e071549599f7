"""Frame: pandas, and rows, for what a user wants as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.media.stored import StoredMedia


def pandas_for(name: str) -> ModuleType:
    """Return pandas, for a function or an attribute of the user's.

    Raises:
        UsageError: pandas is not installed.
    """
    try:
        return import_module("pandas")
    except ImportError:
        raise UsageError(f"{name} needs pandas: pip install pandas") from None


def beside(own: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics by the names of their columns beside others: `metrics/error` if there is an `error`."""
    return {f"metrics/{name}" if name in own else name: value for name, value in metrics.items()}


def with_media(results: Iterable[Mapping[str, Any]], media: Iterable[StoredMedia]) -> list[dict[str, Any]]:
    """Return the results of a trial, each with its media by their names."""
    by_step: dict[int, dict[str, StoredMedia]] = {}
    for one in media:
        by_step.setdefault(one.step, {})[one.name] = one
    return [{**result, **by_step.get(result["training_iteration"], {})} for result in results]
