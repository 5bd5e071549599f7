"""Unwritten: saves of arrays that nobody wrote to, or of which 1 % was written, since the save before.

Each is measured with Linux's page record and with it turned off. The floor is one file with the bytes of the
manifest, or with the bytes that changed, written durably: a file and its folder are synced.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.suite import OURS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.suite import Bench, Measured

WORKLOAD = "unwritten"
"""The name of the workload in the measurements."""
FLOOR, HASHING = "written durably", "nbckpt, hashing"

_SWITCH = "NBCKPT_PAGE_RECORD"


def measure(bench: Bench, size_mib: int) -> None:
    """Measure saves after nothing, and after 1 % of an array, was written; add the times.

    Args:
        bench: Where and how to measure.
        size_mib: The size of the four arrays together. The array that changes has half of it.
    """
    from nbckpt import Tracker
    from nbckpt.core.memory.pages import page_record

    if why := page_record().why_off:
        bench.say(f"{WORKLOAD}: no page record here: {why}")
        return
    os.environ.setdefault("NBCKPT_SECRET_FILE", str(bench.folder / "secret"))
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {f"a{at}": random.random(size_mib << 15) for at in range(4)}
    changing = {"array": random.random(size_mib << 16)}
    part = len(changing["array"]) // 100
    with Tracker(bench.folder / WORKLOAD) as tracker:
        for names in (arrays, changing) * 2:
            tracker.save(names, "x")
        for round_ in bench.each_round(WORKLOAD):
            for contender in (OURS, HASHING):
                os.environ[_SWITCH] = "1" if contender == OURS else "0"
                _add(bench.measured, contender, "again", lambda: tracker.save(arrays, "x"))
                start = (2 * round_ + (contender == OURS)) * part % (len(changing["array"]) - part)
                changing["array"][start : start + part] += 1
                _add(bench.measured, contender, "changed", lambda: tracker.save(changing, "x"))
            del os.environ[_SWITCH]
            manifest = tracker.history.raw(tracker.find("latest"))
            for task, data in (("again", manifest), ("changed", bytes(part * 8))):
                _add(bench.measured, FLOOR, task, lambda data=data: write(data, bench.folder / "floor"))


def _add(measured: Measured, contender: str, task: str, work: Callable[[], object]) -> None:
    began = time.perf_counter()
    work()
    measured.seconds[WORKLOAD, contender, task].append(time.perf_counter() - began)


def write(data: bytes, file: Path) -> None:
    """Write a file so that it survives a power cut."""
    file.unlink(missing_ok=True)
    with file.open("wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    folder = os.open(file.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
