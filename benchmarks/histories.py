"""Histories: the time of a save and a restore by name if the name has many versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.starts import run_python
from benchmarks.suite import OURS

if TYPE_CHECKING:
    from benchmarks.suite import Bench

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


def measure(bench: Bench, many: int) -> None:
    """Measure a save and a restore with few and with many versions, and add the times.

    Args:
        bench: Where and how to measure.
        many: The larger number of versions.
    """
    for name, versions in (("few", FEW), ("many", many)):
        bench.say(f"history: {versions} versions")
        run_python(bench.folder, "-c", _STORE, name, str(versions))
    for _ in bench.each_round("history"):
        for name in ("few", "many"):
            restore, save = map(float, run_python(bench.folder, "-c", _TASKS, name).split()[-2:])
            bench.measured.seconds[WORKLOAD, OURS, f"restore, {name}"].append(restore)
            bench.measured.seconds[WORKLOAD, OURS, f"save, {name}"].append(save)
