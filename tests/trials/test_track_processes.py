"""track in scripts and in several processes: each owns its trials, whatever ends one of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt.cli import main
from nbckpt.errors import Interrupted, UsageError
from nbckpt.trials import Catalog, Status
from nbckpt.trials.engine.claim import OpenClaims
from nbckpt.trials.views.statuses import states_of

OTHER = """
import nbckpt, os, sys
print("began", flush=True)
run = None
for line in sys.stdin:
    try:
        exec(line)
        print("done", flush=True)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
os._exit(0)
"""


class Other:
    """A second process, which runs lines of code one after the other."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.heard() == "began"

    def heard(self) -> str:
        return self.process.stdout.readline().strip()

    def does(self, line: str) -> str:
        """Run a line. Return `done`, or the error."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.heard()

    def is_killed(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def other(store: Path) -> Iterator[Other]:
    process = Other()
    with process.process:
        yield process
        process.is_killed()


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    from nbckpt.trials.engine.open_trial import open_trials

    for trial in open_trials():
        trial.finish()
        trial.experiment.wait()


def states(store: Path) -> dict[str, str]:
    return states_of(Catalog(store / "experiments").open("e"))


def test_two_processes_track_one_experiment(store: Path, other: Other) -> None:
    mine = nbckpt.track("e", lr=0.1)
    assert other.does("run = nbckpt.track('e', lr=0.2); run.report(loss=2)") == "done"
    mine.report(loss=1)
    assert states(store) == {"t0": "running", "t1": "running"}
    assert other.does("run.report(loss=3); run.finish()") == "done"
    mine.report(loss=0.5)
    assert states(store) == {"t0": "running", "t1": "done"}
    mine.finish()
    t0, t1 = Catalog(store / "experiments").open("e").trials
    assert (t0.metric("loss"), t1.metric("loss")) == ([1, 0.5], [2, 3])
    assert (t0.config, t1.config) == ({"lr": 0.1}, {"lr": 0.2})
    mine = nbckpt.track("f")
    other.does("run = nbckpt.track('f'); run.report(loss=2)")
    mine.experiment.refresh()
    assert [trial.iteration for trial in mine.experiment.trials] == [0, 1]
    assert states_of(mine.experiment) == {"t0": "running", "t1": "running"}


@pytest.mark.slow
def test_numbers_of_trials_never_collide(store: Path) -> None:
    code = "import nbckpt\nfor _ in range(5):\n    with nbckpt.track('e') as run: run.report(x=1)"
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    trials = Catalog(store / "experiments").open("e").trials
    assert [trial.id for trial in trials] == [f"t{number}" for number in range(15)]
    assert {(trial.status, trial.iteration) for trial in trials} == {(Status.TERMINATED, 1)}


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be killed like that there")
def test_a_killed_process_is_interrupted_and_the_other_goes_on(store: Path, other: Other) -> None:
    mine = nbckpt.track("e")
    other.does("run = nbckpt.track('e', lr=1); run.report(loss=2, checkpoint={'step': 1})")
    other.is_killed()
    mine.report(loss=1)
    assert states(store) == {"t0": "running", "t1": "interrupted"}
    resumed = nbckpt.track("e", resume=True, lr=1)
    assert (resumed.trial_id, resumed.iteration) == ("t1", 1)


@pytest.mark.slow
def test_a_trial_that_another_process_has_open_is_not_resumed(store: Path, other: Other) -> None:
    other.does("run = nbckpt.track('e')")
    with pytest.raises(UsageError, match="e/t0 is open in another kernel or process"):
        nbckpt.track("e", resume="t0")
    assert nbckpt.track("e", resume=True).trial_id == "t1"
    assert states(store) == {"t0": "running", "t1": "running"}


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "state"), [("pause", "paused"), ("stop", "stopped")])
def test_a_third_process_ends_one_trial_or_all(store: Path, other: Other, verb: str, state: str) -> None:
    mine = nbckpt.track("e")
    other.does("run = nbckpt.track('e')")
    assert main([verb, "e/t1"]) == 0
    assert other.does("run.report(loss=1)").startswith(f"Interrupted: e/t1 was {state}")
    assert states(store) == {"t0": "running", "t1": state}
    other.does("run = nbckpt.track('e')")
    assert main([verb, "e"]) == 0
    assert other.does("run.report(loss=1)").startswith(f"Interrupted: e/t2 was {state}")
    with pytest.raises(Interrupted):
        mine.report(loss=1)
    assert {*states(store).values()} == {state}


@pytest.mark.slow
def test_a_checkpoint_is_asked_of_the_process_that_has_the_trial(store: Path, other: Other) -> None:
    mine = nbckpt.track("e")
    other.does("run = nbckpt.track('e')")
    assert main(["checkpoint", "e/t1"]) == 0
    assert other.does("assert nbckpt.should_checkpoint()") == "done"
    assert not nbckpt.should_checkpoint()
    assert mine.is_open
    assert states(store)["t0"] == "running"


def test_an_experiment_with_an_open_trial_is_not_removed(
    store: Path, other: Other, capsys: pytest.CaptureFixture[str]
) -> None:
    other.does("run = nbckpt.track('e')")
    assert main(["rm", "e"]) == 1
    assert "e is running. Stop it first" in capsys.readouterr().err
    assert main(["gc"]) == 0
    other.does("run.finish(); run.experiment.wait()")
    assert main(["rm", "e"]) == 0
    assert not (store / "experiments/e").exists()


def test_a_push_beside_two_open_trials_takes_both(store: Path, other: Other, tmp_path: Path) -> None:
    del store
    nbckpt.track("e").report(loss=1)
    other.does("run = nbckpt.track('e'); run.report(loss=2)")
    assert main(["push", str(tmp_path / "target")]) == 0
    pushed = nbckpt.open_experiment("e", str(tmp_path / "target"))
    assert [trial.metric("loss") for trial in pushed.trials] == [[1], [2]]


def test_a_function_cannot_run_under_the_name_of_a_loop(other: Other) -> None:
    other.does("run = nbckpt.track('e')")
    with pytest.raises(UsageError, match="was tracked from a plain loop"):
        nbckpt.run(lambda config: None, name="e")
    assert other.does("run.report(loss=1)") == "done"


@pytest.mark.slow
def test_the_end_of_a_process_leaves_the_trials_of_others(store: Path, other: Other) -> None:
    mine = nbckpt.track("e")
    code = "import nbckpt; nbckpt.track('e').report(loss=1)"
    subprocess.run([sys.executable, "-c", code], check=True)
    mine.report(loss=1)
    assert other.does("nbckpt.track('e').finish()") == "done"
    assert states(store) == {"t0": "running", "t1": "done", "t2": "done"}


def test_no_lock_of_a_trial_is_left(store: Path) -> None:
    first, second = nbckpt.track("e"), nbckpt.track("f")
    for trial in (first, second):
        trial.finish()
        trial.experiment.wait()
    assert not list((store / "experiments").glob(".*.open"))


def test_a_trial_whose_lock_cannot_be_made_is_not_opened(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise nbckpt.errors.StoreError("cannot lock: no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(OpenClaims, "acquire", full)
        with pytest.raises(nbckpt.errors.StoreError, match="no space left"):
            nbckpt.track("e")
    assert not Catalog(store / "experiments").open("e").running
    assert nbckpt.track("e", resume=True).trial_id == "t0"


FORK = """
import nbckpt, os, sys
run = nbckpt.track('e')
child = os.fork()
if not child:
    with nbckpt.track('e') as own: own.report(x=own.trial_id)
    os._exit(0)
