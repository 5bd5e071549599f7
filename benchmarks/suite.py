"""Suite: the measurements, round by round; the contenders take turns.

In each round every contender saves, saves again, saves after a change, and restores in a fresh process. So
a slow phase of the machine affects the floor and all contenders alike.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.process import Process, WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from benchmarks.cells import Workload
    from benchmarks.server import Traffic

OURS = "nbckpt"
WRITE, HASH, HASH_TWO = "write", "blake3", "blake3 x2"
"""The floors: one file written and synced, one pass of BLAKE3 on one thread and on two."""

_HASHES = 3


@dataclass
class Measured:
    """The measurements, with one sample per round.

    Attributes:
        seconds: Seconds, by workload, contender and task.
        growth: Bytes that nbckpt's save after a change added, divided by the bytes changed; by workload.
        memory: Bytes above the namespace, by workload and task.
        traffic: Requests to the server in the last round, by workload, contender and task.
        failed: Why a contender is missing, by contender.
        differs: How a restored namespace differs from the saved one, if it does.
        versions: The versions of Python, of the libraries and of the contenders.
    """

    seconds: dict[tuple[str, str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    growth: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    memory: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    traffic: dict[tuple[str, str, str], Traffic] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    differs: dict[tuple[str, str], str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Bench:
    """Where and how a workload is measured.

    Attributes:
        measured: The measurements, to which the workload adds its own.
        folder: A folder on the disk to measure; files made in it are removed again.
        rounds: The number of rounds.
        say: Called with messages about the progress.
    """

    measured: Measured
    folder: Path
    rounds: int
    say: Callable[[str], None]

    def each_round(self, name: str) -> Iterator[int]:
        """Yield the number of each round, from 0, and say that this round of *name* begins."""
        for round_ in range(self.rounds):
            self.say(f"{name} {round_ + 1}/{self.rounds}")
            yield round_


class Suite:
    """Make the measurements; `measured` holds those made so far.

    Args:
        folder: A folder on the disk to measure; files made in it are removed again.
        pythons: The interpreter of each contender.
        rounds: The number of rounds.
        say: Called with messages about the progress.
        rest_s: How long the disk rests before each save, in seconds.
    """

    def __init__(
        self,
        folder: Path,
        pythons: Mapping[str, str],
        rounds: int,
        say: Callable[[str], None],
        rest_s: float = 0.0,
    ) -> None:
        self.measured = Measured()
        self._folder = folder
        self._store = folder / "store"
        self._pythons = dict(pythons)
        self._rounds = rounds
        self._say = say
        self._rest_s = rest_s

    def times(self, workload: Workload) -> None:
        """Measure the times of saves and restores of *workload*."""
        names = list(self._pythons)
        with self._process([name for name in names if self._is_here(name)]) as here:
            here.ask("run", source=workload.source)
            for round_ in range(self._rounds):
                if workload.name == "arrays":
                    self._floors(workload, here)
                for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
                    if name in self.measured.failed:
                        continue
                    self._say(f"{workload.name} {round_ + 1}/{self._rounds}: {name}")
                    with self._attempt(name):
                        self._round(workload, name, round_, here)

    def _round(self, workload: Workload, name: str, round_: int, here: Process) -> None:
        """Let one contender save three times, and restore in a fresh process."""
        if self._is_here(name):
            expected = self._saves(workload, name, round_, here)
        else:
            with self._process([name]) as process:
                process.ask("run", source=workload.source)
                expected = self._saves(workload, name, round_, process)
        for task in ("restore", "restore lazily") if name == OURS else ("restore",):
            with self._process([name]) as process:
                lazy = task != "restore"
                reply = process.ask("restore", contender=name, folder=str(self._store), lazy=lazy)
                self.measured.seconds[workload.name, name, task].append(reply["seconds"])
                checked = process.ask("check", expression=workload.check)["value"]
            if checked != expected:
                self.measured.differs[workload.name, name] = f"{checked} instead of {expected}"

    def _saves(self, workload: Workload, name: str, round_: int, process: Process) -> str:
        """Save three times; return the value of the namespace's check at the end."""
        seconds = self.measured.seconds
        process.ask("open", contender=name, folder=str(self._store))
        self._rest()
        seconds[workload.name, name, "save"].append(process.ask("save", contender=name)["seconds"])
        self._rest()
        seconds[workload.name, name, "again"].append(process.ask("save", contender=name)["seconds"])
        source, changed = workload.change(round_)
        self._rest()
        reply = process.ask("save", contender=name, source=source)
        seconds[workload.name, name, "changed"].append(reply["seconds"])
        if "new_bytes" in reply:
            self.measured.growth[workload.name].append(reply["new_bytes"] / changed)
        process.ask("close", contender=name)
        return str(process.ask("check", expression=workload.check)["value"])

    def memory(self, workload: Workload) -> None:
        """Measure nbckpt's peak memory above *workload*, each time in a fresh process."""
        for round_ in range(self._rounds):
            self._say(f"memory of {workload.name} {round_ + 1}/{self._rounds}")
            with self._attempt(OURS):
                self._memory_round(workload)

    def _memory_round(self, workload: Workload) -> None:
        memory = self.measured.memory
        with self._process([OURS]) as process:
            process.ask("run", source=workload.source)
            process.ask("open", contender=OURS, folder=str(self._store))
            if seen := process.watch("save", contender=OURS):
                memory[workload.name, "save"].append(seen.peak - seen.before)
        with self._process([OURS]) as process:
            if seen := process.watch("restore", contender=OURS, folder=str(self._store)):
                # The memory that remains afterwards is the namespace.
                memory[workload.name, "restore"].append(seen.peak - seen.after)
                memory[workload.name, "restored"].append(seen.after - seen.before)

    def _floors(self, workload: Workload, here: Process) -> None:
        seconds = self.measured.seconds
        self._rest()
        seconds[workload.name, WRITE, "save"].append(
            here.ask("write_floor", folder=str(self._folder))["seconds"]
        )
        for name, threads in ((HASH, 1), (HASH_TWO, 2)):
            passes = [here.ask("hash_floor", threads=threads)["seconds"] for _ in range(_HASHES)]
            seconds[workload.name, name, "save"].append(median(passes))

    def _is_here(self, name: str) -> bool:
        return self._pythons[name] == self._pythons[OURS]

    def _rest(self) -> None:
        """Flush the disk and wait: a disk that serves bursts is slow for the next contender."""
        if hasattr(os, "sync"):
            os.sync()
        time.sleep(self._rest_s)

    def _process(self, contenders: list[str]) -> Process:
        """Start a worker for *contenders*, which share an environment."""
        process = Process(self._pythons[contenders[0]], self._folder, contenders)
        here = self._is_here(contenders[0])
        self.measured.versions |= {
            name: value for name, value in process.versions.items() if here or name in contenders
        }
        return process

    @contextmanager
    def _attempt(self, name: str) -> Iterator[None]:
        """Record a contender's failure, which ends only its own part, and clean up after it."""
        try:
            yield
        except WorkerError as error:
            self._say(f"{name} failed: {error}")
            self.measured.failed[name] = str(error)
        finally:
            shutil.rmtree(self._store, ignore_errors=True)
