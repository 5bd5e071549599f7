"""Progress of long saves and restores: one line that comes late and goes when the work is done."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython
from IPython.display import HTML, display

from nbckpt.render import size, visible

if TYPE_CHECKING:
    from nbckpt.commands.table import Bar
    from nbckpt.sync.progress import Progress

_DELAY_S = 0.7
_PERIOD_S = 0.25


@contextmanager
def bar(clock: Callable[[], float] = time.monotonic) -> Iterator[Bar]:
    """Show progress during the block, if it lasts; at most four updates a second, in this cell."""
    started = shown = clock()
    handle: Any = None

    def show(done: int, total: int, transfer: Progress | None = None) -> None:
        nonlocal shown, handle
        if clock() - started < _DELAY_S or clock() - shown < _PERIOD_S:
            return
        shown = clock()
        text = f"{size(done)} of {size(total)}" if transfer is None else visible(str(transfer))
        if not is_kernel(get_ipython()):
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{text[:width].ljust(width)}", end="", file=sys.stderr, flush=True)  # noqa: T201
            handle = False
        elif handle is None:
            handle = display(HTML(_html(done, total, text)), display_id=True)
        else:
            handle.update(HTML(_html(done, total, text)))

    try:
        yield show
    finally:
        if handle is False:
            print("\r\033[K", end="", file=sys.stderr, flush=True)  # noqa: T201
        elif handle:
            handle.update(HTML(""))


def _html(done: int, total: int, text: str) -> str:
    said = escape(text)
    shown = f'<progress value="{done}" max="{max(total, 1)}" title="{said}" style="vertical-align:middle;">'
    return f"{shown}</progress> {said}"


def is_kernel(shell: Any) -> bool:
    """Tell whether a shell belongs to a kernel, whose outputs can be changed in place."""
    return hasattr(shell, "kernel")
