"""A kernel that dies during a search: rungs, decisions and counts go on as if it had lived."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import forget, ran
from trials.test_asha import train

import nbckpt
from late import library
from nbckpt.trials import ASHA, Catalog, Experiment, OptunaPruner, Trial
from nbckpt.trials.engine import shutdown
from nbckpt.trials.model.journal import Journal, read
from nbckpt.trials.model.trial import rungs_of

SECONDS = 60
KILLS = 3
ASHAS = {"promote": {"max_t": 9}, "stop": {"max_t": 9, "rule": "stop"}}


def search(folder: Path, rule: str, **options: Any) -> Experiment:
    options = {"executor": "inline", "name": "e", "metric": "loss", "mode": "min", "folder": folder} | options
    space = {"x": nbckpt.grid_search([3, 1, 2, 0, 4])}
    return ran(train, space, scheduler=ASHA(**ASHAS[rule]), **options)


def told(experiment: Experiment) -> list[Any]:
    """Return what must not depend on a death: the state of each trial, its rungs and its results."""
    trials = experiment.trials
    return [(trial.id, trial.status, trial.rungs, trial.stopped_early, steps_of(trial)) for trial in trials]


def steps_of(trial: Trial) -> list[int]:
    return [result["training_iteration"] for result in trial.results]


def copied_before_each_event(run: Callable[[Path], Experiment], folder: Path) -> tuple[list[Any], list[Path]]:
    """Run a search. Return what it told, and a copy of its folder as a death before each event leaves it."""
    copies: list[Path] = []
    append = Journal.append

    def copying(journal: Journal, event: Any, **how: Any) -> None:
        copies.append(shutil.copytree(folder / "first", folder / f"copy{len(copies)}"))
        append(journal, event, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "append", copying)
        experiment = run(folder / "first")
    whole = told(experiment)
    forget(experiment)
    return whole, copies


def continues_alike(run: Callable[[Path], Experiment], whole: list[Any], copies: list[Path]) -> None:
    """Hold that the search goes on to the same end from each copy."""
    for copy in copies:
        shutdown.live.clear()
        again = run(copy)
        assert told(again) == whole, copy
        forget(again)
        shutil.rmtree(copy)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ASHAS)
def test_a_death_at_any_event_changes_nothing(rule: str, tmp_path: Path) -> None:
    whole, copies = copied_before_each_event(lambda folder: search(folder, rule), tmp_path)
    assert len(copies) > 30
    continues_alike(lambda folder: search(folder, rule), whole, copies)


def saves(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    start = checkpoint.to_dict()["step"] if checkpoint else 0
    for step in range(start + 1, 10):
        loss = config["x"] + (9 - config["x"]) / step  # curves that cross
        nbckpt.report(loss=loss, checkpoint={"step": step} if step % 2 else None)


PRUNERS = {
    "hyperband": {"max_resource": 9},
    "hyperband, the first trial says how far": {},
    "successivehalving": {"reduction_factor": 2},
    "median": {"n_startup_trials": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("pruner", PRUNERS)
def test_a_death_changes_no_bracket_and_no_rung(pruner: str, tmp_path: Path) -> None:
    library("optuna", reason="pruners")

    def run(folder: Path) -> Experiment:
        scheduler = OptunaPruner(pruner.partition(",")[0], **PRUNERS[pruner])
        return ran(
            saves, {"x": nbckpt.grid_search([3, 1, 4, 0, 5])}, scheduler=scheduler, name="e", seed=1,
            folder=folder, metric="loss", mode="min", executor="inline",
        )  # fmt: skip

    whole, copies = copied_before_each_event(run, tmp_path)
    assert {row[3] for row in whole} == {True, False}  # some are pruned
    continues_alike(run, whole, copies)


KERNEL = """
import sys
import nbckpt

def train(config):
    checkpoint = nbckpt.get_checkpoint()
    start = checkpoint.to_dict()["step"] if checkpoint else 0
    for step in range(start + 1, 100):
        loss = float("nan") if step == {odd} else config["x"] + 1 / step
        nbckpt.report(loss=loss, checkpoint={{"step": step}} if {saves} else None)
        sys.stdout.write("report\\n")
        sys.stdout.flush()

