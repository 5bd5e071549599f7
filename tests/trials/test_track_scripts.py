"""track in a script: what its end, an error, a kill and Ctrl-C leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nbckpt.trials import Catalog, Status
from nbckpt.trials.views.statuses import states_of

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
