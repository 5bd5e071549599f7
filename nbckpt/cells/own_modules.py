"""Own modules: what the user wrote outside of the notebook, and what is written to without being named."""

from __future__ import annotations

import logging
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_INSTALLED = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),)
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_OURS = str(Path(__file__).parent.parent)


def is_own(module: Mapping[str, Any]) -> bool:
    """Tell whether a module, given by its names, is neither installed nor a part of Python."""
    file = module.get("__file__")
    if isinstance(file, str):
        return _is_own_file(file)
    origin = getattr(module.get("__spec__"), "origin", None)
    return module.get("__name__") in sys.modules and origin not in ("built-in", "frozen")


@cache
def _is_own_file(file: str) -> bool:
    return not (file.startswith((*_INSTALLED, _OURS, "<")) or _PACKAGES & {*Path(file).parts})


def redirected(own: str) -> list[Any]:
    """Return the streams of *own*'s classes, or in memory, that `print` and the root logger write to."""
    streams = [sys.stdout, sys.stderr, *(getattr(part, "stream", None) for part in logging.root.handlers)]
    streams = [stream for stream in streams if stream not in (sys.__stdout__, sys.__stderr__)]
    return [stream for stream in streams if type(stream).__module__ in ("_io", own)]
