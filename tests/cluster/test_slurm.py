"""Trials as jobs of Slurm: with submitit's local jobs, and on a real Slurm where `sbatch` is."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import cloudpickle
import pytest
from cluster.conftest import Hook, until

import nbckpt
from nbckpt.errors import UsageError
from nbckpt.testing import ExecutorTests
from nbckpt.trials import Executor, Experiment, Status, Trial, WorkerLostError
from nbckpt.trials.executors import open_executor, slurm, slurm_queue
from nbckpt.trials.executors.mailbox import ANSWER, REQUEST, Mailbox
from nbckpt.trials.executors.slurm import FOLDER, SlurmExecutor
from nbckpt.trials.executors.slurm_queue import Queue, Submitter

if find_spec("submitit") is None:
    pytest.skip("needs submitit", allow_module_level=True)

pytestmark = pytest.mark.slow  # each job starts two interpreters

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as the functions of a notebook

LOCAL = "slurm cluster=local timeout_min=5"
SECONDS = 120


@pytest.fixture(autouse=True)
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store. It is in place of the cluster of Ray, which the other tests of this folder have."""
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))


def answers() -> bool:
    """Whether this machine has a Slurm whose controller answers."""
    if shutil.which("sbatch") is None:
        return False
    return subprocess.run(["sinfo", "-h"], capture_output=True, timeout=60).returncode == 0


