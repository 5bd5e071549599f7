"""Far: a restore from a store with slow answers, compared with the same answers one after another.

The floor is the sum of the times of all answers.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from benchmarks.cells import MIB
from benchmarks.suite import OURS

if TYPE_CHECKING:
    from benchmarks.suite import Bench

WORKLOAD = "far"
"""The name of the workload in the measurements."""
IN_A_ROW = "answers in a row"

_ANSWER_S = 0.05
_SIZE = 256 * MIB


def measure(bench: Bench) -> None:
    """Measure a restore of 256 MiB when each answer takes 50 ms, and add the times."""
    from nbckpt import Tracker
    from nbckpt.store import MemoryStore

    class Far(MemoryStore):
        """A store in memory that delays each read."""

        def __init__(self) -> None:
            super().__init__()
            self.reads = 0
            self.lock = threading.Lock()

        def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
            with self.lock:
                self.reads += 1
            time.sleep(_ANSWER_S)
            return super().get(key, start, stop)

    os.environ.setdefault("NBCKPT_SECRET_FILE", str(bench.folder / "secret"))
    import numpy as np

    store = Far()
    tracker = Tracker(store)
    tracker.save({"a": np.random.default_rng(0).random(_SIZE // 8)}, "far")
    for _ in bench.each_round("far"):
        store.reads = 0
        began = time.perf_counter()
        tracker.restore("far", {})
        bench.measured.seconds[WORKLOAD, OURS, "restore"].append(time.perf_counter() - began)
        bench.measured.seconds[WORKLOAD, IN_A_ROW, "restore"].append(store.reads * _ANSWER_S)
