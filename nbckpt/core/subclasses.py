"""Subclasses: which subclass wrote a checkpoint, and which class reads it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from inspect import signature
from typing import Any, TypeVar

from nbckpt.core.warning import warn
from nbckpt.errors import UsageError, visible

Kind = TypeVar("Kind")


def class_name(kind: type, base: type) -> str:
    """Return the name of a class in a manifest, or "" for *base*."""
    return "" if kind is base else f"{kind.__module__}:{kind.__qualname__}"


def recorded_class(name: str, base: type[Kind], *, load: bool) -> type[Kind]:
    """Return the class that a manifest names, if it is a subclass of *base*.

    Args:
        name: The result of `class_name`.
        base: The fallback if the class does not exist.
        load: Whether its module may be imported, which runs code.
    """
    module, _, path = name.partition(":")
    if not module:
        return base
    named: Any = sys.modules.get(module)
    try:
        if named is None and load:
            named = importlib.import_module(module)
        for name in path.split("."):
            named = getattr(named, name)
    except (ImportError, AttributeError):
        named = None
    if isinstance(named, type) and issubclass(named, base):
        return named
    if load:
        warn(f"the checkpoint's class {visible(name)} cannot be imported, so it is read as a {base.__name__}")
    return base


def narrower(asked: type[Kind], recorded: type[Any]) -> type[Kind]:
    """Return the more specific of two classes.

    Raises:
        UsageError: Neither class derives from the other.
    """
    if issubclass(recorded, asked):
        return recorded
    if issubclass(asked, recorded):
        return asked
    raise UsageError(f"this checkpoint is a {recorded.__name__}, not a {asked.__name__}")


def initialised(cls: type[Kind], attributes: Mapping[str, Any], given: Mapping[str, Any]) -> Kind:
    """Return an instance with *attributes*, after its `__init__` ran, with *given* if it takes that."""
    made = cls.__new__(cls)
    vars(made).update(attributes)
    parameters = signature(cls.__init__)
    for arguments in (given, {}):
        with suppress(TypeError):
            parameters.bind(made, **arguments)
            break
    else:
        warn(f"{cls.__name__}.__init__ was not run, because it needs other arguments")
        return made
    cls.__init__(made, **arguments)
    vars(made).update(attributes)
    return made
