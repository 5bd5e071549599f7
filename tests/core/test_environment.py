"""What a checkpoint notes about where it was made."""

from __future__ import annotations

import subprocess
import sys

FINALIZERS = """
import gc, itertools
from nbckpt.core import environment

class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        names[f"new{next(numbers)}"] = None

numbers = itertools.count()
names = environment.modules = {f"old{number}": None for number in range(3000)}
gc.set_threshold(5)
for _ in range(100):
    Cycle()
    environment.packages()
"""


def test_a_finalizer_may_import_a_module_while_versions_are_read() -> None:
    done = subprocess.run([sys.executable, "-c", FINALIZERS], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
