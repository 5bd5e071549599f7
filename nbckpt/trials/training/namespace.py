"""A namespace as a checkpoint: what of `globals()` can be kept."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import CodecError

_MACHINERY = frozenset({"In", "Out", "exit", "quit", "get_ipython"})
_log = logging.getLogger("nbckpt")


def savable(namespace: Mapping[str, Any], ours: type) -> Checkpoint:
    """Return a checkpoint of the variables in a namespace.

    Modules, private names, IPython's own names and instances of *ours* are left out. So are values that
    cannot be saved; the log names them.
    """
    variables = {
        name: value
        for name, value in list(namespace.items())
        if not (isinstance(value, (ModuleType, ours)) or name in _MACHINERY or str(name).startswith("_"))
    }
    try:
        return Checkpoint.from_dict(variables)
    except CodecError:
        kept = [name for name in variables if _can_be_saved(name, variables)]
        return Checkpoint.from_dict({name: variables[name] for name in kept})


def _can_be_saved(name: str, variables: Mapping[str, Any]) -> bool:
    try:
        Checkpoint.from_dict({name: variables[name]})
    except CodecError as error:
        _log.warning("%s is not saved: %s", name, error)
        return False
    return True
