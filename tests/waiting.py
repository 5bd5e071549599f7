"""Waiting until something holds that nothing else tells of."""

from __future__ import annotations

import threading
from collections.abc import Callable

SECONDS = 60


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; it is looked at every few milliseconds."""
    turn = threading.Event()
    for _ in range(SECONDS * 200):
        if holds():
            return
        turn.wait(0.005)
    raise AssertionError("it did not come to hold")
