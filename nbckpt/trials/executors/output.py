"""Output: a copy of everything that a trial prints in this process goes to the trial's log.

The context of the running code tells which trial prints. `sys.stdout` and `sys.stderr` are not replaced,
because other libraries replace and restore them at will. Instead, while a trial runs, the stream objects
get our own `write` method.
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

from nbckpt._private_apis import captured_write

Writes = Callable[[str], object]
"""Takes printed text; never raises."""

listener: ContextVar[Writes | None] = ContextVar("nbckpt_listener", default=None)
"""Takes everything that is printed in this context."""

speaker: ContextVar[Speaker | None] = ContextVar("nbckpt_speaker", default=None)
"""The trial that prints in this context."""

_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_MOST = 1 << 16
_lock = threading.Lock()
_users = 0
_teed: list[tuple[Any, Writes, Writes, bool]] = []
"""For each stream: the stream, our `write`, the `write` below, and whether that was its own attribute."""


class Speaker:
    """Marks a trial's lines with its name while several trials run in this process.

    A marked line is printed in one piece, when it ends. A trial that runs alone prints its text at once.

    Args:
        name: The trial's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun: dict[Any, str] = {}
        self._lock = threading.Lock()

    def says(self, stream: Any, text: str) -> str:
        """Take text for a stream. Return the part that can be printed now."""
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
    """Collects printed text until it is taken. If there is too much text, only the end is kept."""

    def __init__(self) -> None:
        self._text = ""
        self._lock = threading.Lock()

    def write(self, text: str) -> None:
        """Add *text*."""
        with self._lock:
            self._text = (self._text + text)[-_MOST:]

    def take(self) -> str:
        """Return the text once, and forget it."""
        with self._lock:
            text, self._text = self._text, ""
        return text


@contextmanager
def teeing() -> Iterator[None]:
    """Pass a copy of everything written to the current streams to the listeners during the block."""
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
    # Below IPython's own `write`, which is removed after a cell: see docs/decisions/0035.
    cell, write = _bottom(stream)
    own = cell is not None or "write" in getattr(stream, "__dict__", {})

    def tee(text: str, /) -> object:
        writes = listener.get()
        if writes is None:
            return write(text)
        token = listener.set(None)  # a stream may pass the text to another stream, which is teed too
        try:
            writes(str(text))  # first, because a closed terminal takes nothing and must not fail the trial
            by = speaker.get()
            with suppress(OSError):
                write(text if by is None else by.says(stream, text))
            return len(text)
        finally:
            listener.reset(token)

    with suppress(AttributeError, TypeError):  # a stream whose attributes cannot be set
        if cell is None:
            stream.write = tee
        else:
            cell.cell_contents = tee
        _teed.append((stream, tee, write, own))


def _take_off(stream: Any, tee: Writes, before: Writes, own: bool) -> None:  # noqa: FBT001  a row of the table
    """Restore a stream's own `write`, unless another `write` replaced ours."""
    cell, write = _bottom(stream)
    if write is not tee:
        return
    if cell is not None:
        cell.cell_contents = before
    elif own:
        stream.write = before
    else:
        del stream.write


def _bottom(stream: Any) -> tuple[CellType | None, Writes]:
    """Return a stream's `write` below IPython's capturing `write`, and the cell variable that holds it.

    IPython replaces our `write` by its own. When a cell ends, it restores the `write` that it found.
    """
    cell, write = None, stream.write
    while inner := captured_write(write):
        cell, write = inner, inner.cell_contents
    return cell, write
