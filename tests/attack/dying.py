"""A kernel that is killed at each writing system call of an automatic point, and the kernel after it.

    python -m attack.dying FOLDER STEP

A fork of the kernel runs a cell and makes its point. It is killed before one call, and every STEP-th call is
tried. Each line printed is the number of the cell whose state the next kernel found.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from attack.syscalls import CALLS, Faults
from nbckpt.cells.analysis import Touched
from nbckpt.commands import TABLE, Session, parse
from nbckpt.core.gc import collect
from nbckpt.mirror import AutoMirror
from nbckpt.notebook.points import last_state
from nbckpt.timeline.auto import Auto
from nbckpt.timeline.retention import Limits
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker

FIRST = 3
"""The number of cells before the one whose point is not finished."""

_READS = {"read", "scandir", "listdir", "stat", "lstat", "fstat"}
_WRITES = {module: tuple(name for name in names if name not in _READS) for module, names in CALLS.items()}


class Kernel:
    """A kernel with a point after each cell, of which two are kept."""

    def __init__(self, folder: Path) -> None:
        self.tracker = Tracker(folder)
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.auto = Auto(Timeline(self.tracker, self.names, frozenset))
        self.auto.turn_on(Limits(budget=1e9, keep=2), {})

    def run(self, number: int) -> None:
        """Run a cell, and wait for its point and for the removal of old ones."""
        noise = np.random.default_rng(number).integers(0, 256, 20_000, dtype=np.uint8)
        self.names |= {"number": number, "noise": noise, "same": np.zeros(100_000)}
        self.auto.after_cell(1.0, Touched(frozenset({"number", "noise"})), {})
        self.auto.settle()
        for thread in threading.enumerate():
            if thread.name == "nbckpt-point":
                thread.join()
        assert not self.auto.trouble()

    def ask(self, *words: str) -> Any:
        session = Session(self.tracker, AutoMirror(self.tracker.store), self.names, points=self.auto)
        return parse(TABLE, list(words), "%ckpt").run(session)

    def state(self) -> int:
        """Check that all variables are of one cell, and return its number."""
        number: int = self.names["number"]
        noise = np.random.default_rng(number).integers(0, 256, 20_000, dtype=np.uint8)
        assert np.array_equal(self.names["noise"], noise)
        assert not self.names["same"].any()
        return number


def die() -> NoReturn:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("the process goes on")


def half(fd: int, views: Any) -> int:
    """Write the first half of large data, as the system may do: a kill at the next call leaves that."""
    end = len(views[0]) // 2 if len(views[0]) > 1000 else None
    return os.write(fd, views[0][:end])


def is_ended(work: Callable[[], object], number: signal.Signals) -> bool:
    """Do work in a fork, and tell whether a signal ended it. Nothing else may end it."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in {0, -number}, f"it ended with {ended}"
    return ended != 0


def is_killed(kernel: Kernel, at: int) -> bool:
    """Run a cell in a fork that dies at a call. Return False if it makes fewer calls."""

    def run() -> None:
        os.writev = half
        with Faults(at, die, calls=_WRITES):
            kernel.run(FIRST)

    return is_ended(run, signal.SIGKILL)


def offered_cell(folder: Path) -> int:
    """Look at what is left and continue, as the next kernel does. Return the number of the offered cell."""
    offered = last_state(Tracker(folder)).rpartition(" ")[2]
    kernel = Kernel(folder)
    assert offered in str(kernel.ask("history"))
    assert kernel.ask("doctor").exit_status == 0
    assert kernel.tracker.verify().damages == []
    kernel.ask("checkout", offered)
    number = kernel.state()
    kernel.run(number + 1)
    here = kernel.auto.timeline.here
    assert here is not None
    assert here.manifest.parent.startswith(offered)
    collect(kernel.tracker.history, wait=lambda _: None)
    kernel.ask("undo")
    assert kernel.state() == number
    names: dict[str, Any] = {}
    assert kernel.tracker.restore(here.manifest.id, names).failed == ()
    assert names["number"] == number + 1
    return number


def main(folder: Path, step: int) -> None:
    store, whole = folder / "store", folder / "whole"
    kernel = Kernel(store)
    for number in range(FIRST):
        kernel.run(number)
    shutil.copytree(store, whole)
    at, is_dead = 1, True
    while is_dead:
        is_dead = is_killed(kernel, at)
        print(offered_cell(store), flush=True)
        shutil.rmtree(store)
        shutil.copytree(whole, store)
        at += step


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
