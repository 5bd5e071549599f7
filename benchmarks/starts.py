"""Starts: the start-up time of `%load_ext nbckpt` and of a command in a shell."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.process import REPOSITORY
from benchmarks.suite import OURS

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.suite import Bench

WORKLOAD = "starts"
"""The name of the workload in the measurements."""
IPYTHON = "IPython"

_EXTENSION = """
import time
began = time.perf_counter()
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
between = time.perf_counter()
shell.run_line_magic("load_ext", "nbckpt")
print(between - began, time.perf_counter() - between)
"""
_STORE = "import nbckpt; t = nbckpt.Tracker('.nbckpt'); [t.save({'x': i}, 'x') for i in range(3)]"


def measure(bench: Bench) -> None:
    """Measure the start-up times, and add them."""
    run_python(bench.folder, "-c", _STORE)
    for words in (("-c", _EXTENSION), ("-m", "nbckpt", "ls")):  # once, to compile the bytecode
        run_python(bench.folder, *words)
    for _ in bench.each_round("starts"):
        there, ours = map(float, run_python(bench.folder, "-c", _EXTENSION).split()[-2:])
        bench.measured.seconds[WORKLOAD, IPYTHON, "import"].append(there)
        bench.measured.seconds[WORKLOAD, OURS, "load_ext"].append(ours)
        bench.measured.seconds[WORKLOAD, IPYTHON, "process"].append(
            _timed(bench.folder, "-c", "import IPython")
        )
        bench.measured.seconds[WORKLOAD, OURS, "ls"].append(_timed(bench.folder, "-m", "nbckpt", "ls"))


def _timed(folder: Path, *words: str) -> float:
    began = time.perf_counter()
    run_python(folder, *words)
    return time.perf_counter() - began


def run_python(folder: Path, *words: str, **variables: str) -> str:
    """Run Python in a folder, with more environment variables, and return its output."""
    environment = os.environ | {
        "PYTHONPATH": str(REPOSITORY),
        "IPYTHONDIR": str(folder),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        **variables,
    }
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout
