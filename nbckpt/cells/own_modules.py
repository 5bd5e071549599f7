"""Own modules: what the user wrote outside of the notebook, and what is written to without being named."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbckpt.core.definitions import is_installed

_OURS = str(Path(__file__).parent.parent)


def is_own(module: Mapping[str, Any]) -> bool:
    """Tell whether a module, given by its names, is neither installed nor a part of Python."""
    file = module.get("__file__")
    if isinstance(file, str):
        return not (file.startswith((_OURS, "<")) or is_installed(file))
    origin = getattr(module.get("__spec__"), "origin", None)
    return module.get("__name__") in sys.modules and origin not in ("built-in", "frozen")


def redirected(own: str) -> list[Any]:
    """Return the streams of *own*'s classes, or in memory, that `print` and the root logger write to."""
    streams = [sys.stdout, sys.stderr, *(getattr(part, "stream", None) for part in logging.root.handlers)]
    streams = [stream for stream in streams if stream not in (sys.__stdout__, sys.__stderr__)]
    return [stream for stream in streams if type(stream).__module__ in ("_io", own)]
