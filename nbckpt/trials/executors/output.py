"""Tee: what a trial prints in this process is told to whoever keeps its log, and goes where it went.

Which trial prints is known by the context of the code that does. `sys.stdout` and `sys.stderr` stay the
objects that they are, which others replace and bring back as they like; these objects are given a `write`
of their own while a trial runs.
"""

from __future__ import annotations

import re
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

speaker: ContextVar[Speaker | None] = ContextVar("nbckpt_speaker", default=None)
"""Who prints in this context."""

_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_MOST = 1 << 16
_lock = threading.Lock()
_users = 0
_teed: list[tuple[Any, Writes, Writes, bool]] = []
"""The streams, our `write` of each and the one below, and whether a stream had that as its own attribute."""


class Speaker:
    """A trial whose lines have its name while others run in this process, so that they can be told apart.

    A line is printed in one piece then, when it ends; what prints alone is printed as it comes.

    Args:
        name: The trial's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun: dict[Any, str] = {}
        self._lock = threading.Lock()

    def says(self, stream: Any, text: str) -> str:
        """Return what is to be printed now of all that was said to a stream."""
        with self._lock:
            before = self._begun.pop(stream, "")
            alone = _users < 2
            if alone and not before:
                return text
            text = before + text
            end = len(text) if alone else max(text.rfind("\n"), text.rfind("\r")) + 1
            if end < len(text):
                self._begun[stream] = text[end:][-_MOST:]
            return self._named(text[:end])

    def ends(self) -> None:
        """Print the lines that have not ended."""
        with self._lock:
            left, self._begun = self._begun, {}
        for stream, text in left.items():
            with suppress(OSError, ValueError):  # the stream is closed
                stream.write(self._named(f"{text}\n"))

    def _named(self, text: str) -> str:
        lines = _LINES.findall(text)
        return "".join(line if line == "\r" else f"[{self._name}] {line}" for line in lines)


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
    # Below IPython's own `write`, which a cell takes off again: see docs/decisions/0035.
    kept, write = _bottom(stream)
    own = kept is not None or "write" in getattr(stream, "__dict__", {})

    def tee(text: str, /) -> object:
        writes = listener.get()
        if writes is None:
            return write(text)
        token = listener.set(None)  # a stream may pass it on to another one, which is teed too
        try:
            writes(str(text))  # first: a terminal that was closed takes nothing, and fails no trial
            by = speaker.get()
            with suppress(OSError):
                write(text if by is None else by.says(stream, text))
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
