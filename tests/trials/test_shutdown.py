"""The end of a process: a script waits for its trials, a kernel and an interrupt pause them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nbckpt.errors import StoreError
from nbckpt.trials import Catalog, Status
from nbckpt.trials.engine import shutdown

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be interrupted there")

THREE = """
import nbckpt, sys
def train(config):
    if config["x"] == 1:
        sys.stdin.readline()
    for i in range(20):
        nbckpt.report(i=i)
nbckpt.run(train, {"x": nbckpt.grid_search([1, 2, 3])}, name="e", max_concurrent=1)
"""
FOREVER = """
import nbckpt, sys, threading
began = threading.Event()
def train(config):
    i = 0
    while True:
        i += 1
        nbckpt.report(i=i, checkpoint={"i": i})
        began.set()
nbckpt.run(train, name="e")
began.wait()
"""
SAYS = "nbckpt: waiting for 1 trial of e; Ctrl-C pauses them\n"


def started(script: str, store: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env=os.environ | {"NBCKPT_STORE": str(store)},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def statuses(store: Path) -> list[Status]:
    return [trial.status for trial in Catalog(store / "experiments").open("e").trials]


@pytest.mark.slow
def test_a_script_waits_for_its_trials_with_a_message(tmp_path: Path) -> None:
    with started(THREE, tmp_path) as script:
        assert script.stderr.readline() == "nbckpt: waiting for 3 trials of e; Ctrl-C pauses them\n"
        said = script.communicate("go on\n")[1]
    assert (script.returncode, said) == (0, "")
    assert statuses(tmp_path) == [Status.TERMINATED] * 3


@pytest.mark.slow
def test_ctrl_c_pauses_the_trials_that_a_script_waits_for(tmp_path: Path) -> None:
    with started(FOREVER, tmp_path) as script:
        assert script.stderr.readline() == SAYS
        script.send_signal(signal.SIGINT)
        assert script.stderr.read().startswith("nbckpt: pausing e after the next result of each trial")
    trial = Catalog(tmp_path / "experiments").open("e").trials[0]
    assert (trial.status, trial.unsaved_results) == (Status.PAUSED, 0)


def test_a_second_ctrl_c_ends_a_script_at_once(tmp_path: Path) -> None:
    reports = 'nbckpt.report(i=i, checkpoint={"i": i})\n        began.set()'
    blocked = FOREVER.replace(reports, "began.set()\n        threading.Event().wait()")
    with started(blocked, tmp_path) as script:
        assert script.stderr.readline() == SAYS
        script.send_signal(signal.SIGINT)
        assert "Ctrl-C again" in script.stderr.readline()
        script.send_signal(signal.SIGINT)
        assert "ended at once" in script.stderr.readline()
    experiment = Catalog(tmp_path / "experiments").open("e")
    assert experiment.interrupted(experiment.trials[0])


def test_a_script_that_ctrl_c_ended_pauses_its_trials(tmp_path: Path) -> None:
    waits = FOREVER + "print('waits', file=sys.stderr, flush=True)\nthreading.Event().wait()\n"
    with started(waits, tmp_path) as script:
        assert script.stderr.readline() == "waits\n"
        script.send_signal(signal.SIGINT)
        assert "nbckpt: pausing e. Continue: nbckpt resume NAME" in script.stderr.read()
    assert statuses(tmp_path) == [Status.PAUSED]


@pytest.mark.slow
def test_trials_that_were_asked_to_stop_are_not_waited_for(tmp_path: Path) -> None:
    stops = FOREVER.replace("nbckpt.run(", "runs = nbckpt.run(") + "runs.stop()\n"
    with started(stops, tmp_path) as script:
        assert script.stderr.read() == ""
    assert statuses(tmp_path) == [Status.TERMINATED]


def test_a_kernel_that_ends_pauses_its_trials(tmp_path: Path) -> None:
    kernel = "import sys, types; kernel = types.SimpleNamespace(kernel=1)\n"
    kernel += "sys.modules['IPython'] = types.SimpleNamespace(get_ipython=lambda: kernel)\n"
    with started(kernel + FOREVER, tmp_path) as script:
        assert script.stderr.read() == ""
    assert statuses(tmp_path) == [Status.PAUSED]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks there")
def test_a_fork_of_a_script_does_not_wait_for_its_trials() -> None:
    shutdown.live[Path("e")] = busy = type("Busy", (), {})()  # which can be referred to weakly
    try:
        child = os.fork()
        if not child:
            os._exit(len(shutdown.live))
        assert (os.waitpid(child, 0)[1], busy in shutdown.live.values()) == (0, True)
    finally:
        shutdown.live.clear()


def test_an_experiment_that_fails_to_pause_leaves_others_paused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Running:
        running, ending, unfinished = True, False, 1

        def __init__(self, name: str) -> None:
            self.name, self.is_paused, self._internals = name, False, self

        def pause(self) -> None:
            self.is_paused = True
            if self.name == "a":
                raise StoreError("the disk is full")

        def wait(self, timeout: float | None = None) -> bool:
            return self.is_paused

    both = [Running("a"), Running("b")]
    monkeypatch.setattr(shutdown, "live", dict(enumerate(both)))
    shutdown.pause_all()
    assert [one.is_paused for one in both] == [True, True]
    assert "a cannot be paused: the disk is full" in caplog.text