@pytest.fixture(params=["local", "slurm"])
def executor(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A text that names an executor; each job sees the disk of the kernel."""
    if request.param == "slurm" and not answers():
        pytest.skip("needs sbatch, and a controller that answers")
    folder = tmp_path
    if request.param == "slurm" and (shared := os.environ.get("NBCKPT_SLURM_FOLDER")):
        folder = Path(shared) / tmp_path.name
    monkeypatch.setenv("NBCKPT_STORE", str(folder / "store"))
    return LOCAL if request.param == "local" else "slurm timeout_min=5"


class TestSlurm(ExecutorTests):
    runs_apart = True

    @pytest.fixture
    def executor(self, executor: str) -> str:
        return executor

    @pytest.fixture
    def folder(self, executor: str) -> Path:
        """The store's folder, which the nodes of a real Slurm share."""
        return Path(os.environ["NBCKPT_STORE"])

    @pytest.fixture
    def gpus(self, executor: str) -> None:
        if executor != LOCAL:
            pytest.skip("needs a Slurm whose nodes have GPUs")


def count(config: dict[str, Any]) -> None:
    """Report 0 to 5 with a checkpoint after each second; hang after one of them in the first job."""
    checkpoint = nbckpt.get_checkpoint()
    start = checkpoint.to_dict()["i"] if checkpoint else 0
    print("begins at", start)
    for i in range(start, 6):
        nbckpt.report(i=i, start=start, pid=os.getpid(), checkpoint={"i": i + 1} if i % 2 else None)
        if i == config.get("hangs_at") and not start:
            threading.Event().wait()


def offers(config: dict[str, Any]) -> None:
    """Report with a checkpoint when one is asked for. The first job reports until then."""
    checkpoint = nbckpt.get_checkpoint()
    start = checkpoint.to_dict()["i"] if checkpoint else 0
    i = start
    while i < start + 3 or not start:
        i += 1
        asked = nbckpt.should_checkpoint()
        nbckpt.report(i=i, start=start, pid=os.getpid(), checkpoint={"i": i} if asked else None)


def run(function: Any, executor: str | Executor, config: Any = None, **options: Any) -> Experiment:
    experiment = nbckpt.run(function, config or {}, executor=executor, name="e", **options)
    assert experiment.wait(SECONDS)
    return experiment


def told(trial: Trial, name: str = "i") -> list[Any]:
    return [result[name] for result in trial.results]


def test_trials_of_a_grid_run_as_jobs(executor: str) -> None:
    experiment = run(count, executor, {"x": nbckpt.grid_search([1, 2])})
    assert [(trial.status, trial.error) for trial in experiment.trials] == [(Status.TERMINATED, "")] * 2
    assert [told(trial) for trial in experiment.trials] == [[0, 1, 2, 3, 4, 5]] * 2
    assert [trial.log() for trial in experiment.trials] == [["begins at 0"]] * 2
    assert len({trial.results[0]["pid"] for trial in experiment.trials} | {os.getpid()}) == 3
    assert [path.name for path in (experiment.folder / FOLDER).iterdir()] == ["logs"]


@pytest.fixture
def handles(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the jobs that are submitted, as submitit knows them."""
    submit, submitted = Submitter.submit, list[Any]()

    def note(*arguments: Any) -> Any:
        submitted.append(submit(*arguments))
        return submitted[-1]

    monkeypatch.setattr(Submitter, "submit", note)
    return submitted


def test_a_cancelled_job_pauses_its_trial_which_resumes(executor: str, handles: list[Any]) -> None:
    def cancel(trial: Trial, result: Mapping[str, Any]) -> None:
        if result["i"] == 3 and not result["start"]:
            handles[-1].cancel()

    experiment = run(count, executor, {"hangs_at": 3}, callbacks=[Hook(cancel)])
    (trial,) = experiment.trials
    assert trial.status == Status.PAUSED
    assert "was cancelled" in trial.note
    experiment.resume()
    assert experiment.wait(SECONDS)
    assert (trial.status, told(trial)) == (Status.TERMINATED, [0, 1, 2, 3, 4, 5])
    assert trial.failures == 0


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED", "TIMEOUT"])
def test_a_trial_goes_on_in_another_job_if_slurm_took_its_own(
    state: str, handles: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    state_of = Queue.state

    def take(trial: Trial, result: Mapping[str, Any]) -> None:
        if result["i"] == 3 and not result["start"]:
            taken.append(handles[-1].job_id)
            os.kill(result["pid"], signal.SIGKILL)

    def state_or_taken(queue: Queue, handle: Any, since: float) -> tuple[str, str]:
        told_now = state_of(queue, handle, since)
        is_taken = handle.job_id in taken and told_now[0] not in {"RUNNING", "PENDING"}
        return (state, "") if is_taken else told_now

    monkeypatch.setattr(Queue, "state", state_or_taken)
    (trial,) = run(count, LOCAL, {"hangs_at": 3}, callbacks=[Hook(take)]).trials
    assert (trial.status, trial.failures) == (Status.TERMINATED, 0)
    assert told(trial) == [0, 1, 2, 3, 4, 5]
    assert told(trial, "start")[-1] == 4


def test_a_trial_goes_on_in_another_job_at_the_time_limit() -> None:
    """Near the limit Slurm sends a signal, and the trial saves a checkpoint with its next result."""
    signalled: list[int] = []

    def limit(trial: Trial, result: Mapping[str, Any]) -> None:
        if result["i"] == 2 and not signalled:
            signalled.append(result["pid"])
            os.kill(result["pid"], signal.SIGUSR2)

    (trial,) = run(offers, LOCAL, callbacks=[Hook(limit)]).trials
    assert (trial.status, trial.failures) == (Status.TERMINATED, 0)
    at = told(trial, "start")[-1]
    assert told(trial) == list(range(1, at + 4))
    assert told(trial, "start") == [0] * at + [at] * 3
    assert len(set(told(trial, "pid"))) == 2


def test_a_trial_without_progress_does_not_go_on_for_ever() -> None:
    (trial,) = run(count, LOCAL, {"hangs_at": 0}, callbacks=[Hook(taken)]).trials
    assert trial.status == Status.ERROR
    assert "saved no checkpoint in that time" in trial.error


def taken(trial: Trial, result: Mapping[str, Any]) -> None:
    """Do what a job does that Slurm starts a second time."""
    (mailbox,) = trial.folder.parent.glob(f"{FOLDER}/t0-*")
    Mailbox.of_job(mailbox).send(b"R")


def test_a_job_of_a_lost_kernel_ends(tmp_path: Path) -> None:
    (trial,) = run(count, LOCAL, {"hangs_at": 0}, callbacks=[Hook(lost)]).trials
    assert trial.status == Status.ERROR
    # As a program that was interrupted, and not killed.
    assert "ended without an answer to its kernel" in trial.error


def lost(trial: Trial, result: Mapping[str, Any]) -> None:
    """Remove the mailbox, as the next kernel does."""
    (mailbox,) = trial.folder.parent.glob(f"{FOLDER}/t0-*")
    shutil.rmtree(mailbox)


def test_jobs_that_start_together_are_one_array(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, submit = Mock(wraps=slurm_queue.opened), Mock(wraps=Submitter("local", window_s=3).submit)
    monkeypatch.setattr(slurm_queue, "opened", opened)
    monkeypatch.setattr(Submitter, "submit", submit)
    experiment = run(count, LOCAL, {"x": nbckpt.grid_search([1, 2, 3])})
    assert (opened.call_count, submit.call_count) == (1, 3)
    assert [trial.status for trial in experiment.trials] == [Status.TERMINATED] * 3


def test_an_interrupted_leader_leaves_no_trial_waiting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first of several trials submits the jobs of all."""
    submitter, errors = slurm_queue.Submitter("local", window_s=3), list[BaseException]()

    def follow() -> None:
        until(lambda: bool(submitter.waiting))
        try:
            submitter.submit(tmp_path / "second", tmp_path, {})
        except BaseException as error:
            errors.append(error)

    monkeypatch.setattr(slurm_queue, "opened", Mock(side_effect=KeyboardInterrupt))
    follower = threading.Thread(target=follow)
    follower.start()
    with pytest.raises(KeyboardInterrupt):
        submitter.submit(tmp_path / "first", tmp_path, {})
    follower.join(SECONDS)
    assert [type(error) for error in errors] == [WorkerLostError]


class Submitting:
    """Submits one job in this thread and another in a second thread, and interrupts this thread.

    Args:
        leads: Whether this thread is the first, which submits the jobs of both.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, leads: bool) -> None:
        self.folder, self.leads, self.submitted = folder, leads, list[str]()
        self.errors: list[BaseException] = []
        self.submitter = Submitter("local", window_s=SECONDS)
        monkeypatch.setattr(slurm_queue, "opened", lambda *_: self)

    def submit(self, function: Any, mailbox: str) -> str:
        """Take a job, as an executor of submitit does."""
        self.submitted.append(Path(mailbox).name)
        return "job"

    def batch(self) -> Any:
        return nullcontext()

    def other(self) -> None:
        """Submit a job, after the main thread if that leads. Interrupt that when both wait."""
        waiting = self.submitter.waiting
        if self.leads:
            until(lambda: bool(waiting))
        main = threading.main_thread().ident or 0
        interrupt = threading.Thread(
            target=lambda: (
                until(lambda: any(len(batch) == 2 for batch in waiting.values())),
                signal.pthread_kill(main, signal.SIGINT),
            )
        )
        interrupt.start()
        try:
            self.submitter.submit(self.folder / "other", self.folder, {})
        except BaseException as error:
            self.errors.append(error)
        interrupt.join(SECONDS)

    def run(self) -> None:
        other = threading.Thread(target=self.other)
        other.start()
        if not self.leads:
            until(lambda: bool(self.submitter.waiting))
        with pytest.raises(KeyboardInterrupt):
            self.submitter.submit(self.folder / "main", self.folder, {})
        self.submitter.hurry.set()
        other.join(SECONDS)


def test_an_interrupted_leader_submits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitting = Submitting(tmp_path, monkeypatch, leads=True)
    submitting.run()
    assert submitting.submitted == []
    assert [type(error) for error in submitting.errors] == [WorkerLostError]
    assert submitting.submitter.waiting == {}


def test_the_job_of_an_interrupted_trial_is_not_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another trial leads, and its own job goes on."""
    submitting = Submitting(tmp_path, monkeypatch, leads=False)
    submitting.run()
    assert (submitting.submitted, submitting.errors) == (["other"], [])


def test_parameters_of_jobs_are_those_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "opened", opened := Mock())
    executor = SlurmExecutor(partition="gpu", timeout_min=60, slurm_qos="low", mem_gb=4)
    executor.check({"GPU": 2, "CPU": 4})
    assert opened.call_args.args[2] == {
        "slurm_job_name": "check",
        "slurm_additional_parameters": {"no-requeue": True},
        "gpus_per_node": 2,
        "cpus_per_task": 4,
        "slurm_partition": "gpu",
        "timeout_min": 60,
        "slurm_qos": "low",
        "mem_gb": 4,
    }
    assert executor.name == "slurm partition=gpu timeout_min=60 slurm_qos=low mem_gb=4"


@pytest.mark.parametrize(
    ("text", "resources", "message"),
    [
        ("slurm cluster=local no_such=1 nodes=2", {}, "executor='slurm' with"),
        ("slurm cluster=local", {"GPU": 0.5}, "gpus=0.5"),
        ("slurm partition", {}, "'partition' is not an option"),
        ("thread partition=gpu", {}, "the executor thread takes no options"),
    ],
)
def test_wrong_options_are_refused(text: str, resources: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_executor(text, resources)


def test_a_missing_slurm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="there is no Slurm on this machine"):
        open_executor("slurm", {})
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UsageError, match=r"pip install 'nbckpt\[slurm\]'"):
        open_executor("slurm", {})


