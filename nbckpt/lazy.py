"""Lazy: imports the names of a package when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def getter(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` function for a package.

    Args:
        package: The package.
        homes: For each public name, the module to import it from.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)  # see docs/decisions/0051

    return get
