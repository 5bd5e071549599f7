"""Points beside another process that pushes and collects the same store all the time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nbckpt.store import LocalStore
from nbckpt.timeline.retention import Limits
from nbckpt.tracker import Tracker
from timeline.graph import graph
from timeline.test_retention import Kernel, join

OTHER = """
import itertools
from pathlib import Path
from nbckpt.cli import main

for number in itertools.count(1):
    for line in (["push", "elsewhere"], ["gc"]):
        if status := main(line):
            raise SystemExit(status)
    Path(f"round-{number}").touch()
    if Path("end").exists():
        break
"""
ROUNDS = 3
CELLS = (
    "arrays[{0} % 5] = np.random.default_rng({0}).integers(0, 256, 30_000, dtype=np.uint8)",
    "view = arrays[{0} % 5][{0} % 7 :]; both = [view, arrays]",
    "view[{0} % 99] ^= 1",
    "text = str({0}) * 2000; small = {{'n': {0}, 'view': view}}",
)


@contextmanager
def ended(folder: Path) -> Iterator[None]:
    """Tell the other process to end, also after a failure: the test waits for it."""
    try:
        yield
    finally:
        (folder / "end").touch()


@pytest.mark.slow
def test_points_are_whole_beside_a_push_and_gc_elsewhere(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / ".nbckpt")
    kernel, copies, saved, number = Kernel(store, Limits(keep=12)), dict[str, Any](), dict[str, Any](), 0
    kernel.run("import numpy as np; arrays = [np.zeros(9, np.uint8)] * 5; view = arrays[0]")
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NBCKPT_STORE": ".nbckpt"}
    with subprocess.Popen([sys.executable, "-c", OTHER], cwd=tmp_path, env=env) as other, ended(tmp_path):
        while not (tmp_path / f"round-{ROUNDS}").exists():
            assert other.poll() is None
            kernel.begin(CELLS[number % len(CELLS)].format(number))
            assert not kernel.auto.trouble()
            copies.setdefault(kernel.here(), graph(kernel.names))
            number += 1
            if number % 10 == 0:
                names = {name: value for name, value in kernel.names.items() if name[0] != "_"}
                saved[Tracker(store).save(names, "best").manifest.id] = graph(names)
    assert other.returncode == 0
    join()
    points = kernel.ids()
    assert len(points) == 12
    for point in points:
        kernel.auto.ready().checkout(point, {})
        assert graph(kernel.names) == copies[point]
    assert_whole(LocalStore(tmp_path / "elsewhere"), saved)


def assert_whole(pushed: LocalStore, saved: dict[str, Any]) -> None:
    """Check all checkpoints that were pushed."""
    tracker = Tracker(pushed)
    assert tracker.verify().damages == []
    entries = tracker.entries()
    assert entries
    for entry in entries:
        names: dict[str, Any] = {}
        tracker.restore(entry.id, names)
        assert graph(names) == saved[entry.id]
