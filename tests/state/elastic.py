"""Elastic: a job of several replicas, started again and again with another number of them.

Each replica is a process with the environment of such a job. The test's own process joins them: it tells each
what all of them said, which is what an all-reduce and a barrier are made of.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

import cloudpickle

import nbckpt

TESTS = Path(__file__).parents[1]
LONGEST_S = 60.0
RETURNED = -1


class Group:
    """The other replicas, for one of them. All ask the same questions in the same order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._asked = 0

    def all_reduce(self, value: Any, fold: Callable[[list[Any]], Any] = sum) -> Any:
        """Return the values of all replicas, folded."""
        number, self._asked = self._asked, self._asked + 1
        self._connection.send((number, value))
        answered, values = self._connection.recv()
        assert answered == number
        return fold(values)

    def gather(self, value: Any) -> list[Any]:
        return self.all_reduce(value, list)

    def any(self, value: bool) -> bool:
        return self.all_reduce(value, any)

    def barrier(self) -> None:
        self.gather(None)


Job = Callable[[Group], Any]


@dataclass(frozen=True)
class Ended:
    """How the replicas ended, and what each of them returned."""

    codes: list[int]
    value: Any


@dataclass(frozen=True)
class _Replica:
    rank: int
    process: subprocess.Popen[bytes]
    connection: Connection


def run(job: Job, folder: Path, names: str = "NBCKPT") -> list[Any]:
    """Start one replica, then as many as the job returned, until that is none; return all these numbers."""
    returned = [1]
    while returned[-1]:
        done = generation(job, folder, returned[-1], restarts=len(returned) - 1, names=names)
        returned.append(done.value)
    return returned[1:]


def generation(
    job: Job,
    folder: Path,
    replicas: int,
    *,
    restarts: int = 0,
    names: str = "NBCKPT",
    end: tuple[int, int] | None = None,
) -> Ended:
    """Run a job once, in *replicas* processes, whose return values must be equal.

    Args:
        job: What each replica calls. What it uses of a test's module goes with it.
        folder: Where the job's states are saved.
        replicas: How many.
        restarts: How often the job ran before.
        names: What the environment's names begin with.
        end: A replica, and the number of the question at which it is sent a SIGTERM; no other is.
    """
    environment = {
        f"{names}_CHECKPOINT_PATH": str(folder),
        f"{names}_NUM_REPLICAS": str(replicas),
        f"{names}_NUM_RESTARTS": str(restarts),
    }
    cloudpickle.register_pickle_by_value(sys.modules[job.__module__])
    with ExitStack() as stack:
        started = [
            stack.enter_context(_started(rank, environment | {f"{names}_REPLICA_RANK": str(rank)}))
            for rank in range(replicas)
        ]
        for replica in started:
            replica.connection.send_bytes(cloudpickle.dumps(job))
        return _ended(started, end)


def _ended(started: list[_Replica], end: tuple[int, int] | None) -> Ended:
    """Answer the replicas until all have ended."""
    said: dict[int, dict[int, Any]] = defaultdict(dict)
    running = {replica.connection: replica for replica in started}
    while running:
        ready = wait(running, LONGEST_S)
        assert ready, f"replicas {[replica.rank for replica in running.values()]} wait for others"
        for connection in ready:
            replica = running[connection]
            try:
                number, value = connection.recv()
            except EOFError:
                code = replica.process.wait(LONGEST_S)
                assert code in {0, 143}, f"replica {replica.rank} of {len(started)} ended with {code}"
                del running[connection]
                continue
            said[number][replica.rank] = value
            if number != RETURNED and len(said[number]) == len(started):
                if end is not None and end[1] == number:
                    started[end[0]].process.send_signal(signal.SIGTERM)
                _answer(started, number, said.pop(number))
    values = list(said[RETURNED].values()) or [None]
    assert values == values[:1] * len(values)
    return Ended([replica.process.returncode for replica in started], values[0])


def _answer(started: list[_Replica], number: int, said: dict[int, Any]) -> None:
    for replica in started:
        replica.connection.send((number, [said[rank] for rank in sorted(said)]))


@contextmanager
def _started(rank: int, environment: dict[str, str]) -> Iterator[_Replica]:
    """Lend a replica, and kill it if it is left."""
    ours, theirs = Pipe()
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("NBCKPT_", "ADAPTDL_"))}
    path = os.pathsep.join([str(TESTS), *filter(None, [clean.get("PYTHONPATH")])])
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "state.elastic", str(theirs.fileno())],
                env=clean | environment | {"PYTHONPATH": path},
                pass_fds=[theirs.fileno()],
            )
        with process:
            try:
                yield _Replica(rank, process, ours)
            finally:
                process.kill()


def _be_replica(descriptor: int) -> None:
    connection = Connection(descriptor)
    group = Group(connection)
    job = cloudpickle.loads(connection.recv_bytes())
    with nbckpt.states.use_folder(barrier=group.barrier):
        connection.send((RETURNED, job(group)))


if __name__ == "__main__":
    _be_replica(int(sys.argv[1]))
