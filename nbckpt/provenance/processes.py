"""Processes: end a program with all programs that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill a process; on systems with sessions, all processes that it started too. Do nothing if it is gone.

    It must have been started with `start_new_session=True`; without a session of its own, nothing is killed.
    """
    with suppress(OSError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
