"""Kept: a cell whose result is kept is restored, compared with a plain restore of the same variables."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from benchmarks.suite import OURS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.suite import Measured

WORKLOAD = "kept"
"""The name of the workload in the measurements."""

PLAIN = "nbckpt, restore"

_CELL = """%%ckpt cell result --store {store!r}
import numpy as np
random = np.random.default_rng(0)
a, b, c, d = (random.random({numbers}) for _ in range(4))
del random
print("computed")
"""


def measure(measured: Measured, folder: Path, rounds: int, size_mib: int, say: Callable[[str], None]) -> None:
    """Measure both restores in turn, and add the times to *measured*.

    Args:
        measured: The measurements so far.
        folder: The folder for the store, on the disk to measure.
        rounds: The number of rounds.
        size_mib: The size of the four arrays together.
        say: Called with messages about the progress.
    """
    from IPython.core.interactiveshell import InteractiveShell

    from nbckpt import Tracker

    os.environ.setdefault("NBCKPT_SECRET_FILE", str(folder / "secret"))
    shell = InteractiveShell.instance(colors="nocolor")
    shell.history_manager.enabled = False
    shell.run_cell("%load_ext nbckpt")
    cell = _CELL.format(store=str(folder / WORKLOAD), numbers=size_mib << 15)
    say(f"{WORKLOAD}: the cell runs")
    shell.run_cell(cell)
    names = {name: shell.user_ns[name] for name in "abcd"}
    Tracker(folder / WORKLOAD).save(names, "plain")
    names.clear()
    for round_ in range(rounds):
        say(f"{WORKLOAD} {round_ + 1}/{rounds}")
        for contender in (OURS, PLAIN):
            for name in "abcd":
                shell.user_ns.pop(name)
            began = time.perf_counter()
            if contender == OURS:
                shell.run_cell(cell)
            else:
                with Tracker(folder / WORKLOAD) as tracker:
                    tracker.restore("plain", shell.user_ns)
            measured.seconds[WORKLOAD, contender, "restore"].append(time.perf_counter() - began)
    shell.run_cell("%unload_ext nbckpt")
    InteractiveShell.clear_instance()
