"""Histories: the time of a save and a restore by name if the name has many versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.starts import run_python
from benchmarks.suite import OURS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.suite import Measured

WORKLOAD = "history"
"""The name of the workload in the measurements."""
FEW, MANY, QUICK = 10, 3000, 300
"""The number of versions of the name: few, many, and many in a quick run."""

_STORE = """
import sys, nbckpt
tracker = nbckpt.Tracker(sys.argv[1])
for number in range(int(sys.argv[2])):
    tracker.save({"x": number}, "x")
"""
_TASKS = """
import sys, time, nbckpt
tracker = nbckpt.Tracker(sys.argv[1])
tracker.restore("x", {})
tracker.save({"x": 0}, "y")
began = time.perf_counter()
tracker.restore("x", {})
between = time.perf_counter()
tracker.save({"x": 1}, "x")
print(between - began, time.perf_counter() - between)
"""


def measure(measured: Measured, folder: Path, rounds: int, many: int, say: Callable[[str], None]) -> None:
    """Measure a save and a restore with few and with many versions, and add the times to *measured*.

    Args:
        measured: The measurements so far.
        folder: A folder on the disk to measure; files made in it are removed again.
        rounds: The number of rounds.
        many: The larger number of versions.
        say: Called with messages about the progress.
    """
    for name, versions in (("few", FEW), ("many", many)):
        say(f"history: {versions} versions")
        run_python(folder, "-c", _STORE, name, str(versions))
    for round_ in range(rounds):
        say(f"history {round_ + 1}/{rounds}")
        for name in ("few", "many"):
            restore, save = map(float, run_python(folder, "-c", _TASKS, name).split()[-2:])
            measured.seconds[WORKLOAD, OURS, f"restore, {name}"].append(restore)
            measured.seconds[WORKLOAD, OURS, f"save, {name}"].append(save)
