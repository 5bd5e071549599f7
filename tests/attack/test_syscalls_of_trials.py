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
from nbckpt.mirror import Mirror
from nbckpt.store import LocalStore
from nbckpt.sync.transfer import TransferOptions
from nbckpt.tracker import Tracker
from nbckpt.trials import Catalog, Status
from nbckpt.trials.engine.claim import Claim
from nbckpt.trials.model import annotation
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.trash import empty, removals

STEP, STEP_OF_TRANSFERS = share.of(3, 23), share.of(10, 53)
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


def track(catalog: Catalog) -> None:
    with nbckpt.track("loop", folder=catalog.folder) as trial:
        for step in range(trial.iteration + 1, STEPS + 1):
            trial.report(step=step, checkpoint={"step": step})


RUNS: dict[str, tuple[str, Act]] = {"run": ("new", run), "resume": ("half", resume), "track": ("loop", track)}
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


def failing(folder: Path, act: Act, kind: str, step: int = STEP) -> Iterator[Path]:
    """Yield a copy of *folder* for every *step*-th system call of an act, after that call failed there."""
    errors = KINDS[kind]
    for at in range(1 + list(KINDS).index(kind), MOST_CALLS, step):
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
        *_, last = trials = Catalog(folder).open(name).trials  # a loop makes a new trial each time
        assert {trial.status for trial in trials if act != "track"} <= {Status.TERMINATED}
        assert {trial.iteration for trial in trials if act != "track"} <= {STEPS}
        assert (last.status, last.iteration) == (Status.TERMINATED, STEPS)


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


def mirror_of(folder: Path, name: str) -> Mirror:
    return Mirror(LocalStore(folder / name), folder / name / "experiments", str(folder / "remote"))


def all_of(folder: Path, name: str) -> object:
    """Return what a user sees of a store and its experiments."""
    tracker = Tracker(folder / name)
    assert tracker.verify().damages == []
    return sorted(map(str, tracker.history.refs())), view(folder / name / "experiments")


def pulled(folder: Path) -> object:
    """Return what a new machine sees of the other place."""
    mirror_of(folder, "fresh").pull(AT_ONCE)
    seen = all_of(folder, "fresh")
    shutil.rmtree(folder / "fresh")
    return seen


AT_ONCE = TransferOptions(backoff_s=0)
TRANSFERS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "push": (lambda folder: mirror_of(folder, "store").push(AT_ONCE), pulled),
    "first pull": (
        lambda folder: mirror_of(folder, "third").pull(AT_ONCE),
        lambda folder: all_of(folder, "third"),
    ),
    "later pull": (
        lambda folder: mirror_of(folder, "other").pull(AT_ONCE),
        lambda folder: all_of(folder, "other"),
    ),
}
"""What copies a store, each with what one then sees at its target."""


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """Give a store, one that pulled it once, and the other place. Each has what the others lack."""
    folder = tmp_path / "whole"
    fill(folder / "store" / "experiments")
    Tracker(folder / "store").save({"a": [*range(9000)]}, "one", variables=["*"])
    mirror_of(folder, "store").push(AT_ONCE)
    mirror_of(folder, "other").pull(AT_ONCE)
    machine = shutil.copytree(folder / "store", tmp_path / "machine")
    nbckpt.run(train, name="there", executor="inline", folder=machine / "experiments")
    Tracker(machine).save({"a": [*range(8000)]}, "there", variables=["*"])
    Mirror(LocalStore(machine), machine / "experiments", str(folder / "remote")).push(AT_ONCE)
    nbckpt.run(train, name="here", executor="inline", folder=folder / "store" / "experiments")
    Tracker(folder / "store").save({"a": [*range(9001)]}, "one", variables=["*"])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("act", TRANSFERS)
def test_a_system_call_that_fails_in_a_transfer_loses_nothing(act: str, kind: str, places: Path) -> None:
    does, look = TRANSFERS[act]
    here = all_of(places, "store")
    done = shutil.copytree(places, places.with_name("done"))
    does(done)
    after = look(done)
    for folder in failing(places, lambda catalog: does(catalog.folder), kind, STEP_OF_TRANSFERS):
        assert all_of(folder, "store") == here
        does(folder)
        assert look(folder) == after
