"""Travel: cells with a point after each, beside large arrays; undo; a loop; three notebooks.

The shells run in processes of their own: with Linux's page record, and with it forced off.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import cells
from benchmarks.rows import Row, ratios
from benchmarks.starts import run_python
from benchmarks.suite import OURS
from benchmarks.unwritten import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.suite import Bench, Measured

WORKLOAD = "travel"
"""The name of the workload in the measurements."""
HASHING, FLOOR, WITHOUT = "nbckpt, hashing", "written durably", "without auto"
ALLOWED = "allowed by the budget"
NOTEBOOKS = Path(__file__).parent / "notebooks"

ROUNDS, QUICK_ROUNDS = 3, 1
"""How often each notebook is run, with auto and without."""
_SWITCH = "NBCKPT_PAGE_RECORD"
_SHARE, _LEAST_S = 0.05, 0.02
"""What `%ckpt auto on` allows: a share of the time of the cells, and at least some seconds for each."""
_LABELS = {"small": "a small cell beside large arrays", "changed": "1 % of a large array changed"}
_PAUSE_MS, _DURABLE_MS = {"small": 2.0, "changed": 5.0}, {"small": 5.0, "changed": 25.0}
_UNDO_MS, _MS = 5.0, 1e-3
_DURABLE = {"small": 8.0, "changed": 5.0}
_SHELL = """
import json, os, sys, time
from pathlib import Path
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(colors="nocolor")
shell.history_manager.enabled = False
ended = []
shell.events.register("post_run_cell", lambda result: ended.append(time.perf_counter()))
points = Path(os.environ.get("NBCKPT_STORE", ".nbckpt"), "points")

def run(cell):
    began = time.perf_counter()
    shell.run_cell(cell, store_history=True, silent=False).raise_error()
    return time.perf_counter() - began
"""
_CELLS = """
def made():
    return len(os.listdir(points))

def timed(cell):
    # Return the pause after a cell, and when its point is on the disk.
    before = made()
    run(cell)
    pause = time.perf_counter() - ended[-1]
    while made() == before:
        time.sleep(0.0001)
    durable = time.perf_counter() - ended[-1]
    time.sleep(0.2)
    return pause, durable

rounds, mib = map(int, sys.argv[1:])
run("%load_ext nbckpt")
run("import numpy as np")
run("%ckpt auto on --budget 100000%;")
run("random = np.random.default_rng(0)")
run(f"a, b, c, d = (random.random({mib << 15}) for _ in range(4)); del random")
run(f"array = np.random.default_rng(1).random({mib << 16}); part = len(array) // 100")
seconds = {}
for number in range(rounds + 2):
    times = {}
    times["small, pause"], times["small, durable"] = timed(f"small = [{number}]")
    times["changed, pause"], times["changed, durable"] = timed(
        f"array[{number} * part : {number + 1} * part] += 1"
    )
    times["undo"] = run("%ckpt undo;")
    run("%ckpt redo;")
    if number > 1:  # the first ones load modules, and are hashed anew
        for task, took in times.items():
            seconds.setdefault(task, []).append(took)
print(json.dumps(seconds))
"""
_MIXED = """
def made():
    return len(os.listdir(points))

source, *changes = json.loads(sys.argv[1])
run("%load_ext nbckpt")
run(source)
run("%ckpt auto on --budget 100000%;")
seconds = []
for change in changes:
    before = made()
    run(change)
    while made() == before:
        time.sleep(0.0001)
    seconds.append(time.perf_counter() - ended[-1])
    time.sleep(0.5)
print(json.dumps(seconds[1:]))
"""
_LOOP = """
import builtins
rounds, count = map(int, sys.argv[1:])
run("%load_ext nbckpt")
run("value = 1; others = list(range(1000))")
run("%ckpt auto on --budget 100000%;")
loop = f'''
import time
began = time.perf_counter()
for _ in range({count}):
    value; others; value
import builtins
builtins.took = time.perf_counter() - began
'''
seconds = {"on": [], "off": []}
switches = ["on --budget 100000%", "off"]
for number in range(rounds):
    for switch in switches[:: -1 if number % 2 else 1]:
        run(f"%ckpt auto {switch};")
        run(loop)
        seconds[switch[:3].strip()].append(builtins.took)
print(json.dumps(seconds))
"""
_NOTEBOOK = """
name, switch = sys.argv[1:]
cells = [cell for cell in json.loads(Path(name).read_text())["cells"] if cell["cell_type"] == "code"]
first, *others = ["".join(cell["source"]) for cell in cells]
run(first)
if switch == "on":
    run("%load_ext nbckpt")
    run("%ckpt auto on;")
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()):
    took = sum(map(run, others))
    if switch == "on":
        run("%ckpt auto off;")  # waits for the last point
size = sum(path.stat().st_size for path in points.parent.rglob("*") if path.is_file())
made = len(os.listdir(points)) if switch == "on" else 0
print(json.dumps({"took": took, "size": size, "made": made, "cells": len(others)}))
"""
_PICKLES = """
import contextlib, io
import cloudpickle
size = 0
cells = [cell for cell in json.loads(Path(sys.argv[1]).read_text())["cells"] if cell["cell_type"] == "code"]
hidden = {*shell.user_ns}
for cell in cells:
    with contextlib.redirect_stdout(io.StringIO()):
        run("".join(cell["source"]))
    kept = {name: value for name, value in shell.user_ns.items() if name not in hidden and name[0] != "_"}
    size += len(cloudpickle.dumps(kept))
