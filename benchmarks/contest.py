"""Contest: libraries search the same learning curves. What each finds, and how many epochs it needs."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.rows import Row, ratios
from benchmarks.searchers import EPOCH_S, GRID, PROMOTE, PROMOTE_PROCESS, RAY, SEARCHES, WORKERS
from benchmarks.trials import ask_once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.suite import Bench, Measured

WORKLOAD = "contest"
"""The name of the workload in the measurements."""
TRIALS, QUICK_TRIALS = 81, 27
TASKS = {
    "regret": "regret",
    "epochs": "epochs",
    "seconds": "wall clock, s",
    "overhead": "overhead of a trial, s",
}
"""The measured tasks and their headings. The regret is the loss above the best of the grid."""

_MS = 1e-3


def measure(bench: Bench, pythons: Mapping[str, str], trials: int) -> None:
    """Let each searcher search the same configurations once a round; each round has other ones.

    Args:
        bench: Where and how to measure.
        pythons: The interpreter of each library.
        trials: The number of configurations.
    """
    for round_ in bench.each_round(f"{WORKLOAD}: {trials} configurations"):
        best = 0.0
        for name, (library, _) in SEARCHES.items():
            if library not in pythons or library in bench.measured.failed:
                continue
            words = "benchmarks.searchers", name, str(round_), str(trials)
            if (answer := ask_once(bench, library, pythons[library], *words)) is None:
                continue
            best = answer["best"] if name == GRID else best
            answer["regret"] = answer["best"] - best
            answer["overhead"] = (answer["seconds"] - answer["epochs"] * EPOCH_S / WORKERS) / trials
            for task in TASKS:
                bench.measured.seconds[WORKLOAD, name, task].append(answer[task])


def contest_rows(measured: Measured) -> list[Row]:
    """Return the rows of promotion beside Ray Tune's ASHA: epochs, regret and overhead."""

    def samples(name: str, task: str) -> list[float]:
        return measured.seconds.get((WORKLOAD, name, task), [])

    def overhead(label: str, name: str) -> Row:
        ours, theirs = samples(name, "overhead"), samples(RAY, "overhead")
        note = f"{median(ours) / _MS:.0f} ms" if ours else ""
        return Row.of(label, "Ray Tune", ratios(ours, theirs), 1, note)

    regrets = zip(samples(PROMOTE, "regret"), samples(RAY, "regret"), strict=False)
    spent, whole = samples(PROMOTE, "epochs"), samples(GRID, "epochs")
    note = f"{median(ratios(spent, whole)):.0%} of the grid" if spent and whole else ""
    return [
        Row.of("epochs of ASHA by promotion", "Ray Tune", ratios(spent, samples(RAY, "epochs")), 1, note),
        Row.of("- its regret", "loss above Ray Tune's", [ours - theirs for ours, theirs in regrets], 0),
        overhead("- overhead of a trial", PROMOTE),
        overhead("- overhead of a trial in a process", PROMOTE_PROCESS),
    ]
