"""Progress of long saves and restores: one line that comes late and goes when the work is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import HTML, display

from nbckpt.core.packer import Progress
from nbckpt.render import size

_DELAY_S = 0.7
_PERIOD_S = 0.25


@contextmanager
def bar(clock: Callable[[], float] = time.monotonic) -> Iterator[Progress]:
    """Show progress during the block, if it lasts; at most four updates a second, in this cell."""
    started = shown = clock()
    handle: Any = None

    def progress(done: int, total: int) -> None:
        nonlocal shown, handle
        if clock() - started < _DELAY_S or clock() - shown < _PERIOD_S:
            return
        shown = clock()
        if not is_kernel(get_ipython()):
            print(f"\r{size(done)} of {size(total)}   ", end="", file=sys.stderr, flush=True)  # noqa: T201
            handle = False
        elif handle is None:
            handle = display(HTML(_html(done, total)), display_id=True)
        else:
            handle.update(HTML(_html(done, total)))

    try:
        yield progress
    finally:
        if handle is False:
            print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)  # noqa: T201
        elif handle:
            handle.update(HTML(""))


def _html(done: int, total: int) -> str:
    text = f"{size(done)} of {size(total)}"
    return f'<progress value="{done}" max="{max(total, 1)}" title="{text}"></progress> {text}'


def is_kernel(shell: Any) -> bool:
    """Tell whether a shell belongs to a kernel, whose outputs can be changed in place."""
    return hasattr(shell, "kernel")
