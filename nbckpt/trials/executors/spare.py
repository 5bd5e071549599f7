"""Spare: a Python that is started before a trial needs it. See docs/decisions/0153."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbckpt.trials.executors.interpreter import Interpreter


class SpareInterpreter:
    """At most one Python that has imported nbckpt and waits for a job. Any thread may call its methods.

    It has run nothing of the user. It is used only if a new process would start in the same way: with the
    same variables, working folder, `sys.path` and program.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: tuple[Interpreter, Any] | None = None

    def take(self, environment: Mapping[str, str]) -> Interpreter:
        """Return the spare if it is alive and as a new process would be, else a new process.

        Raises:
            OSError: No process can be started.
        """
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            spare, start = kept
            if start == start_of(environment) and spare.process.poll() is None:
                return spare
            spare.end()
        return Interpreter(environment)

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Start a spare unless there is one. If that fails, there is none: the next trial starts its own."""
        start = start_of(environment)
        with self._lock, suppress(OSError):
            if self._kept is None and start is not None:
                self._kept = Interpreter(environment), start

    def drop(self) -> None:
        """End the spare, if there is one."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept[0].end()


def start_of(environment: Mapping[str, str]) -> Any:
    """Return what a process inherits at its start, to be compared; None if the working folder is gone."""
    try:
        folder, place = Path.cwd(), Path().stat()
    except OSError:
        return None
    return sys.executable, tuple(sys.path), dict(environment), folder, place.st_dev, place.st_ino