def test_a_message_comes_once_and_whole(tmp_path: Path) -> None:
    kernel = Mailbox.of_kernel(tmp_path / "box")
    job = Mailbox.of_job(tmp_path / "box")
    assert not job.was_used
    kernel.send(REQUEST, b"a" * 100_000)
    kernel.send(REQUEST)
    whole = (tmp_path / "box" / "to_job").read_bytes()
    (tmp_path / "box" / "to_job").write_bytes(whole[:50_000])
    assert job.receive() == []
    (tmp_path / "box" / "to_job").write_bytes(whole[:-3])
    assert job.receive() == [(REQUEST, b"a" * 100_000)]
    (tmp_path / "box" / "to_job").write_bytes(whole)
    assert [job.receive(), job.receive()] == [[(REQUEST, b"")], []]
    job.send(ANSWER, b"b")
    assert job.was_used
    assert (kernel.receive(), job.sent_to_me()) == ([(ANSWER, b"b")], len(whole))
    shutil.rmtree(tmp_path / "box")
    assert job.sent_to_me() == -1


def test_a_full_disk_leaves_no_half_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, job = Mailbox.of_kernel(tmp_path / "box"), Mailbox.of_job(tmp_path / "box")
    write, left = os.write, [30]

    def fills(file: int, data: Any) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(file, bytes(data[: left[0]]))
        left[0] -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fills)
        with pytest.raises(OSError, match="No space left"):
            kernel.send(REQUEST, b"a" * 100)
    kernel.send(REQUEST, b"b")
    assert job.receive() == [(REQUEST, b"b")]


