"""Tee: what a trial prints in this process is told to whoever keeps its log, and goes where it went.

Which trial prints is known by the context of the code that does. `sys.stdout` and `sys.stderr` stay the
objects that they are, which others replace and bring back as they like; these objects are given a `write`
of their own while a trial runs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import CellType
from typing import Any

Writes = Callable[[str], object]
"""Takes what was printed; never raises."""

listener: ContextVar[Writes | None] = ContextVar("nbckpt_listener", default=None)
"""What is told of all that is printed in this context."""

_MOST = 1 << 16
_lock = threading.Lock()
_users = 0
_teed: list[tuple[Any, Writes, Writes, bool]] = []
"""The streams, our `write` of each and the one below, and whether a stream had that as its own attribute."""


class Printed:
    """What was printed, until somebody takes it; of very much, the end."""

    def __init__(self) -> None:
        self._text = ""
        self._lock = threading.Lock()

    def write(self, text: str) -> None:
        """Add *text*."""
        with self._lock:
            self._text = (self._text + text)[-_MOST:]

    def take(self) -> str:
        """Return it, once."""
        with self._lock:
            text, self._text = self._text, ""
        return text


@contextmanager
def teeing() -> Iterator[None]:
    """See to it that listeners are told, until the block ends, what the streams of now are given."""
    global _users
    with _lock:
        _users += 1
        for stream in (sys.stdout, sys.stderr):
            if not any(stream is known for known, *_ in _teed):
                _put_on(stream)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                while _teed:
                    _take_off(*_teed.pop())


def _put_on(stream: Any) -> None:
    if not hasattr(stream, "write"):
        return
    kept, write = _bottom(stream)
    own = kept is not None or "write" in getattr(stream, "__dict__", {})

    def tee(text: str, /) -> object:
        writes = listener.get()
        if writes is None:
            return write(text)
        token = listener.set(None)  # a stream may pass it on to another one, which is teed too
        try:
            writes(str(text))  # first: a terminal that was closed takes nothing, and fails no trial
            with suppress(OSError):
                return write(text)
            return len(text)
        finally:
            listener.reset(token)

    with suppress(AttributeError, TypeError):  # a stream that lets nobody set its attributes
        if kept is None:
            stream.write = tee
        else:
            kept.cell_contents = tee
        _teed.append((stream, tee, write, own))


def _take_off(stream: Any, tee: Writes, before: Writes, own: bool) -> None:  # noqa: FBT001  a row of the table
    """Give a stream its own `write` again, unless another one was put over ours."""
    kept, write = _bottom(stream)
    if write is not tee:
        return
    if kept is not None:
        kept.cell_contents = before
    elif own:
        stream.write = before
    else:
        del stream.write


def _bottom(stream: Any) -> tuple[CellType | None, Writes]:
    """Return a stream's `write` below that with which IPython takes down a cell's output, and who keeps it.

    IPython puts its own over ours, or ours aside when the cell ends, with the one that it found.
    """
    kept, write = None, stream.write
    while "original_write" in (names := getattr(getattr(write, "__code__", None), "co_freevars", ())):
        kept = write.__closure__[names.index("original_write")]
        write = kept.cell_contents
    return kept, write
