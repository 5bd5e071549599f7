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
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.suite import Measured

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


def measure(measured: Measured, folder: Path, rounds: int, say: Callable[[str], None]) -> None:
    """Measure the start-up times and add them to *measured*.

    Args:
        measured: The measurements so far.
        folder: A folder on the disk to measure; files made in it are removed again.
        rounds: The number of rounds.
        say: Called with messages about the progress.
    """
    run_python(folder, "-c", _STORE)
    for words in (("-c", _EXTENSION), ("-m", "nbckpt", "ls")):  # once, to compile the bytecode
        run_python(folder, *words)
    for round_ in range(rounds):
        say(f"starts {round_ + 1}/{rounds}")
        there, ours = map(float, run_python(folder, "-c", _EXTENSION).split()[-2:])
        measured.seconds[WORKLOAD, IPYTHON, "import"].append(there)
        measured.seconds[WORKLOAD, OURS, "load_ext"].append(ours)
        measured.seconds[WORKLOAD, IPYTHON, "process"].append(_timed(folder, "-c", "import IPython"))
        measured.seconds[WORKLOAD, OURS, "ls"].append(_timed(folder, "-m", "nbckpt", "ls"))


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
