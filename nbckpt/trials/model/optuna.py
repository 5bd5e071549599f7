"""Optuna: its samplers and pruners by their names, and studies of our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

from nbckpt.errors import UsageError
from nbckpt.suggestion import suggestion

if TYPE_CHECKING:
    from optuna import Study

Kind = Literal["Sampler", "Pruner"]

_PACKAGES = {
    "CmaEsSampler": ("cmaes",),
    "GPSampler": ("scipy", "torch"),
    "QMCSampler": ("scipy",),
    "WilcoxonPruner": ("scipy",),
}
"""What Optuna does not install, and imports only after the first trials."""


def make(kind: Kind, name: str, options: Mapping[str, Any]) -> Any:
    """Return a sampler or a pruner of Optuna by its name: `TPESampler`, or `tpe` for short.

    Raises:
        UsageError: Optuna is not installed or has no such class, or the class refuses the options or needs
            another package.
    """
    classes = _classes(kind)
    cls = classes.get(_short(name, kind))
    if cls is None:
        advice = suggestion(name.lower(), classes) or f"It has {', '.join(sorted(classes))}"
        raise UsageError(f"Optuna has no {kind.lower()} {name!r}. {advice}".rstrip())
    try:
        made = cls(**options)
    except (TypeError, ValueError, ImportError) as error:
        raise UsageError(f"cannot make Optuna's {cls.__name__}: {error}") from error
    check_packages(made)
    return made


def check_packages(made: object) -> None:
    """Refuse a sampler or a pruner that needs a package which is not installed.

    Raises:
        UsageError: It does; the message says how to install it.
    """
    for cls in type(made).__mro__:
        if missing := [name for name in _PACKAGES.get(cls.__name__, ()) if find_spec(name) is None]:
            packages = " ".join(missing)
            raise UsageError(f"Optuna's {cls.__name__} needs {' and '.join(missing)}: pip install {packages}")


def arguments(kind: Kind, name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a class that `make` makes, and all its arguments: the options and the defaults."""
    cls = _classes(kind)[_short(name, kind)]
    bound = signature(cls).bind(**options)
    bound.apply_defaults()
    return cls.__name__, bound.arguments


def has(kind: Kind, name: str) -> bool:
    """Return whether Optuna is installed and has such a class."""
    try:
        return _short(name, kind) in _classes(kind)
    except UsageError:
        return False


def lacking(kind: Kind) -> str:
    """Return why Optuna has no classes of a kind here, as a sentence; empty if it has."""
    try:
        _classes(kind)
    except UsageError as error:
        return str(error)
    return ""


def new_study(modes: Sequence[str], **parts: Any) -> Study:
    """Return a study in memory, with `min` or `max` of each objective, without Optuna's line that says so."""
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(level, optuna.logging.WARNING))
    try:
        return optuna.create_study(
            directions=["minimize" if mode == "min" else "maximize" for mode in modes], **parts
        )
    finally:
        optuna.logging.set_verbosity(level)


def _classes(kind: Kind) -> dict[str, type]:
    """Return Optuna's classes of a kind by their short names."""
    try:
        module = import_module(f"optuna.{kind.lower()}s")
    except ImportError:
        raise UsageError(f"Optuna's {kind.lower()}s need Optuna: pip install 'nbckpt[optuna]'") from None
    names = [name for name in module.__all__ if name.endswith(kind) and not name.startswith("Base")]
    return {_short(name, kind): getattr(module, name) for name in names}


def _short(name: str, kind: Kind) -> str:
    return name.lower().removesuffix(kind.lower())
