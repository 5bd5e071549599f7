"""Faults of single system calls, as far as Python makes them through functions that can be replaced."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self
from unittest import mock

CALLS: dict[Any, tuple[str, ...]] = {
    os: (
        *("open", "read", "write", "writev", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir"),
        *("link", "scandir", "listdir", "stat", "lstat", "fstat"),
    ),
    io: ("open",),
}

ERRORS: dict[str, Callable[[], BaseException]] = {
    "full": lambda: OSError(28, "No space left on device"),
    "broken": lambda: OSError(5, "Input/output error"),
    "forbidden": lambda: PermissionError(13, "Permission denied"),
    "handles": lambda: OSError(24, "Too many open files"),
}
"""What a system call can fail with, made anew each time: a raised error keeps its traceback."""


class Faults:
    """Lets the call number *at* fail, or all from there on.

    Attributes:
        reached: Whether there were so many calls.
    """

    def __init__(
        self,
        at: int,
        error: Callable[[], BaseException],
        *,
        from_then_on: bool = False,
        calls: dict[Any, tuple[str, ...]] = CALLS,
    ) -> None:
        self.reached = False
        self._count = itertools.count(1)
        self._at, self._error, self._more = at, error, from_then_on
        self._calls = calls
        self._patches = ExitStack()

    def __enter__(self) -> Self:
        for module, names in self._calls.items():
            faulty = {name: self._faulty(getattr(module, name)) for name in names if hasattr(module, name)}
            self._patches.enter_context(mock.patch.multiple(module, **faulty))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def _faulty(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            number = next(self._count)
            self.reached |= number >= self._at
            if number == self._at or (self._more and self.reached):
                raise self._error()
            return real(*args, **options)

        return call
