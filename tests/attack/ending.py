"""A kernel that is asked to end at each line of the code that notes a cell, and the state after it.

    python -m attack.ending FOLDER STEP

A fork of the kernel runs a cell. SIGTERM comes before one line, and every STEP-th line is tried. Each line
printed is the number of the cell whose state is left.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from lines import at_line

from attack.dying import Kernel, is_ended
from nbckpt.cells.analysis import Touched
from nbckpt.timeline import auto, pending, recorder, step
from nbckpt.tracker import Tracker

NUMBER = Touched(frozenset({"number"}))


def term() -> None:
    sys.settrace(None)
    os.kill(os.getpid(), signal.SIGTERM)


def is_asked_to_end(kernel: Kernel, number: int, at: int) -> bool:
    """Run a cell in a fork that gets the signal before a line. Return False if it comes to fewer lines."""

    def run() -> None:
        kernel.auto._rescue._process = os.getpid()  # a fork is not the kernel, but this one is
        kernel.names["number"] = number
        with at_line(at, term, auto, pending, recorder, step):
            kernel.auto.after_cell(1.0, NUMBER, {})
            kernel.auto.before_cell(NUMBER)
        kernel.auto.wait()

    return is_ended(run, signal.SIGTERM)


def main(folder: Path, every: int) -> None:
    kernel = Kernel(folder)
    at, comes = 1, True
    while comes:
        kernel.auto.before_cell(NUMBER)
        comes = is_asked_to_end(kernel, at, at)
        names: dict[str, Any] = {}
        Tracker(folder).restore("latest", names)
        print(names["number"], flush=True)
        at += every


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
