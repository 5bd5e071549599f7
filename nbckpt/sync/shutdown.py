"""Ending: what is to be done before the interpreter ends, while it can still reach a network."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401  what it does at the end must be registered before ours
import threading
from collections.abc import Callable
from contextlib import suppress


def before_the_end(work: Callable[[], object]) -> None:
    """Have *work* called when the interpreter ends; asked again, before what was asked for since.

    atexit alone is too late: thread pools are closed by then, and libraries resolve host names in them.
    It comes once more at atexit, for where that is all there is: *work* must find nothing left to do then.
    """
    # see docs/decisions/0031
    atexit.unregister(work)
    atexit.register(work)
    with suppress(RuntimeError):  # it is that late already
        getattr(threading, "_register_atexit")(work)  # noqa: B009  typeshed does not know it
