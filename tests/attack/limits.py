"""A child process for what may hang or eat all memory: it ends, and says in which case."""

from __future__ import annotations

import faulthandler
import os
import resource
import subprocess
import sys
from pathlib import Path

MOST_MEMORY = 256 << 20
MOST_SECONDS = 120

_TESTS = Path(__file__).parents[1]


def limit_memory(more: int = MOST_MEMORY) -> None:
    """Let this process take no more than *more* bytes above what it has."""
    status = Path("/proc/self/status").read_text()
    taken = int(status.partition("VmData:")[2].split()[0]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (taken + more, taken + more))


def begin(case: str) -> None:
    """Say which case begins; if the next one does not begin in time, the process ends."""
    print(case, flush=True)
    faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)


def run_child(module: str, *arguments: str | Path, seconds: float) -> list[str]:
    """Run a module of the tests, and return the lines that it wrote; fail with the last one if it failed."""
    search = os.pathsep.join([str(_TESTS), str(_TESTS.parent)])
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": search, "OPENBLAS_NUM_THREADS": "1", "NBCKPT_CACHE": "0"},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"in {lines[-1:]}:\n{done.stderr[-4000:]}"
    return lines
