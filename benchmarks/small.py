"""Small: 5,000 variables of a few bytes each, compared with cloudpickle for each variable alone.

The floor is to pickle, hash and write them, or to pickle, hash and load them. Processor times are compared:
the disk's time for `fsync` does not count.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import cloudpickle

from benchmarks.suite import OURS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.suite import Bench, Measured
    from nbckpt import Tracker

WORKLOAD = "small"
"""The name of the workload in the measurements."""
ALONE = "each alone"
WITHOUT = "without provenance"

_COUNT = 5000
_SAVES = 10


def measure(bench: Bench) -> None:
    """Measure small saves and restores, and what provenance adds, and add the times."""
    from nbckpt import Tracker

    os.environ.setdefault("NBCKPT_SECRET_FILE", str(bench.folder / "secret"))
    kinds: list[Callable[[int], Any]] = [int, str, lambda at: [at, at / 2], lambda at: {"at": at}]
    variables = {f"v{at}": kinds[at % len(kinds)](at) for at in range(_COUNT)}
    with Tracker(bench.folder / "small") as tracker:
        for round_ in bench.each_round("small"):
            variables["v0"] = round_
            steps: dict[tuple[str, str], Callable[[], Any]] = {
                (OURS, "save"): lambda: tracker.save(variables, "small"),
                (ALONE, "save"): lambda: _save(variables, bench.folder / "alone"),
                (OURS, "restore"): lambda: tracker.restore("small", {}),
                (ALONE, "restore"): lambda: list(map(pickle.loads, _pickled(variables))),
            }
            _with_and_without_provenance(bench.measured, tracker, bench.folder)
            for (name, step), work in steps.items():
                began = time.process_time()
                work()
                bench.measured.seconds[WORKLOAD, name, step].append(time.process_time() - began)


def _with_and_without_provenance(measured: Measured, tracker: Tracker, folder: Path) -> None:
    """Add the median times of a small save and of a trial's start, each with provenance and without."""
    from nbckpt import track

    samples: dict[tuple[str, str], list[float]] = {}
    for kept in (True, False) * _SAVES:
        name = OURS if kept else WITHOUT
        began = time.perf_counter()
        tracker.save({"x": 1}, "one", provenance=kept)
        saved = time.perf_counter()
        trial = track("one", folder=folder / "experiments", provenance=kept)
        samples.setdefault((name, "start"), []).append(time.perf_counter() - saved)
        samples.setdefault((name, "provenance"), []).append(saved - began)
        trial.finish()
    for (name, task), seconds in samples.items():
        measured.seconds[WORKLOAD, name, task].append(median(seconds))


def _pickled(variables: dict[str, Any]) -> list[bytes]:
    pickles = [cloudpickle.dumps(value) for value in variables.values()]
    for record in pickles:
        hashlib.blake2b(record).digest()
    return pickles


def _save(variables: dict[str, Any], path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"".join(_pickled(variables)))
        file.flush()
        os.fsync(file.fileno())
