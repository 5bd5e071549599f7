"""Progress of long commands: one line that appears after a delay and that the result replaces."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Self

from IPython.core.getipython import get_ipython

from nbckpt.errors import visible
from nbckpt.render import size
from nbckpt.render.output import Output, is_kernel

if TYPE_CHECKING:
    from nbckpt.render import Result
    from nbckpt.sync.progress import Progress

DELAY_S = 0.7
_PERIOD_S = 0.25


class ProgressLine:
    """Show the progress of one long command in this cell, with at most four updates per second.

    In a kernel the output stays in the notebook. At the end the command's result replaces the progress, or a
    sentence says how far the work came.

    Args:
        clock: Returns seconds.
        delay: Seconds before the first update.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, delay: float = DELAY_S) -> None:
        self._clock = clock
        self._due = clock() + delay
        self._text = ""
        self._output = Output()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._text and not self._output.is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)  # noqa: T201
        elif kind is not None:
            self.end("stopped at ")

    def __call__(self, done: int, total: int, transfer: Progress | None = None) -> None:
        """See `Bar`."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _PERIOD_S
        self._text = f"{size(done)} of {size(total)}" if transfer is None else visible(str(transfer))
        if not is_kernel(get_ipython()):
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{self._text[:width].ljust(width)}", end="", file=sys.stderr, flush=True)  # noqa: T201
        else:
            said = escape(self._text)
            bar = f'<progress value="{done}" max="{max(total, 1)}" title="{said}"'
            html = f'{bar} style="vertical-align:middle;"></progress> {said}'
            self._output.put({"text/plain": self._text, "text/html": html})

    def become(self, result: Result) -> bool:
        """Replace the progress by a result; return False if no progress was shown in a kernel."""
        if self._output.is_shown:
            self._output.put(result._repr_mimebundle_())
        return self._output.is_shown

    def end(self, before: str = "") -> None:
        """Replace the progress by a sentence with its last state."""
        if self._output.is_shown:
            text = before + self._text
            self._output.put({"text/plain": text, "text/html": escape(text)})
