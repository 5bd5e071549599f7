"""Kernels that die: no report is lost or there twice, and trials and searches go on."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import forget, ran
from trials.test_asha import train

import nbckpt
from attack import share
from late import library
from nbckpt.store.base import CACHE
from nbckpt.trials import ASHA, Catalog, Experiment, OptunaPruner, Status, Trial
from nbckpt.trials.engine import shutdown
from nbckpt.trials.model.journal import Journal, read
from nbckpt.trials.model.trial import rungs_of

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


def killed_after(store: Path, kernel: str, lines: int) -> list[str]:
    """Run a kernel, kill it after so many reports returned, and return those that it told of."""
    environment = os.environ | {"NBCKPT_STORE": str(store)}
    with subprocess.Popen(
        [sys.executable, "-c", kernel], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        printed = [line for line, _ in zip(process.stdout, range(lines), strict=False)]
        process.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        return printed + process.stdout.read().split("\n")[:-1]


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


ROUNDS = share.of(12, 5)
LAST = 60

TWO_TRIALS = textwrap.dedent(
    """
    import sys
    import nbckpt

    def train(config):
        checkpoint = nbckpt.get_checkpoint()
        start = checkpoint.to_dict()["i"] if checkpoint else 0
        for i in range(start + 1, 61):
            nbckpt.report(i=i, checkpoint={"i": i} if i % 4 == 0 else None)
            sys.stdout.write(f"{config['trial']} {i}\\n")
            sys.stdout.flush()

    experiment = nbckpt.run(
        train, {"trial": nbckpt.grid_search(["a", "b"])}, name="e", max_concurrent=2, keep_checkpoints=2
    )
    experiment.wait()
    """
)


def reported(folder: Path) -> list[int]:
    return [event["result"]["i"] for event in read(folder / "events.jsonl") if event["event"] == "result"]


def torn(journal: bytes) -> bytes:
    """Return a journal as a power cut may leave it while the last line is written, or the one after it."""
    before = journal.rfind(b"\n", 0, -1) + 1  # 0: the other trial reported everything
    result = json.loads(journal[before:]).get("result", {})
    is_synced = result.get("i", 1) % 4 == 0  # before the checkpoint of it was made
    return (journal if is_synced else journal[:before]) + journal[before : before + 8]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_killed_run_keeps_every_returned_report_and_resumes(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    library = Catalog(tmp_path / "experiments")
    for _ in range(3):
        printed = killed_after(tmp_path, TWO_TRIALS, draw.randrange(1, 40))
        experiment = library.open("e")
        for trial in experiment.trials:
            mine = {int(line.split()[1]) for line in printed if line.split()[0] == trial.config["trial"]}
            assert mine <= set(reported(trial.folder))
            assert experiment.interrupted(trial) or trial.finished
            indexes = [result["i"] for result in trial.results]
            assert indexes == list(range(1, len(indexes) + 1))
    experiment = library.open("e")
    if not all(trial.finished for trial in experiment.trials):
        experiment.resume()
        assert experiment.wait(60)
    for trial in experiment.trials:
        assert trial.status == Status.TERMINATED
        assert [result["i"] for result in trial.results] == list(range(1, LAST + 1))
        assert [result["training_iteration"] for result in trial.results] == list(range(1, LAST + 1))
        assert [record.iteration for record in trial.checkpoints.records()] == [LAST - 4, LAST]
        left = [file.name for file in trial.folder.iterdir() if file.name.startswith(".")]
        assert [name for name in left if not name.startswith(CACHE)] == []


@pytest.mark.slow
def test_a_torn_last_line_is_ignored_and_later_lines_are_read(tmp_path: Path) -> None:
    killed_after(tmp_path, TWO_TRIALS, 10)
    library = Catalog(tmp_path / "experiments")
    journal = library.open("e").trials[0].folder / "events.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(torn(whole))
    results = library.open("e").trials[0].results
    assert len(results) in {whole.count(b'"result":'), whole.count(b'"result":') - 1}
    experiment = library.open("e")
    experiment.resume()
    assert experiment.wait(60)
    trial = Catalog(tmp_path / "experiments").open("e").trials[0]
    assert [result["i"] for result in trial.results] == list(range(1, LAST + 1))
