"""A process starts ahead of its trial, and no trial can tell: it has its own process, as it would be now."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import ran
from trials.test_process import wait_for_end

import nbckpt
from nbckpt.trials import Callback, Executor, Experiment, Status, Trial
from nbckpt.trials.executors import ThreadExecutor, spare
from nbckpt.trials.executors.interpreter import Interpreter
from nbckpt.trials.executors.spare import SpareInterpreter
from waiting import until

pytestmark = pytest.mark.slow  # each test starts interpreters

SECONDS = 120


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Interpreter]]:
    """All processes that were started for trials. None of them is left at the end."""
    every: list[Interpreter] = []

    class Counted(Interpreter):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            every.append(self)

    monkeypatch.setattr(spare, "Interpreter", Counted)
    yield every
    assert [python for python in every if python.process.poll() is None] == []
    assert all(python.connection.closed for python in every)


def train(config: dict[str, Any]) -> None:
    """Report what the process has inherited, and change it."""
    import json
    from pathlib import Path

    at = os.environ.get("AT", ""), str(Path.cwd()), sys.path[0]
    is_new, json.seen = not hasattr(json, "seen"), True  # type: ignore[attr-defined]
    nbckpt.report(pid=os.getpid(), is_new=is_new, env=at[0], folder=at[1], path=at[2])
    os.environ["AT"] = "of another trial"
    if config.get("dies"):
        os.kill(os.getpid(), signal.SIGKILL)


class Between(Callback):
    """Does something after the first result of a trial."""

    def __init__(self, action: Any) -> None:
        self._action = action

    def on_trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        self._action(trial)

    def __reduce__(self) -> Any:
        return Between, (None,)


def run(config: Any, executor: str | Executor = "process", **options: Any) -> Experiment:
    return ran(train, config, executor=executor, max_concurrent=1, **options)


def seen(experiment: Experiment, name: str) -> list[Any]:
    return [trial.metrics[name] for trial in experiment.trials]


def test_each_trial_has_a_process_that_ran_nothing_before(started: list[Interpreter]) -> None:
    """The only trial starts no second one."""
    run({})
    assert len(started) == 1
    experiment = run({"x": nbckpt.grid_search([1, 2, 3])})
    assert seen(experiment, "is_new") == [True] * 3
    assert seen(experiment, "env") == [""] * 3
    assert sorted(seen(experiment, "pid")) == sorted(python.process.pid for python in started[1:])


def test_a_process_as_it_was_before_a_change_is_not_used(
    started: list[Interpreter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After t0 a variable changes, after t1 the working folder, after t2 `sys.path`."""
    changes = {
        "t0": lambda: monkeypatch.setenv("AT", "changed"),
        "t1": lambda: monkeypatch.chdir(tmp_path),
        "t2": lambda: monkeypatch.syspath_prepend(tmp_path / "first"),
        "t3": lambda: None,
    }
    former = str(Path.cwd())
    between = Between(lambda trial: changes[trial.id]())
    experiment = run({"x": nbckpt.grid_search([1, 2, 3, 4])}, callbacks=[between])
    assert seen(experiment, "env") == ["", "changed", "changed", "changed"]
    assert seen(experiment, "folder") == [former, former, str(tmp_path), str(tmp_path)]
    assert [path == str(tmp_path / "first") for path in seen(experiment, "path")] == [False] * 3 + [True]
    assert len(started) == 7  # three were started and never used


def test_a_folder_that_was_made_again_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    former = spare.start_of({})
    assert spare.start_of({}) == former
    folder.rename(tmp_path / "away")
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert spare.start_of({}) != former
    folder.rmdir()
    assert spare.start_of({}) is None


def test_a_dead_spare_is_replaced(started: list[Interpreter]) -> None:
    kept, environment = SpareInterpreter(), dict(os.environ)
    kept.prepare(environment)
    kept.prepare(environment)
    (first,) = started
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    second = kept.take(environment)
    assert second.process.pid != first.process.pid
    kept.prepare(environment)
    third = kept.take(environment)
    assert started == [first, second, third]
    second.end()
    third.end()


def test_a_crash_ends_its_own_trial_only(started: list[Interpreter]) -> None:
    experiment = run({"dies": nbckpt.grid_search([True, False, True, False])})
    assert [trial.status for trial in experiment.trials] == [Status.ERROR, Status.TERMINATED] * 2
    assert seen(experiment, "is_new") == [True] * 4


def test_a_trial_with_a_gpu_starts_its_own_process(
    started: list[Interpreter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The locks of GPUs are inherited by the process that starts, and by no other."""
    monkeypatch.setenv("NBCKPT_RUNTIME", str(tmp_path / "runtime"))
    monkeypatch.setenv("NBCKPT_GPUS", "gpu-a,gpu-b")
    experiment = run({"x": nbckpt.grid_search([1, 2])}, gpus=1)
    assert [trial.status for trial in experiment.trials] == [Status.TERMINATED] * 2
    assert started == []


def test_a_process_that_cannot_start_leaves_no_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = SpareInterpreter()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    kept.prepare(dict(os.environ))
    with pytest.raises(FileNotFoundError):
        kept.take(dict(os.environ))
    kept.drop()


def test_a_failing_executor_is_a_note_after_the_trials() -> None:
    class Fails(ThreadExecutor):
        def idle(self) -> None:
            raise OSError("no rest")

    experiment = run({}, executor=Fails())
    assert experiment.notes == ["the executor failed after the trials: OSError: no rest"]


KERNEL = """
import time
import nbckpt
from nbckpt.trials.executors import interpreter

def train(config):
    time.sleep(600)

nbckpt.run(train, {"x": nbckpt.grid_search([1, 2])}, executor="process", max_concurrent=1)
while len(pids := [python.process.pid for python in list(interpreter._open)]) < 2:
    time.sleep(0.01)
print(*pids, flush=True)
time.sleep(600)
"""


def test_no_process_outlives_a_killed_kernel() -> None:
    with subprocess.Popen([sys.executable, "-c", KERNEL], stdout=subprocess.PIPE, text=True) as kernel:
        pids = next(kernel.stdout).split()
        kernel.kill()
    assert len(pids) == 2  # the process of a trial, and the spare
    for pid in pids:
        wait_for_end(int(pid))


def test_a_fork_of_the_kernel_keeps_no_spare_alive(started: list[Interpreter]) -> None:
    kept = SpareInterpreter()
    kept.prepare(dict(os.environ))
    (python,) = started
    read, write = os.pipe()
    forked = os.fork()
    if not forked:  # it holds no end of the connection, so the spare ends while it lives
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    python.close()
    until(lambda: python.process.poll() is not None)
    os.close(write)
    os.close(read)
    os.waitpid(forked, 0)
    kept.drop()
