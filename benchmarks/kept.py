"""Kept: a cell whose result is kept is restored, compared with a plain restore of the same variables."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from benchmarks.suite import OURS

if TYPE_CHECKING:
    from benchmarks.suite import Bench

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


def measure(bench: Bench, size_mib: int) -> None:
    """Measure both restores in turn, and add the times.

    Args:
        bench: Where and how to measure.
        size_mib: The size of the four arrays together.
    """
    from IPython.core.interactiveshell import InteractiveShell

    from nbckpt import Tracker

    os.environ.setdefault("NBCKPT_SECRET_FILE", str(bench.folder / "secret"))
    shell = InteractiveShell.instance(colors="nocolor")
    shell.history_manager.enabled = False
    shell.run_cell("%load_ext nbckpt")
    cell = _CELL.format(store=str(bench.folder / WORKLOAD), numbers=size_mib << 15)
    bench.say(f"{WORKLOAD}: the cell runs")
    shell.run_cell(cell)
    names = {name: shell.user_ns[name] for name in "abcd"}
    Tracker(bench.folder / WORKLOAD).save(names, "plain")
    names.clear()
    for _ in bench.each_round(WORKLOAD):
        for contender in (OURS, PLAIN):
            for name in "abcd":
                shell.user_ns.pop(name)
            began = time.perf_counter()
            if contender == OURS:
                shell.run_cell(cell)
            else:
                with Tracker(bench.folder / WORKLOAD) as tracker:
                    tracker.restore("plain", shell.user_ns)
            bench.measured.seconds[WORKLOAD, contender, "restore"].append(time.perf_counter() - began)
    shell.run_cell("%unload_ext nbckpt")
    InteractiveShell.clear_instance()
