"""Lazy: imports the names of a package when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

_NONE: Mapping[str, str] = MappingProxyType({})


def getter(
    package: str,
    homes: Mapping[str, str],
    *,
    namespaces: Collection[str] = (),
    moved: Mapping[str, str] = _NONE,
) -> Callable[[str], Any]:
    """Return a `__getattr__` function for a package.

    Args:
        package: The package.
        homes: For each public name, the module to import it from.
        namespaces: The modules of the package that need no import of their own.
        moved: For each name that was public before, the name to use now.
    """

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)  # see docs/decisions/0051
        if name in namespaces:
            return import_module(f"{package}.{name}")
        if name not in moved:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[package])
        error = ImportError if _is_from_import() else AttributeError
        raise error(f"{package}.{name} is now {moved[name]}")

    return get


def _is_from_import() -> bool:
    """Tell whether `from package import name` asks, which hides the message of an AttributeError."""
    return sys._getframe(2).f_globals.get("__name__") == "importlib._bootstrap"
