"""Opened: the files that code opens while it runs, except those of Python and its libraries."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

_MOST = 200
_SYSTEM = "/proc", "/sys", "/etc", "/usr"

_watched: Opened | None = None


class Opened:
    """Collects the paths of the files that are opened.

    Attributes:
        paths: The paths, in order, except those of Python, its libraries and the system.
    """

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}
        here = threading.get_ident()
        self._bystanders = {thread.ident for thread in threading.enumerate()} - {here}

    def note(self, path: object) -> None:
        """Note a file that is opened, unless another thread opens it that ran before."""
        if threading.get_ident() in self._bystanders or not isinstance(path, (str, bytes)):
            return
        full = str(Path(os.fsdecode(path)).absolute())
        if len(self.paths) < _MOST and not (full.startswith(_places()) or full.endswith(".pyc")):
            self.paths[full] = None


@cache
def _hook() -> None:
    """Listen to the events of Python. A hook can never be removed, so there is one in a process."""
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched is not None and event == "open":
        _watched.note(arguments[0])


@contextmanager
def opened_files() -> Iterator[Opened]:
    """Collect the files that Python code opens. What a library written in C opens by itself is not seen."""
    global _watched
    _hook()
    before, _watched = _watched, Opened()
    try:
        yield _watched
    finally:
        _watched = before


def existing(paths: Iterable[str], store: str) -> list[str]:
    """Return the paths that are files now, outside of the folder of the store."""
    below = str(Path(store).absolute()) + os.sep
    return [path for path in paths if not path.startswith(below) and Path(path).is_file()]


@cache
def _places() -> tuple[str, ...]:
    hidden = [
        Path("~", name).expanduser() for name in (".cache", ".config", ".ipython", ".jupyter", ".local")
    ]
    library: list[str] = [
        *sysconfig.get_paths().values(),
        sys.prefix,
        sys.base_prefix,
        site.getusersitepackages(),
    ]
    places: list[str | Path] = [*hidden, *library, *_SYSTEM]
    return tuple(str(Path(place).absolute()) + os.sep for place in places)