print(json.dumps(size))
"""


def measure(bench: Bench, sizes: tuple[int, int]) -> None:
    """Measure what points after cells take, and add the times.

    Args:
        bench: Where and how to measure.
        sizes: The size of the four arrays beside the cells, in MiB; the array that changes has half of it.
            And how often each notebook is run.
    """
    size_mib, sessions = sizes
    for contender, record in ((OURS, "1"), (HASHING, "0")):
        bench.say(f"{WORKLOAD}: cells, {contender}")
        seconds = _run(
            bench.folder, _CELLS, str(bench.rounds), str(size_mib), record=record, store=f"travel-{record}"
        )
        for task, samples in seconds.items():
            bench.measured.seconds[WORKLOAD, contender, task] += samples
    for _ in range(bench.rounds):
        for task, size in (("small", 8192), ("changed", (size_mib << 19) // 100)):
            began = time.perf_counter()
            write(os.urandom(size), bench.folder / "floor")
            bench.measured.seconds[WORKLOAD, FLOOR, task].append(time.perf_counter() - began)
    bench.say(f"{WORKLOAD}: 1 % of the mixed namespace changed")
    mixed = cells.mixed(size_mib)
    changes = [mixed.change(round_)[0] for round_ in range(bench.rounds + 1)]
    program = json.dumps([mixed.source, *changes])
    bench.measured.seconds[WORKLOAD, OURS, "mixed"] += _run(bench.folder, _MIXED, program, store="mixed")
    bench.say(f"{WORKLOAD}: a loop")
    seconds = _run(bench.folder, _LOOP, str(4 * bench.rounds + 1), str(min(size_mib, 512) * 40_000))
    for switch, name in (("on", OURS), ("off", WITHOUT)):
        bench.measured.seconds[WORKLOAD, name, "loop"] += seconds[switch]
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        bench.say(f"{WORKLOAD}: {notebook.stem}")
        _measure_notebook(bench.measured, bench.folder, sessions, notebook)


def _run(folder: Path, program: str, *words: str, record: str = "1", store: str = "travel") -> Any:
    """Run a program in a new shell, with a new store. Return what it prints as JSON."""
    own = {"NBCKPT_SECRET_FILE": str(folder / "secret"), "NBCKPT_STORE": str(folder / store)}
    output = run_python(folder, "-c", _SHELL + program, *words, **own, **{_SWITCH: record})
    return json.loads(output.splitlines()[-1])


def _measure_notebook(measured: Measured, folder: Path, rounds: int, notebook: Path) -> None:
    pickled = _run(folder, _PICKLES, str(notebook))
    for round_ in range(rounds):
        for switch, name in (("on", OURS), ("off", WITHOUT)):
            store = f"{notebook.stem}-{switch}{round_}"
            done = _run(folder, _NOTEBOOK, str(notebook), switch, store=store)
            measured.seconds[WORKLOAD, name, notebook.stem].append(done["took"])
            allowed = max(_SHARE * done["took"], _LEAST_S * done["cells"])
            measured.seconds[WORKLOAD, ALLOWED, notebook.stem] += [allowed] if switch == "off" else []
            if switch == "on":
                measured.growth[f"{WORKLOAD}, {notebook.stem}"].append(done["size"] / pickled)


def travel_rows(measured: Measured) -> list[Row]:
    """Return the rows of the budgets."""

    def samples(name: str, task: str) -> list[float]:
        return measured.seconds.get((WORKLOAD, name, task), [])

    rows = [row for task in _LABELS for row in _cell_rows(task, samples)]
    undo, hashing = samples(OURS, "undo"), samples(HASHING, "undo")
    loop = median(samples(OURS, "loop")) / median(samples(WITHOUT, "loop")) if samples(OURS, "loop") else None
    kishu = measured.seconds.get(("mixed", "kishu", "changed"), [])
    rows += [
        Row.of(
            "1 % of the mixed namespace changed, durable",
            "kishu",
            ratios(samples(OURS, "mixed"), kishu),
            1 / 500,
        ),
        Row.of("undo of 1 % of a large array", "ms", _ms(undo), _UNDO_MS),
        Row.of("- the same", "without the page record", ratios(undo, hashing), 1.0),
        Row.of("- with the page record forced off", "ms", _ms(hashing), _UNDO_MS),
        Row("a tight loop of global lookups", "the same without auto", loop, loop, loop, 1.01),
    ]
    for notebook in sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")):
        both = zip(samples(OURS, notebook), samples(WITHOUT, notebook), strict=True)
        added = [on - off for on, off in both]
        growth = measured.growth.get(f"{WORKLOAD}, {notebook}", [])
        rows += [
            Row.of(
                f"time that auto adds to the notebook {notebook}",
                "what its budget allows",
                ratios(added, samples(ALLOWED, notebook)),
                1.0,
            ),
            Row.of("- bytes of all points", "pickles of all cells", growth, 0.5),
        ]
    return rows


def _cell_rows(task: str, samples: Callable[[str, str], list[float]]) -> Iterator[Row]:
    pause, durable = samples(OURS, f"{task}, pause"), samples(OURS, f"{task}, durable")
    yield Row.of(f"{_LABELS[task]}, pause", "ms", _ms(pause), _PAUSE_MS[task])
    yield Row.of("- durable", "ms", _ms(durable), _DURABLE_MS[task])
    floor, hashing = samples(FLOOR, task), samples(HASHING, f"{task}, durable")
    yield Row.of("- durable", "the new bytes, durable", ratios(durable, floor), _DURABLE[task])
    yield Row.of("- durable", "without the page record", ratios(durable, hashing), 1.0)
    off = _ms(samples(HASHING, f"{task}, pause"))
    yield Row.of("- pause, with the page record forced off", "ms", off, _PAUSE_MS[task])
    yield Row.of("- durable, with the page record forced off", "ms", _ms(hashing), _DURABLE_MS[task])


def _ms(samples: Sequence[float]) -> list[float]:
    return [seconds / _MS for seconds in samples]
