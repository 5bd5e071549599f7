"""Processes: a trial has one of its own, which can be killed, and ends with the kernel."""

from __future__ import annotations

import io
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import ran

import nbckpt
from nbckpt.testing import ExecutorTests
from nbckpt.trials import Catalog, Experiment, Status
from nbckpt.trials.executors import Job, WorkerLostError
from nbckpt.trials.executors.process import ProcessExecutor
from nbckpt.trials.executors.transport import RemoteTraceback
from waiting import until


class Follows(nbckpt.trials.Callback):
    """Calls a function with each result, and keeps the errors."""

    def __init__(self, result: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
        self._result = result
        self.errors: list[BaseException] = []

    def on_trial_result(self, trial: Any, result: Any) -> None:
        self._result(result)

    def on_trial_error(self, trial: Any, error: BaseException) -> None:
        self.errors.append(error)


finished = partial(ran, executor="process")


def indexes(experiment: Experiment) -> list[list[int]]:
    return [[result["i"] for result in trial.results] for trial in experiment.trials]


def counting() -> Callable[[dict[str, Any]], None]:
    """Return a function that reports its process and 1 to 10, with a checkpoint after each third."""

    def train(config: dict[str, Any]) -> None:
        import os

        checkpoint = nbckpt.get_checkpoint()
        for i in range(checkpoint.to_dict()["i"] if checkpoint else 0, config.get("last", 10)):
            nbckpt.report(i=i + 1, pid=os.getpid(), checkpoint={"i": i + 1} if i % 3 == 2 else None)

    return train


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


class once:  # noqa: N801  used like a function
    """Do something with the first result of an index."""

    def __init__(self, i: int, action: Callable[[dict[str, Any]], object]) -> None:
        self._i, self._what, self._done = i, action, False

    def __call__(self, result: dict[str, Any]) -> None:
        if result["i"] == self._i and not self._done:
            self._done = True
            self._what(result)


def send(number: signal.Signals) -> Callable[[dict[str, Any]], None]:
    return lambda result: os.kill(result["pid"], number)


def wait_for_end(pid: int) -> None:
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([watch], [], [], 30)[0], "it goes on"
    finally:
        os.close(watch)


@pytest.mark.slow
class TestProcess(ExecutorTests):
    runs_apart = True

    @pytest.fixture
    def executor(self) -> str:
        return "process"

    @pytest.fixture
    def gpus(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NBCKPT_RUNTIME", str(tmp_path / "runtime"))
        monkeypatch.setenv("NBCKPT_GPUS", "gpu-a,gpu-b")


def test_output_of_a_process_is_printed_by_the_parent(capsys: pytest.CaptureFixture[str]) -> None:
    def train(config: dict[str, Any]) -> None:
        print("größer")
        print("beside", file=sys.stderr)
        print("no end of line", end="")

    finished(train)
    captured = capsys.readouterr()
    assert captured.out == "größer\nno end of line"
    assert captured.err == "beside\n"


@pytest.mark.slow
def test_instances_of_local_classes_have_the_live_class() -> None:
    class Score(float):
        pass

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(score=Score(0.5))

    seen: list[dict[str, Any]] = []
    finished(train, callbacks=[Follows(lambda result: seen.append(dict(result)))])
    assert type(seen[0]["score"]) is Score


def test_an_unpicklable_result_arrives_as_the_journal_stores_it() -> None:
    class Locks(nbckpt.trials.Trainable):
        def step(self) -> dict[str, Any]:
            return {"lock": threading.Lock(), "i": 1, "done": True}

    trial = finished(Locks).trials[0]
    assert (trial.status, trial.metrics["i"]) == (Status.TERMINATED, 1)
    assert trial.metrics["lock"].startswith("<unlocked _thread.lock object")


@pytest.mark.slow
def test_a_finished_process_leaves_nothing_open() -> None:
    finished(counting())
    before = open_files()
    finished(counting(), {"last": nbckpt.grid_search([1, 2, 3])})
    assert open_files() == before


@pytest.mark.slow
def test_an_exception_arrives_with_its_traceback() -> None:
    class OwnError(Exception):
        def __init__(self, code: int) -> None:
            super().__init__(code)
            self.code = code

    def train(config: dict[str, Any]) -> None:
        raise OwnError(7)

    follows = Follows()
    trial = finished(train, callbacks=[follows]).trials[0]
    assert (trial.status, trial.error) == (Status.ERROR, "OwnError: 7")
    (error,) = follows.errors
    assert isinstance(error, nbckpt.errors.TrialError)
    assert isinstance(error.__cause__, OwnError)
    assert error.__cause__.code == 7
    assert isinstance(error.__cause__.__cause__, RemoteTraceback)
    assert "raise OwnError(7)" in trial.traceback


@pytest.mark.slow
def test_an_unpicklable_exception_is_shown_by_its_traceback() -> None:
    class OwnError(Exception):
        def __init__(self, code: int, lock: object) -> None:
            super().__init__(code)

    def train(config: dict[str, Any]) -> None:
        raise OwnError(7, object())

    trial = finished(train).trials[0]
    assert trial.error == "OwnError: 7"
    assert trial.traceback.splitlines()[-1].endswith("OwnError: 7")
    assert "raise OwnError(7, object())" in trial.traceback


def test_an_unpicklable_function_is_named_with_advice() -> None:
    lock = threading.Lock()

    def helper() -> object:
        return lock

    def train(config: dict[str, Any]) -> None:
        helper()

    trial = finished(train, max_failures=3).trials[0]
    assert trial.status == Status.ERROR
    assert trial.error.startswith("cannot send train.<helper>.<lock>: _thread.lock to another process: ")
    assert trial.error.endswith("use executor='thread'")
    trial = finished(counting(), {"where": {"deep": [threading.Lock()]}}).trials[0]
    assert trial.error.startswith("cannot send config['where']['deep'][0]: _thread.lock to another process: ")


KILLED_IN = ("setup", "step", "save_checkpoint", "load_checkpoint", "cleanup")


def killed_in(method: str) -> type[nbckpt.trials.Trainable]:
    """Return a class whose process kills itself in a method, or in `setup` of its second attempt."""

    def suicide(self: Any, *_: object) -> None:
        print("last words", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)

    methods = {
        "step": lambda self: {"done": True},
        "save_checkpoint": lambda self, place: {"i": 1},
        "load_checkpoint": lambda self, checkpoint: None,
    }
    return type("Killed", (nbckpt.trials.Trainable,), methods | {method: suicide})


@pytest.mark.slow
@pytest.mark.parametrize("method", ["setup", "step", "save_checkpoint"])
def test_a_killed_process_is_an_error_that_names_the_signal(method: str) -> None:
    trial = finished(killed_in(method), checkpoint_every=1).trials[0]
    assert trial.status == Status.ERROR
    assert f"the process of {trial.folder.parent.name}/t0 was killed by SIGKILL" in trial.error
    assert trial.error.endswith("The last it wrote: last words")


@pytest.mark.slow
def test_a_process_killed_during_a_restore_is_an_error() -> None:
    experiment = finished(killed_in("load_checkpoint"), name="e", checkpoint_every=1)
    assert experiment.trials[0].status == Status.TERMINATED
    experiment.resume("t0")
    assert experiment.wait(60)
    assert "was killed by SIGKILL" in experiment.trials[0].error


def test_a_process_killed_in_its_cleanup_is_only_noted(caplog: pytest.LogCaptureFixture) -> None:
    trial = finished(killed_in("cleanup")).trials[0]
    assert (trial.status, trial.error) == (Status.TERMINATED, "")
    assert "was killed by SIGKILL (perhaps for want of memory) while it was stopped" in caplog.text


def test_a_crash_error_names_the_function_or_the_exit_code() -> None:
    def train(config: dict[str, Any]) -> None:
        import ctypes

        ctypes.string_at(0)

    trial = finished(train).trials[0]
    assert "was killed by SIGSEGV. The last it wrote: " in trial.error
    assert "in train" in trial.error
    assert finished(lambda config: os._exit(3)).trials[0].error.endswith("ended with exit code 3")


def test_a_fork_of_a_killed_worker_neither_hides_nor_outlives_it() -> None:
    def train(config: dict[str, Any]) -> None:
        import time

        read, write = os.pipe()
        forked = os.fork()
        if not forked:
            os.write(write, b"!")
            time.sleep(600)
        os.read(read, 1)
        nbckpt.report(i=1, pid=os.getpid(), forked=forked)

    trial = finished(train, callbacks=[Follows(once(1, send(signal.SIGKILL)))]).trials[0]
    assert trial.status == Status.ERROR
    wait_for_end(trial.metrics["forked"])


def test_a_fork_of_the_function_can_be_terminated() -> None:
    def train(config: dict[str, Any]) -> None:
        import multiprocessing
        import time

        forked = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
        forked.start()
        forked.terminate()
        forked.join()
        nbckpt.report(code=forked.exitcode)

    assert finished(train).trials[0].metrics["code"] == -signal.SIGTERM


def endless(witness: Path, *, reports: bool) -> Callable[[dict[str, Any]], None]:
    """Return a function that has no end, and writes down that its `finally` ran."""

    def train(config: dict[str, Any]) -> None:
        i = 0
        try:
            while True:
                i += 1
                if i == 2:
                    witness.with_name("goes on").touch()
                if i == 1 or reports:
                    nbckpt.report(i=i, pid=os.getpid(), checkpoint={"i": i})
        finally:
            witness.touch()

    return train


def test_a_kill_ends_a_process_without_running_finally(tmp_path: Path) -> None:
    experiment = nbckpt.run(endless(tmp_path / "witness", reports=False), executor="process")
    until((tmp_path / "goes on").exists)
    experiment.kill()
    assert experiment.wait(60)
    assert experiment.trials[0].status == Status.TERMINATED
    assert experiment.trials[0].note == "stopped; its process was killed"
    assert not (tmp_path / "witness").exists()


def test_a_kill_ends_a_process_during_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy(nbckpt.trials.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            print("began")
            while True:
                pass

    worker = ProcessExecutor().start(Job(Busy, {}, tmp_path, "t0", "e/t0"))

    class Kills(io.StringIO):
        def write(self, text: str) -> int:
            worker.kill()
            return len(text)

    monkeypatch.setattr(sys, "stdout", Kills())
    with pytest.raises(WorkerLostError, match="its process was killed"):
        worker.run(lambda _: True)


def test_a_process_that_does_not_stop_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(nbckpt.trials.Trainable):
        def step(self) -> dict[str, Any]:
            return {"done": True}

        def cleanup(self) -> None:
            while True:
                pass

    experiment = ran(Stubborn, executor=ProcessExecutor(stop_timeout=0.2))
    assert experiment.trials[0].status == Status.TERMINATED
    assert "did not end: its process is killed" in caplog.text


def test_sigterm_runs_finally_and_pauses_the_trial(tmp_path: Path) -> None:
    ask = Follows(once(3, send(signal.SIGTERM)))
    experiment = finished(endless(tmp_path / "witness", reports=True), callbacks=[ask], max_failures=1)
    trial = experiment.trials[0]
    assert (trial.status, trial.failures) == (Status.PAUSED, 0)
    assert "asked to end by SIGTERM" in trial.note
    assert (tmp_path / "witness").exists()


def test_ctrl_c_in_the_terminal_interrupts_only_the_parent() -> None:
    groups: list[int] = []
    follows = Follows(lambda result: groups.append(os.getpgid(result["pid"])))
    finished(counting(), {"last": 1}, callbacks=[follows])
    assert groups
    assert os.getpgrp() not in groups


KERNEL = textwrap.dedent(
    """
    import pickle, sys, time
    from pathlib import Path
    import nbckpt

    print("top", flush=True)

    class Model:
        i = 0

    def train(config):
        checkpoint = nbckpt.get_checkpoint()
        model = pickle.loads(pickle.dumps(Model()))
        model.i = checkpoint.to_dict()["i"] if checkpoint else 0
        try:
            while model.i < 40:
                model.i += 1
                nbckpt.report(i=model.i, checkpoint={"i": model.i} if model.i % 4 == 0 else None)
                Path("told").open("a").write(f"{model.i}\\n")
                if model.i == config["rests_at"] and not Path("rested").exists():
                    Path("rested").touch()
                    print("rests", flush=True)
                    while config["busy"]:
                        pass
                    time.sleep(600)
        finally:
            Path("finally").touch()

    config = {"rests_at": int(sys.argv[1]), "busy": sys.argv[2] == "busy"}
    experiment = nbckpt.run(train, config, name="e", executor="process")
    experiment.wait()
    print(experiment.trials[0].status, flush=True)
    """
)


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Run a script without an `if __name__` guard, whose function is one of its `__main__`."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    options: dict[str, Any] = {"cwd": tmp_path, "stdout": subprocess.PIPE, "text": True}
    return lambda *given: subprocess.Popen([sys.executable, "kernel.py", *map(str, given)], **options)


@pytest.mark.slow
def test_a_function_of_a_script_without_a_guard_runs(script: Callable[..., subprocess.Popen[str]]) -> None:
    with script(0, "busy") as kernel:
        assert kernel.stdout.read() == "top\nTERMINATED\n"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["busy", "asleep"])
def test_a_killed_kernel_leaves_no_process_and_can_be_resumed(
    tmp_path: Path, store: Path, script: Callable[..., subprocess.Popen[str]], how: str
) -> None:
    with script(18, how) as kernel:
        assert [kernel.stdout.readline(), kernel.stdout.readline()] == ["top\n", "rests\n"]
        children = Path(f"/proc/{kernel.pid}/task").glob("*/children")
        (pid,) = [pid for file in children for pid in file.read_text().split()]
        kernel.kill()
    wait_for_end(int(pid))
    assert (tmp_path / "finally").exists()
    numbers = [int(line) for line in (tmp_path / "told").read_text().split()]
    trial = Catalog(store / "experiments").open("e").trials[0]
    assert numbers == [result["i"] for result in trial.results] == list(range(1, 19))
    with script(18, how) as kernel:
        assert kernel.stdout.read() == "top\nTERMINATED\n"
    experiment = Catalog(store / "experiments").open("e")
    assert indexes(experiment) == [list(range(1, 41))]
    assert [int(line) for line in (tmp_path / "told").read_text().split()][18:] == list(range(17, 41))


def test_a_job_that_has_not_started_can_be_stopped(tmp_path: Path) -> None:
    kind = nbckpt.trials.wrap_function(counting())
    worker = ProcessExecutor().start(Job(kind, {}, tmp_path, "t0", "e/t0"))
    worker.stop()
    worker.stop()
    worker.kill()
