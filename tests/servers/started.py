"""Programs that serve a test: found or said to be missing, started, waited for, and ended."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the test for *reason*; in CI fail, where nothing may be missing."""
    pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


def program(name: str, install: str) -> str:
    """Return where a program is; without it, a skip here and a failure in CI."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
    return shutil.which(name, path=path) or missing(f"{name} is not installed: {install}")


@contextmanager
def started(command: Sequence[str], ready: str) -> Iterator[str]:
    """Run a server, give the line in which it says *ready*, and end it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        try:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if ready in line:
                    break
            else:
                pytest.fail(f"{command[0]} ended before it was ready: {''.join(said)}")
            yield line
        finally:
            process.terminate()
            process.communicate()