@pytest.mark.parametrize("frame", [b"?" + bytes(8), ANSWER + b"\xff" * 8, b"no message at all"])
def test_a_hostile_message_is_an_error_and_never_a_wait(frame: bytes) -> None:
    def spoils(trial: Trial, result: Mapping[str, Any]) -> None:
        (mailbox,) = trial.folder.parent.glob(f"{FOLDER}/t0-*")
        with (mailbox / "to_kernel").open("ab") as file:
            file.write(frame)

    (trial,) = run(count, LOCAL, {"hangs_at": 3}, callbacks=[Hook(spoils)]).trials
    assert trial.status == Status.ERROR
    assert "to_kernel' is damaged" in trial.error


def test_an_answer_that_is_not_a_pickle_is_the_trials_error() -> None:
    def spoils(trial: Trial, result: Mapping[str, Any]) -> None:
        (mailbox,) = trial.folder.parent.glob(f"{FOLDER}/t0-*")
        Mailbox.of_job(mailbox).send(ANSWER, b"no pickle")

    (trial,) = run(count, LOCAL, callbacks=[Hook(spoils)]).trials
    assert (trial.status, trial.iteration) == (Status.ERROR, 1)
    assert "the reported result cannot be loaded here" in trial.error


def test_a_full_disk_at_the_job_ends_it_and_at_the_kernel_fails() -> None:
    def fills(config: dict[str, Any]) -> None:
        for i in range(4):
            if i == config["i"]:
                os.write = full  # as the disk of the job is for its mailbox
            nbckpt.report(i=i)

    def full(file: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    (trial,) = run(fills, LOCAL, {"i": 2}).trials
    assert (trial.status, trial.iteration) == (Status.ERROR, 2)
    assert "the job cannot answer its kernel: No space left on device" in trial.error


def test_a_second_kernel_cannot_run_the_trials_of_jobs() -> None:
    refused: list[str] = []

    def second(trial: Trial, result: Mapping[str, Any]) -> None:
        if result["i"] == 1:
            resume = f"nbckpt.open_experiment({str(trial.folder.parent)!r}).resume('t0', trust=True)"
            command = [sys.executable, "-c", f"import nbckpt; {resume}"]
            refused.append(subprocess.run(command, capture_output=True, text=True, timeout=SECONDS).stderr)

    (trial,) = run(count, LOCAL, callbacks=[Hook(second)]).trials
    assert (trial.status, told(trial)) == (Status.TERMINATED, [0, 1, 2, 3, 4, 5])
    assert len(refused) == 1


class SlurmJob:
    """A job of Slurm, as the queue knows it."""

    job_id = "7_1"


def test_one_question_answers_for_all_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, asked = tmp_path / "squeue", tmp_path / "asked"
    program.write_text(
        f'#!/bin/sh\necho x >> {asked}\nprintf "7_1|PENDING|for A|B \\\\344\\n8|RUNNING|None\\n"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    queue = Queue(period_s=1000)
    assert [queue.state(SlurmJob(), 0) for _ in range(3)] == [("PENDING", "for A|B \ufffd")] * 3
    assert asked.read_text() == "x\n"
    program.write_text("#!/bin/sh\nexit 1\n")
    assert Queue().state(SlurmJob(), -1000) == ("", "")
    program.write_text("#!/bin/sh\n")
    assert Queue(period_s=0).state(SlurmJob(), -1000) == ("GONE", "")


def test_a_folder_of_mailboxes_that_is_a_link_is_refused(tmp_path: Path) -> None:
    outside, experiment = tmp_path / "outside" / "t0-mine", tmp_path / "store/experiments/e"
    outside.mkdir(parents=True)
    experiment.mkdir(parents=True)
    (experiment / FOLDER).symlink_to(outside.parent)
    (trial,) = run(count, LOCAL, {"most": 2}).trials
    assert "is a link that leads outside: remove it" in trial.error
    assert outside.is_dir()
    assert [path.name for path in outside.parent.iterdir()] == ["t0-mine"]