nbckpt.run(
    train, {{"x": nbckpt.uniform(0, 9)}}, num_samples=12, seed=1, name="e", metric="loss", mode="min",
    max_concurrent=2, search={search!r}, stop={stop}, scheduler=nbckpt.trials.{scheduler},
).wait()
"""


def asha_kernel(search: str) -> str:
    saves = "nbckpt.should_checkpoint()"
    return KERNEL.format(odd=0, saves=saves, search=search or None, stop=None, scheduler="ASHA(max_t=27)")


def pruned_kernel() -> str:
    stop, scheduler = {"training_iteration": 9}, 'OptunaPruner("hyperband", max_resource=9)'
    return KERNEL.format(odd=2, saves="step % 2", search=None, stop=stop, scheduler=scheduler)


def killed_after(store: Path, kernel: str, lines: int) -> None:
    """Run a kernel, and kill it after so many reports returned."""
    environment = os.environ | {"NBCKPT_STORE": str(store)}
    with subprocess.Popen(
        [sys.executable, "-c", kernel], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in zip(process.stdout, range(lines), strict=False):
            pass
        process.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        process.stdout.read()


@pytest.mark.slow
@pytest.mark.parametrize("search", ["", "random", "tpe"])
def test_killed_kernels_leave_a_search_that_goes_on(search: str, tmp_path: Path) -> None:
    if search:
        library("optuna", reason="samplers")
    draw = random.Random(search)
    for _ in range(KILLS):
        killed_after(tmp_path, asha_kernel(search), draw.randrange(1, 9))
    before = {trial.id: trial.rungs for trial in Catalog(tmp_path / "experiments").open("e").trials}
    killed_after(tmp_path, asha_kernel(search), 10_000)  # this one ends by itself
    shutdown.live.clear()
    experiment = Catalog(tmp_path / "experiments").open("e")
    assert len(experiment.trials) == 12
    assert len({trial.config["x"] for trial in experiment.trials}) == 12
    for trial in experiment.trials:
        assert trial.rungs.items() >= before.get(trial.id, {}).items()
        assert [result["training_iteration"] for result in trial.results] == [*range(1, trial.iteration + 1)]
        promoted = [event["rung"] for event in read(trial.folder / "events.jsonl") if is_promotion(event)]
        assert promoted == sorted(set(promoted))
        assert trial.iteration in {3 ** (rungs_of(trial) - 1), 27}
    ranked = sorted(experiment.trials, key=lambda trial: trial.rungs[0])
    assert all(1 in trial.rungs for trial in ranked[:4])
    assert max(trial.iteration for trial in experiment.trials) == 27


@pytest.mark.slow
def test_killed_kernels_leave_the_rungs_of_a_pruner(tmp_path: Path) -> None:
    library("optuna", reason="pruners")
    draw = random.Random(1)
    before: dict[str, Any] = {}
    for _ in range(KILLS):
        killed_after(tmp_path, pruned_kernel(), draw.randrange(1, 9))
        experiment = Catalog(tmp_path / "experiments").open("e")
        for trial in experiment.trials:
            assert trial.rungs.items() >= before.get(trial.id, {}).items()
            before[trial.id] = trial.rungs
        shutdown.live.clear()
    killed_after(tmp_path, pruned_kernel(), 10_000)  # this one ends by itself
    shutdown.live.clear()
    experiment = Catalog(tmp_path / "experiments").open("e")
    assert not experiment.notes
    for trial in experiment.trials:
        assert trial.rungs.items() >= before.get(trial.id, {}).items()
        assert steps_of(trial) == [*range(1, trial.iteration + 1)]
        assert trial.stopped_early or trial.iteration == 9
    assert {trial.stopped_early for trial in experiment.trials} == {True, False}


def is_promotion(event: Any) -> bool:
    return bool(event["event"] == "decision" and event["do"] == "promote")
