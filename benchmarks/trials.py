"""Trials: measure libraries that run trials, round by round, each time in a fresh process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from benchmarks.process import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.suite import Bench

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
                answer = ask_once(bench, name, pythons[name], "benchmarks.runners", name)
                for task, seconds in answer["seconds"].items() if answer else ():
                    bench.measured.seconds[WORKLOAD, name, task].append(seconds)


def ask_once(bench: Bench, library: str, python: str, module: str, name: str, *words: str) -> Any:
    """Run a module in a fresh process with a name, an empty folder and words, and return its JSON.

    The answer is None if the process failed; then `Measured.failed` says why the library is missing.
    """
    measured, place = bench.measured, bench.folder / "runner"
    place.mkdir()
    try:
        done = subprocess.run(
            [python, "-m", module, name, str(place), *words],
            cwd=REPOSITORY,
            env=os.environ | {"NBCKPT_SECRET_FILE": str(bench.folder / "secret")},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(place)
    if done.returncode:
        measured.failed[library] = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return None
    answer = json.loads(done.stdout.splitlines()[-1])
    measured.versions[library] = answer["version"]
    return answer
