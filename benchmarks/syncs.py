"""Syncs: measure tools that copy a folder to S3, round by round, each time in a fresh process."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

from benchmarks.cells import MIB
from benchmarks.process import REPOSITORY
from benchmarks.server import BUCKET, Server

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from benchmarks.suite import Bench, Measured

WORKLOAD = "sync"
"""The name of the workload in the measurements."""
FILES, QUICK_FILES = 10_000, 200

_FILE = 1000
_IN_A_FOLDER = 100
_AGE_S = 3600


def measure(bench: Bench, pythons: Mapping[str, str], sizes: tuple[int, int]) -> None:
    """Measure a first and a second sync with their requests to the server, and add both.

    Args:
        bench: Where and how to measure.
        pythons: The interpreter of each syncer.
        sizes: The number of small files, and the MiB of one large file.
    """
    files, mib = sizes
    sources = {
        "files": _small_files(bench.folder / "files", files),
        "large": _large_file(bench.folder / "large", mib),
    }
    names = list(pythons)
    with Server() as server:
        for round_ in range(bench.rounds):
            for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
                for task, source in sources.items():
                    if name not in bench.measured.failed:
                        bench.say(f"sync {round_ + 1}/{bench.rounds}, {task}: {name}")
                        server.empty()
                        for which in (task, f"{task} again"):
                            _once(bench.measured, server, name, pythons[name], which, source)
    for source in sources.values():
        shutil.rmtree(source)


def _once(measured: Measured, server: Server, name: str, python: str, task: str, source: Path) -> None:
    done = subprocess.run(
        [python, "-m", "benchmarks.syncers", name, str(source), f"s3://{BUCKET}/folder"],
        cwd=REPOSITORY,
        env=os.environ | server.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    traffic = server.traffic()
    if done.returncode:
        measured.failed.setdefault(name, (done.stderr.strip().splitlines() or ["it said nothing"])[-1])
        return
    answer = json.loads(done.stdout.splitlines()[-1])
    measured.versions[name] = answer["version"]
    measured.seconds[WORKLOAD, name, task].append(answer["seconds"])
    measured.traffic[WORKLOAD, name, task] = traffic


def _small_files(folder: Path, files: int) -> Path:
    for at in range(files):
        place = folder / f"{at // _IN_A_FOLDER:03}" / f"{at % _IN_A_FOLDER:02}.bin"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(random.randbytes(_FILE))
        _age(place)
    return folder


def _large_file(folder: Path, mib: int) -> Path:
    folder.mkdir()
    with (folder / "large.bin").open("wb") as file:
        for _ in range(mib):
            file.write(random.randbytes(MIB))
    _age(folder / "large.bin")
    return folder


def _age(place: Path) -> None:
    """Set the time of a file to an hour ago: a sync does not trust the time of a file that just changed."""
    then = time.time() - _AGE_S
    os.utime(place, (then, then))
