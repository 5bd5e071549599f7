"""Shutdown: run work at interpreter shutdown while the network is still reachable."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401  it must register its own shutdown hook before ours
from collections.abc import Callable

from nbckpt._private_apis import run_before_threads_end


def before_the_end(work: Callable[[], object]) -> None:
    """Run *work* at interpreter shutdown, while threads still work. Registering again moves it to the front.

    atexit alone is too late: thread pools are closed by then, and libraries resolve host names in them.
    *work* runs once more at atexit, for interpreters that offer only that. So *work* must be able to run
    twice: the second call must find nothing left to do.
    """
    # see docs/decisions/0031
    atexit.unregister(work)
    atexit.register(work)
    run_before_threads_end(work)
