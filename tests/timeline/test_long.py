"""Many cells in one kernel: what they leave in memory, in the process and in the store is bounded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attack import share

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = """
import gc, json, os, sys, threading, time
from pathlib import Path
from IPython.core.interactiveshell import InteractiveShell

limit, cells = sys.argv[1], int(sys.argv[2])
os.fsync = lambda descriptor: None  # thousands of points would wait for the disk
shell = InteractiveShell.instance(colors="nocolor")
shell.history_manager.enabled = False
shell.displayhook.flush = lambda: None

def run(cell):
    shell.run_cell(cell, store_history=True).raise_error()

def look():
    # The point of the last cell is written in the background: its threads end by themselves.
    lasting = {"MainThread", "IPythonHistorySavingThread", "nbckpt-point-at-end"}
    until = time.monotonic() + 60
    while {thread.name for thread in threading.enumerate()} - lasting and time.monotonic() < until:
        time.sleep(0.01)
    gc.collect()
    open_files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    memory = Path("/proc/self/statm")
    pages = int(memory.read_text().split()[1]) if memory.exists() else 0
    return {
        "files": open_files,
        "threads": threading.active_count(),
        "objects": len(gc.get_objects()),
        "memory": pages * os.sysconf("SC_PAGE_SIZE") if pages else 0,
    }

CELLS = (
    "numbers[{0} % 1000] = {0}",
    "table['{0}'] = [{0}]; table.pop('{1}', None)",
    "array[{0} % len(array)] += 1",
    "def double(x): return 2 * x + {0}",
    "view = array[{0} % 100 :]",
    "array.sum(), double(3), len(numbers)",
    "noise = random.Random({0}).randbytes(20_000)",
)
run("%load_ext nbckpt")
run("import numpy as np, random")
run(f"%ckpt auto on --budget 1000000% {limit};")
run("numbers = list(range(1000)); table = {}; array = np.zeros(100_000); view = array")
looks = []
for number in range(cells):
    run(CELLS[number % len(CELLS)].format(number, number - 70))
    if number in (cells // 4, cells - 1):
        looks.append(look())
run("%ckpt undo 7;")
values = [shell.user_ns["view"] is not None, len(shell.user_ns["table"])]
run("%ckpt redo 7;")
run("%ckpt auto off;")
print(json.dumps({"looks": looks, "values": values}))
"""


def run(folder: Path, limit: str, cells: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, limit, str(cells)],
        cwd=folder,
        env=os.environ | {"NBCKPT_PROVENANCE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def points(folder: Path) -> list[Path]:
    return list((folder / ".nbckpt" / "points").iterdir())


def test_many_cells_stay_within_bounds(tmp_path: Path) -> None:
    answer = run(tmp_path, "--keep 200", share.of(2000, 500))
    early, late = answer["looks"]
    assert len(points(tmp_path)) == 200
    assert late["files"] <= early["files"] + 2
    assert late["threads"] <= early["threads"]
    assert late["objects"] < early["objects"] + 10_000  # IPython keeps each cell's source
    assert late["memory"] < early["memory"] + (16 << 20)  # 8 MiB for 1,500 cells, of which IPython takes 2
    stored = sum(path.stat().st_size for path in (tmp_path / ".nbckpt" / "packs").rglob("*.pack"))
    assert stored < 150 << 20


def test_a_limit_of_bytes_bounds_the_points_of_many_cells(tmp_path: Path) -> None:
    run(tmp_path, "--max 2MB", share.of(500, 200))
    kept = [
        json.loads(path.read_text())["checkpoint"]["provenance"]["new_bytes"] for path in points(tmp_path)
    ]
    assert len(kept) > 8
    assert sum(kept) < 3_000_000
