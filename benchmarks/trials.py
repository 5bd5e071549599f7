"""Trials: measure libraries that run trials, round by round, each time in a fresh process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from benchmarks.process import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from benchmarks.suite import Bench, Measured

WORKLOAD = "trials"
"""The name of the workload in the measurements."""


def measure(bench: Bench, pythons: Mapping[str, str]) -> None:
    """Measure a report and a trial, and add the times.

    Args:
        bench: Where and how to measure.
        pythons: The interpreter of each runner.
    """
    names = list(pythons)
    for round_ in range(bench.rounds):
        for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
            if name not in bench.measured.failed:
                bench.say(f"trials {round_ + 1}/{bench.rounds}: {name}")
                _round(bench.measured, bench.folder, name, pythons[name])


def _round(measured: Measured, folder: Path, name: str, python: str) -> None:
    place = folder / "runner"
    place.mkdir()
    try:
        done = subprocess.run(
            [python, "-m", "benchmarks.runners", name, str(place)],
            cwd=REPOSITORY,
            env=os.environ | {"NBCKPT_SECRET_FILE": str(folder / "secret")},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(place)
    if done.returncode:
        measured.failed[name] = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return
    answer = json.loads(done.stdout.splitlines()[-1])
    measured.versions[name] = answer["version"]
    for task, seconds in answer["seconds"].items():
        measured.seconds[WORKLOAD, name, task].append(seconds)
