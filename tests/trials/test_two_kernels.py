"""One experiment and two kernels: what the other one did is seen, and nothing of it is done twice."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt.errors import UsageError
from nbckpt.trials import Experiment, Status
from nbckpt.trials.experiment import _live
from nbckpt.trials.recorder import TrialRecorder
from nbckpt.trials.trial import Trial

SECONDS = 30


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def in_another_kernel(experiment: Experiment) -> Experiment:
    """Return an experiment as another kernel has it, which knows only what is on the disk."""
    here = _live.pop(experiment.folder)
    other = Experiment.read(experiment.folder)
    _live[experiment.folder] = here
    return other


def failing(fails: list[bool]) -> Callable[[dict[str, Any]], None]:
    def train(config: dict[str, Any]) -> None:
        if fails[0]:
            raise RuntimeError("broken")
        nbckpt.report(loss=1.0)

    return train


def test_a_trial_that_another_kernel_finished_is_not_run_again() -> None:
    fails = [True]
    here = nbckpt.run(failing(fails), name="e")
    assert here.wait(SECONDS)
    assert here.trials[0].status == Status.ERROR
    other = in_another_kernel(here)
    other.spec = here.spec  # the function by reference, so that it sees what is fixed
    fails[0] = False
    assert other.resume(errored=True).wait(SECONDS)
    with pytest.raises(UsageError, match="nothing to resume"):
        here.resume(errored=True)
    assert (here.trials[0].status, here.trials[0].attempts) == (Status.TERMINATED, 2)


@pytest.mark.parametrize("look", [Experiment.table, Experiment.dataframe, lambda it: it.best("loss", "min")])
def test_whoever_looks_sees_what_another_kernel_did(look: Callable[[Experiment], Any]) -> None:
    fails = [True]
    here = nbckpt.run(failing(fails), name="e")
    assert here.wait(SECONDS)
    with TrialRecorder(in_another_kernel(here).trials[0]) as recorder:
        recorder.start("thread", None)
        recorder.result({"training_iteration": 1, "loss": 0.5})
        recorder.end("done")
    look(here)
    assert here.trials[0].status == Status.TERMINATED


def test_a_run_that_is_refused_changes_nothing_of_what_runs(store: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1.0)

    here = nbckpt.run(train, {"x": 1}, name="e")
    assert here.wait(SECONDS)
    folder = store / "experiments/e"

    def content() -> dict[str, bytes]:
        return {str(it): it.read_bytes() for it in folder.rglob("*") if it.is_file()}

    before = content()
    _live.pop(here.folder)
    with here.claimed(), pytest.raises(UsageError, match="another kernel"):
        nbckpt.run(train, {"x": nbckpt.grid_search([1, 2])}, name="e")
    assert content() == before


def test_a_new_name_that_two_kernels_start_at_once_runs_in_one(store: Path) -> None:
    first = Experiment(store / "experiments/e", nbckpt.trials.spec.Spec(print))
    with first.claimed(), pytest.raises(UsageError, match="another kernel"):
        nbckpt.run(print, {"x": 1}, name="e")
    assert not (store / "experiments/e").exists()


def test_no_public_method_of_a_trial_writes() -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1.0)

    experiment = nbckpt.run(train, name="e")
    assert experiment.wait(SECONDS)
    trial = experiment.trials[0]
    before = {it: it.read_bytes() for it in trial.folder.rglob("*") if it.is_file()}
    arguments = {"name": "loss", "what": "loss", "of": trial, "make": dict, "folder": trial.folder}
    for name, method in inspect.getmembers(Trial, callable):
        if not name.startswith("_"):
            wanted = inspect.signature(getattr(trial, name)).parameters.values()
            getattr(trial, name)(**{it.name: arguments[it.name] for it in wanted if it.default is it.empty})
            assert method.__doc__
    assert str(trial) == "Trial(t0, TERMINATED, 1 results)"
    assert {it: it.read_bytes() for it in trial.folder.rglob("*") if it.is_file()} == before
