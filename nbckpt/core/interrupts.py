"""Interrupts: Ctrl-C and Stop wait until what belongs together is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let an interrupt wait for the end of the block, and a second one end the block at once.

    Only the main thread is interrupted: elsewhere this does nothing.
    """
    former = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(former):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []

    def wait(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))
        signal.signal(number, former)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        for number, frame in came:
            former(number, frame)
