"""Single system calls that fail in an experiment: nothing else is lost, and the next try works."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from attack import share
from attack.syscalls import ERRORS, Faults
from nbckpt.errors import NbckptError
from nbckpt.trials import Catalog, Status
from nbckpt.trials.engine.claim import Claim
from nbckpt.trials.model import annotation
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.trash import empty, removals

STEP = share.of(3, 23)
KINDS = share.of({name: [error] for name, error in ERRORS.items()}, {"in turn": [*ERRORS.values()]})
"""The errors of one test, which the calls fail with in turn. Each test begins at another call."""
MOST_CALLS = 3000
STEPS = 3

Act = Callable[[Catalog], object]


def train(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    for step in range(checkpoint.to_dict()["step"] if checkpoint else 0, STEPS):
        nbckpt.report(step=step + 1, checkpoint={"step": step + 1})


def fail_first(config: dict[str, Any]) -> None:
    if nbckpt.get_checkpoint() is None:
        nbckpt.report(step=1, checkpoint={"step": 1})
        raise ValueError("fails, as the test asked")
    train(config)


def fill(folder: Path) -> Path:
    """Make a finished experiment with a note, one that failed, and one in the trash."""
    nbckpt.run(train, {"x": nbckpt.grid_search([1, 2])}, name="done", executor="inline", folder=folder)
    annotation.change(folder / "done" / "t0", note="old", add=["good"])
    nbckpt.run(train, {"x": 1}, name="gone", executor="inline", folder=folder)
    Catalog(folder).remove("gone")
    nbckpt.run(fail_first, {"x": 1}, name="half", executor="inline", folder=folder)
    return folder


def run(catalog: Catalog) -> None:
    experiment = nbckpt.run(
        train, {"x": nbckpt.grid_search([1, 2])}, name="new", executor="inline", folder=catalog.folder
    )
    if any(trial.status == Status.ERROR for trial in experiment.trials):
        experiment.resume(errored=True)


def resume(catalog: Catalog) -> None:
    experiment = catalog.open("half")
    if experiment.trials[0].status != Status.TERMINATED:
        experiment.resume(errored=True)


RUNS: dict[str, tuple[str, Act]] = {"run": ("new", run), "resume": ("half", resume)}
"""What makes results, each with the name of its experiment."""

CHANGES: dict[str, Act] = {
    "note": lambda catalog: annotation.change(catalog.folder / "done" / "t0", note="new"),
    "tag": lambda catalog: annotation.change(catalog.folder / "done" / "t0", add=["blue"]),
    "untag": lambda catalog: annotation.change(catalog.folder / "done" / "t0", remove=["good"]),
    "rm": lambda catalog: catalog.remove("done"),
    "rm of a checkpoint": lambda catalog: catalog.remove("done/t0@1"),
    "undo": lambda catalog: [removal.bring_back() for removal in removals(catalog.folder)],
    "gc": lambda catalog: empty(catalog.folder),
}

View = dict[str, list[object]]


def view(folder: Path) -> View:
    """Return what a user sees of the experiments in a folder, and what is in its trash."""
    catalog = Catalog(folder)
    rows: View = {name: [row(trial) for trial in catalog.open(name).trials] for name in catalog.names()}
    return rows | {"trash": [label for removal in removals(folder) for label in removal.labels]}


def row(trial: Trial) -> object:
    steps = [result["step"] for result in trial.results]
    assert steps == list(range(1, len(steps) + 1))
    checkpoints = [record.iteration for record in trial.checkpoints.records()]
    notes = trial.annotation.note, trial.annotation.tags
    return trial.id, str(trial.status), steps, checkpoints, notes, trial.damage


def failing(folder: Path, act: Act, kind: str) -> Iterator[Path]:
    """Yield a copy of *folder* for each system call of an act, after that call failed in the copy."""
    errors = KINDS[kind]
    for at in range(1 + list(KINDS).index(kind), MOST_CALLS, STEP):
        copy = shutil.copytree(folder, folder.with_name(f"{at}"))
        fault = Faults(at, errors[at % len(errors)])
        with suppress(NbckptError), fault:
            act(Catalog(copy))
        yield copy
        shutil.rmtree(copy)
        if not fault.reached:
            return
    raise AssertionError(f"it makes more than {MOST_CALLS} calls")


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return fill(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("act", RUNS)
def test_a_system_call_that_fails_in_a_run_loses_nothing(act: str, kind: str, whole: Path) -> None:
    name, does = RUNS[act]
    before = view(whole)
    before.pop(name, None)
    for folder in failing(whole, does, kind):
        left = view(folder)
        assert len(left.pop(name, [])) <= 2
        assert left == before
        assert not Claim(folder / name, threading.Condition()).is_elsewhere()
        does(Catalog(folder))
        trials = Catalog(folder).open(name).trials
        assert {trial.status for trial in trials} == {Status.TERMINATED}
        assert {trial.iteration for trial in trials} == {STEPS}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("act", CHANGES)
def test_a_system_call_that_fails_in_a_change_loses_nothing(act: str, kind: str, whole: Path) -> None:
    before = view(whole)
    done = shutil.copytree(whole, whole.with_name("done"))
    CHANGES[act](Catalog(done))
    after = view(done)
    for folder in failing(whole, CHANGES[act], kind):
        left = view(folder)
        assert left in (before, after)
        if left == before:
            CHANGES[act](Catalog(folder))
            assert view(folder) == after