run.report(x=os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks there")
def test_a_fork_tracks_a_trial_of_its_own(store: Path) -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True)
    t0, t1 = Catalog(store / "experiments").open("e").trials
    assert (t0.results[0]["x"], t1.results[0]["x"]) == (0, "t1")


def test_the_hint_after_a_pause_is_a_call_that_works(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nbckpt.track("e").experiment.folder == store / "experiments/e"
    assert main(["pause", "e"]) == 0
    assert "nbckpt.track('e', resume=True)" in capsys.readouterr().out


BEGIN = """
import nbckpt, os, sys
run = nbckpt.track("e", lr=0.1, resume=True)
start = run.checkpoint.to_dict()["step"] if run.checkpoint else 0
for step in range(start, 3):
    nbckpt.report(loss=1 / (step + 1), checkpoint={"step": step + 1})
"""


def python(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command, environment = [sys.executable, *words], os.environ | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def ran(script: str, store: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return python("-c", script, *words, NBCKPT_STORE=str(store))


def experiment(store: Path) -> Any:
    return Catalog(store / "experiments").open("e")


def test_the_end_of_a_script_ends_its_trial_as_done(tmp_path: Path) -> None:
    done = ran(BEGIN, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (trial,) = experiment(tmp_path).trials
    assert (trial.status, trial.iteration) == (Status.TERMINATED, 3)


def test_an_uncaught_error_of_a_script_fails_its_trial(tmp_path: Path) -> None:
    assert "ValueError: too hot" in ran(BEGIN + "raise ValueError('too hot')", tmp_path).stderr
    (trial,) = experiment(tmp_path).trials
    assert (trial.status, trial.error) == (Status.ERROR, "ValueError: too hot")
    assert "raise ValueError" in trial.traceback or "<string>" in trial.traceback


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be killed like that there")
def test_a_killed_script_goes_on_where_its_checkpoint_was(tmp_path: Path) -> None:
    killed = ran(BEGIN.replace("range(start, 3)", "range(start, 2)") + "os.kill(os.getpid(), 9)", tmp_path)
    assert killed.returncode == -signal.SIGKILL
    assert states_of(experiment(tmp_path)) == {"t0": "interrupted"}
    assert ran(BEGIN, tmp_path).returncode == 0
    (trial,) = experiment(tmp_path).trials
    assert (trial.metric("loss"), trial.attempts) == ([1, 1 / 2, 1 / 3], 2)


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be interrupted like that there")
def test_ctrl_c_pauses_the_trial_of_a_script(tmp_path: Path) -> None:
    ran(BEGIN + "import signal; os.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(60)", tmp_path)
    assert states_of(experiment(tmp_path)) == {"t0": "paused"}


@pytest.mark.slow
def test_a_second_process_opens_a_trial_of_its_own(tmp_path: Path) -> None:
    inner = f"{BEGIN}import subprocess; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    done = ran(inner, tmp_path, BEGIN)
    assert (done.returncode, done.stderr) == (0, "")
    assert [trial.iteration for trial in experiment(tmp_path).trials] == [3, 3]


@pytest.mark.slow
def test_a_tracked_script_is_reproduced_with_equal_metrics(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "loop.py").write_text(BEGIN)
    monkeypatch.setenv("NBCKPT_PROVENANCE", "1")
    monkeypatch.chdir(tmp_path)
    assert python(str(tmp_path / "loop.py")).returncode == 0
    assert "Wrote again" in python("-m", "nbckpt", "reproduce", "e/t0", "-o", "again").stdout
    assert "loss: 0.3333333333333333 = 0.3333333333333333" in python("again/run.py").stdout
