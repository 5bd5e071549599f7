"""Shutdown: run work at interpreter shutdown while the network is still reachable."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401  it must register its own shutdown hook before ours
from collections.abc import Callable

from nbckpt._private_apis import run_before_threads_end

_works: list[Callable[[], object]] = []


def before_the_end(work: Callable[[], object], *, first: bool = False) -> None:
    """Run *work* at interpreter shutdown, while threads still work; *first* before all other work.

    atexit alone is too late: thread pools are closed by then, and libraries resolve host names in them.
    *work* runs once more at atexit, for interpreters that offer only that. So *work* must be able to run
    twice: the second call must find nothing left to do.
    """
    # see docs/decisions/0031
    if not _works:
        atexit.register(_run)
        run_before_threads_end(_run)
    if work not in _works:
        _works.insert(0 if first else len(_works), work)


def _run() -> None:
    for work in _works:
        work()
