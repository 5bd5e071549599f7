"""One experiment and two kernels: what the other one did is seen, and nothing of it is done twice."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import SECONDS, contents, ran

import nbckpt
from nbckpt.errors import StoreError, UsageError
from nbckpt.store.files import write_file
from nbckpt.trials import Experiment, Status
from nbckpt.trials.engine import control, shutdown
from nbckpt.trials.engine.claim import Claim
from nbckpt.trials.engine.runner import Runner, runner_of
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.view import internals
from waiting import until


def in_another_kernel(experiment: Experiment) -> Experiment:
    """Return an experiment as another kernel has it, which knows only what is on the disk."""
    here = shutdown.live.pop(experiment.folder)
    other = Experiment.read(experiment.folder)
    shutdown.live[experiment.folder] = here
    return other


def failing(fails: list[bool]) -> Callable[[dict[str, Any]], None]:
    def train(config: dict[str, Any]) -> None:
        if fails[0]:
            raise RuntimeError("broken")
        nbckpt.report(loss=1.0)

    return train


def test_a_trial_that_another_kernel_finished_is_not_run_again() -> None:
    fails = [True]
    here = ran(failing(fails), name="e")
    assert here.trials[0].status == Status.ERROR
    other = in_another_kernel(here)
    runner_of(other).spec = here.spec  # the function by reference, so that it sees what is fixed
    fails[0] = False
    assert other.resume(errored=True).wait(SECONDS)
    with pytest.raises(UsageError, match="nothing to resume"):
        here.resume(errored=True)
    assert (here.trials[0].status, here.trials[0].attempts) == (Status.TERMINATED, 2)


@pytest.mark.parametrize(
    "look", [Experiment.table, Experiment.dataframe, lambda experiment: experiment.best("loss", "min")]
)
def test_every_view_shows_changes_of_another_kernel(look: Callable[[Experiment], Any]) -> None:
    fails = [True]
    here = ran(failing(fails), name="e")
    with TrialRecorder(in_another_kernel(here).trials[0]) as recorder:
        recorder.start("thread", None)
        recorder.result({"training_iteration": 1, "loss": 0.5})
        recorder.end("done")
    look(here)
    assert here.trials[0].status == Status.TERMINATED


@pytest.mark.slow
def test_a_refused_run_does_not_change_the_experiment() -> None:
    here = ran(failing([False]), {"x": 1}, name="e")
    before = contents(here.folder)
    shutdown.live.pop(here.folder)
    with runner_of(here).claimed(), pytest.raises(UsageError, match="another kernel"):
        nbckpt.run(failing([False]), {"x": nbckpt.grid_search([1, 2])}, name="e")
    assert contents(here.folder) == before


def test_a_removed_name_starts_a_new_experiment() -> None:
    former = ran(failing([False]), {"x": nbckpt.grid_search([1, 2])}, name="e")
    shutil.rmtree(former.folder)
    again = ran(failing([False]), {"x": 1}, name="e")
    assert [trial.attempts for trial in again.trials] == [1]
    assert [trial.attempts for trial in Experiment.read(former.folder).trials] == [1]
    here = ran(failing([False]), {"x": nbckpt.grid_search([1, 2])}, name="e")
    shutil.rmtree(here.folder)
    shutdown.live.pop(here.folder)
    ran(failing([False]), {"x": 3}, name="e")
    here.refresh()
    assert [trial.config for trial in here.trials] == [{"x": 3}]


@pytest.mark.slow
def test_only_one_of_two_kernels_starts_a_new_name(store: Path) -> None:
    first = Runner(store / "experiments/e", nbckpt.trials.model.spec.Spec(print))
    with first.claimed(), pytest.raises(UsageError, match="another kernel"):
        nbckpt.run(print, {"x": 1}, name="e")
    assert not (store / "experiments/e").exists()


def test_no_public_method_of_a_trial_writes() -> None:
    trial = ran(failing([False]), name="e").trials[0]
    before = contents(trial.folder)
    arguments = {"name": "loss", "what": "loss", "of": trial, "make": dict, "folder": trial.folder}
    for name, method in inspect.getmembers(Trial, callable):
        if not name.startswith("_"):
            parameters = inspect.signature(getattr(trial, name)).parameters.values()
            wanted = [each.name for each in parameters if each.default is each.empty]
            getattr(trial, name)(**{each: arguments[each] for each in wanted})
            assert method.__doc__
    assert str(trial) == "Trial(t0, TERMINATED, 1 results)"
    assert contents(trial.folder) == before


class Gate:
    """A function that reports each time the test lets it, and saves when it is asked to."""

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)

    def until(self, holds: Callable[[], bool]) -> None:
        """Let the trials report, whichever it is, until something holds."""
        until(lambda: holds() or self.go.release() is not None)

    def train(self, config: dict[str, Any]) -> None:
        checkpoint = nbckpt.get_checkpoint()
        i = checkpoint.to_dict()["i"] if checkpoint else 0
        while True:
            assert self.go.acquire(timeout=SECONDS)
            i += 1
            nbckpt.report(i=i, checkpoint={"i": i} if nbckpt.should_checkpoint() else None)


def asked(experiment: Experiment) -> list[str]:
    """Return what each trial is asked to do."""
    return [internals(experiment).asked(trial.id) for trial in experiment.trials]


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def here(gate: Gate) -> Iterator[Experiment]:
    """An experiment of two trials that runs here until the test ends."""
    space = {"x": nbckpt.grid_search([1, 2])}
    experiment = nbckpt.run(gate.train, space, name="e", max_concurrent=2)
    until(lambda: all(trial.status == Status.RUNNING for trial in experiment.trials))
    yield experiment
    experiment.stop()
    gate.go.release(4)
    assert experiment.wait(SECONDS)
    assert control.pending(experiment.folder) == []


@pytest.mark.slow
def test_another_kernel_pauses_and_resumes_a_trial(here: Experiment, gate: Gate) -> None:
    other = in_another_kernel(here)
    other.pause("t0")
    assert asked(here) == ["pause", ""]
    gate.until(lambda: here.trials[0].status == Status.PAUSED)
    assert here.trials[0].unsaved_results == 0
    other.resume("t0")
    until(lambda: here.trials[0].status == Status.RUNNING)


def test_another_kernel_stops_a_trial_that_shows_as_paused(
    here: Experiment, gate: Gate, before_it_leaves: Callable[[Callable[[], object]], None]
) -> None:
    other, trial = in_another_kernel(here), here.trials[0]
    here.pause("t0")
    gate.until(lambda: trial.status == Status.PAUSED)
    before_it_leaves(lambda: other.stop("t0"))
    assert trial.status == Status.TERMINATED


def test_another_kernel_asks_for_a_checkpoint_and_a_stop(here: Experiment, gate: Gate) -> None:
    in_another_kernel(here).checkpoint("t1")
    assert asked(here) == ["", "checkpoint"]
    gate.until(lambda: here.trials[1].checkpoint_name is not None)
    in_another_kernel(here).stop()
    gate.go.release(2)
    assert here.wait(SECONDS)
    assert [trial.note for trial in here.trials] == ["stopped"] * 2


def test_an_invalid_request_is_refused_at_once(here: Experiment) -> None:
    with pytest.raises(UsageError, match="nothing to resume"):
        in_another_kernel(here).resume()
    with pytest.raises(UsageError, match="no trial 't7'"):
        in_another_kernel(here).pause("t7")


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_requests_never_leave_the_experiment_through_a_link(here: Experiment, tmp_path: Path) -> None:
    outside = control.ask(tmp_path, control.ControlRequest("stop"))
    (here.folder / control.FOLDER).symlink_to(outside.parent)
    assert control.pending(here.folder) == []
    with pytest.raises(UsageError, match="is a link that leads outside"):
        in_another_kernel(here).pause()
    assert list(outside.parent.iterdir()) == [outside]


@pytest.mark.slow
def test_a_command_in_a_shell_reaches_the_kernel_that_runs(here: Experiment) -> None:
    command = [sys.executable, "-m", "nbckpt", "pause", "e/t1"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Pausing t1 of e after the next result" in said
    assert "nbckpt resume e/t1" in said
    assert asked(here) == ["", "pause"]


@pytest.mark.slow
@pytest.mark.parametrize("written", [b"", b"{}", b'{"format":1,"do":"rm"}', b'{"format":2,"do":"stop"}'])
def test_an_invalid_request_is_removed_and_noted(here: Experiment, written: bytes) -> None:
    file = control.ask(here.folder, control.ControlRequest("pause"))
    until(lambda: not file.exists())
    write_file(file, written)
    until(lambda: not file.exists())
    assert here.notes[0].startswith("a request of another process was refused")


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_request_that_is_a_link_is_not_followed(here: Experiment, tmp_path: Path) -> None:
    secret = control.ask(tmp_path, control.ControlRequest("stop"))
    link = here.folder / control.FOLDER / secret.name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(secret)
    until(lambda: not os.path.lexists(link))
    assert asked(here) == ["", ""]
    assert secret.exists()
    secret.unlink()


def test_a_request_is_carried_out_locally_after_the_owner_ends() -> None:
    fails = [True]
    first = ran(failing(fails), name="e")
    with TrialRecorder(first.trials[0]) as recorder:
        recorder.pause()
    other = in_another_kernel(first)
    with runner_of(first).claimed():  # as an owner that does not answer
        asking = threading.Thread(target=other.stop)
        asking.start()
        until(lambda: bool(control.pending(first.folder)))
    asking.join()
    assert other.trials[0].status == Status.TERMINATED
    assert control.pending(first.folder) == []


def test_an_abandoned_request_does_not_reach_a_new_owner() -> None:
    former = ran(failing([False]), name="e")
    old, new = (
        control.ask(former.folder, control.ControlRequest("pause", by=name)) for name in ("old", "new")
    )
    os.utime(old, (1, 1))
    control.withdraw_stale(former.folder)
    assert control.pending(former.folder) == [new]
    control.withdraw([new])


def test_a_run_that_follows_immediately_has_one_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gate = threading.Event(), threading.Event()
    on_end, runs = Runner.on_end, []

    def end_and_resume(self: Runner) -> None:
        on_end(self)
        runs.append(threading.current_thread())
        if len(runs) == 1:  # while nobody can see that nothing runs
            here.resume("t0")

    def train(config: dict[str, Any]) -> None:
        assert begun.wait(SECONDS)
        nbckpt.report(i=1)
        assert not runs or gate.wait(SECONDS)

    monkeypatch.setattr(Runner, "on_end", end_and_resume)
    here = nbckpt.run(train, name="e")
    begun.set()
    until(lambda: bool(runs) and here.trials[0].attempts == 2)
    owners = [thread for thread in threading.enumerate() if thread.name == "nbckpt-requests"]
    until(lambda: sum(thread.is_alive() for thread in owners) == 1)
    gate.set()
    assert here.wait(SECONDS)
    assert not any(thread.is_alive() for thread in owners)


def test_an_owner_that_does_not_answer_keeps_the_request(tmp_path: Path) -> None:
    file = control.ask(tmp_path, control.ControlRequest("stop", "t3"))
    assert control.answered(file, lambda: True, patience=0.0) is None
    assert control.read(file).trial == "t3"
    file = control.ask(tmp_path, control.ControlRequest("resume", "t3"))

    def ends() -> bool:
        file.unlink()
        return False

    assert control.answered(file, ends) is True


def test_an_experiment_answers_requests_before_it_ends(
    here: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    withdraw, is_held = control.withdraw, []

    def looks(files: Iterable[Path]) -> list[Path]:
        runner_of(here).pool.changed.notify_all()  # an error unless this thread holds it
        is_held.append(True)
        return withdraw(files)

    monkeypatch.setattr(control, "withdraw", looks)
    in_another_kernel(here).pause("t0")
    assert is_held == [True]


@pytest.mark.slow
def test_a_request_that_cannot_be_deleted_runs_once(
    here: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = threading.Semaphore(0)
    pending = control.pending
    monkeypatch.setattr(control, "withdraw", list)
    monkeypatch.setattr(control, "pending", lambda folder: looks.release() or pending(folder))
    file = control.ask(here.folder, control.ControlRequest("resume"))
    for _ in range(4):
        assert looks.acquire(timeout=SECONDS)
    file.unlink()
    assert len(here.notes) == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_request_that_is_a_pipe_is_refused(here: Experiment) -> None:
    file = control.ask(here.folder, control.ControlRequest("pause"))
    until(lambda: not file.exists())
    os.mkfifo(file)
    until(lambda: not file.exists())
    assert "it is not a file" in here.notes[0]


def test_a_lock_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError, match="cannot lock"):
        Claim(tmp_path / "file" / "e", threading.Condition()).acquire()
    claim = Claim(tmp_path / "e", threading.Condition())
    (tmp_path / ".e.lock").mkdir()
    assert not claim.is_elsewhere()
