"""Which tests a command runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE = "tests/core/test_algorithms.py"
SLOW = f"{FILE}::test_the_laws_hold_without_the_packages"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "runs"),
    [([FILE], False), (["--all", FILE], True), (["-m", "slow", FILE], True), ([SLOW], True)],
)
def test_a_slow_test_runs_only_if_it_is_asked_for(options: list[str], runs: bool) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    listed = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
    assert (SLOW in listed) is runs
