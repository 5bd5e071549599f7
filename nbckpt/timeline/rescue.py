"""Rescue: what changed is saved before the process ends, while `%ckpt auto` is on.

jupyter_client and hubs kill a kernel 5 s after they asked it to end. So small variables go into a point of
their own first. The point of all variables follows and takes its place, if there is time for it.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from nbckpt.core.packs.pools import starts
from nbckpt.errors import NbckptError, visible

_AT_MOST_S = 30.0
_NAME = "nbckpt-point-at-end"

Handler = Callable[[int, FrameType | None], Any] | int | None


class Rescue:
    """Calls *save* on SIGTERM and at the end of the process, from `begin` until `end`.

    Args:
        save: Saves what changed. Its errors are printed.
        is_busy: Tells whether a point is being made just now. Then the process ends when that is done.
    """

    def __init__(self, save: Callable[[], None], is_busy: Callable[[], bool]) -> None:
        self._save, self._is_busy = save, is_busy
        self._former: Handler = None
        self._handles = False
        self._waiting: int | None = None
        self._process = os.getpid()
        self._thread: threading.Thread | None = None
        self._woken, self._is_end = threading.Event(), False

    def begin(self) -> None:
        """Wait for the end of the process. Only the main thread can handle signals."""
        atexit.register(self._at_exit)
        if self._thread is None:
            # Now: from Python 3.12 on, no thread can start once the process ends.
            thread = threading.Thread(target=self._wait, args=(self._woken,), name=_NAME, daemon=True)
            self._thread = thread if starts(thread) else None
        if threading.current_thread() is threading.main_thread() and not self._handles:
            self._former = signal.signal(signal.SIGTERM, self._on_signal)
            self._handles = True

    def end(self) -> None:
        """Wait no longer."""
        atexit.unregister(self._at_exit)
        self._thread = None
        self._woken.set()
        self._woken, self._is_end = threading.Event(), False
        if self._handles and signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if self._former is None else self._former)
        self._handles = False

    def point_is_made(self) -> None:
        """End the process if it was asked to end while a point was made."""
        if self._waiting is not None:
            self._on_signal(self._waiting, None)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._is_busy():
            self._waiting = number
            return
        if os.getpid() == self._process:
            self._try()  # in this thread, which may hold locks that saving needs
        self.end()
        os.kill(os.getpid(), number)  # as if nbckpt had not been there

    def _at_exit(self) -> None:
        if os.getpid() != self._process:
            return  # a fork has the handlers too, and its variables are not the notebook's
        thread = self._thread
        if thread is None:
            self._try()
            return
        self._is_end = True
        self._woken.set()
        thread.join(_AT_MOST_S)
        if thread.is_alive():
            say(f"the store did not answer for {_AT_MOST_S:.0f} s")

    def _wait(self, woken: threading.Event) -> None:
        """Save when the process ends; do nothing if `end` comes first."""
        woken.wait()
        if self._is_end and woken is self._woken:
            self._try()

    def _try(self) -> None:
        try:
            self._save()
        except (NbckptError, OSError) as error:
            say(str(error))


def say(why: str) -> None:
    """Write why the last state is not saved to the terminal."""
    sys.stderr.write(f"nbckpt: the last state is not saved: {visible(why)}\n")
