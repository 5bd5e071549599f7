"""Lazy: imports the names of a package when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

_NONE: Mapping[str, str] = MappingProxyType({})


def attach(
    package: str,
    homes: Mapping[str, str],
    *,
    defined: Iterable[str] = (),
    namespaces: Iterable[str] = (),
    moved: Mapping[str, str] = _NONE,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package. See docs/decisions/0072.

    Args:
        package: The package.
        homes: For each public name, the module to import it from.
        defined: The public names that the package defines itself.
        namespaces: The modules of the package that need no import of their own.
        moved: For each name that was public before, the name to use now.
    """
    names, modules = [*homes, *defined], frozenset(namespaces)

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)  # see docs/decisions/0051
        if name in modules:
            return _namespace(f"{package}.{name}")
        if name not in moved:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[package])
        error = ImportError if _is_from_import() else AttributeError
        raise error(f"{package}.{name} is now {moved[name]}")

    return get, lambda: sorted({*names, *modules}), names


def _namespace(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:  # an AttributeError, so that help() and hasattr() go on without a package
        raise AttributeError(f"{module} cannot be imported: {error}") from error


def _is_from_import() -> bool:
    """Tell whether `from package import name` asks, which hides the message of an AttributeError."""
    return sys._getframe(2).f_globals.get("__name__") == "importlib._bootstrap"
