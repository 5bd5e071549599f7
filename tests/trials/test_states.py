"""States in trials: part of the trial's checkpoint, and back before the function goes on."""

from __future__ import annotations

import gc
import pickle
import sys
from pathlib import Path
from typing import IO, Any

import cloudpickle
import pytest
from trials.conftest import ran

import nbckpt
from nbckpt.states import states_checkpoint
from nbckpt.states.registry import current

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as the functions of a notebook


class Steps(nbckpt.State):
    """A state that writes itself, as one of a program of the seed's does."""

    def __init__(self) -> None:
        super().__init__("steps")
        self.done = 0
        self.synced = 0

    def sync(self) -> None:
        self.synced += 1

    def save(self, fileobj: IO[bytes]) -> None:
        pickle.dump((self.done, self.synced), fileobj)

    def load(self, fileobj: IO[bytes]) -> None:
        self.done, self.synced = pickle.load(fileobj)


def train(config: dict[str, Any]) -> None:
    """Count to six and fail at five, once; what is in the lists was there before the function went on."""
    steps, seen = Steps(), []
    history = nbckpt.State.of("history", seen)
    first = not nbckpt.load_state(steps)
    assert nbckpt.load_state(history) is not first
    while steps.done < 6:
        steps.done += 1
        seen.append(steps.done)
        own = states_checkpoint(note="mine") if config.get("own") and steps.done % 2 == 0 else None
        nbckpt.report(at=steps.done, seen=len(seen), checkpoint=own)
        if first and steps.done == 5:
            raise ValueError("once")


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["thread", "inline", "process"])
@pytest.mark.parametrize("own", [True, False], ids=["asked for", "with checkpoint_every"])
def test_states_are_restored_before_the_function_continues(executor: str, own: bool) -> None:
    every = 0 if own else 2
    options = {"executor": executor, "checkpoint_every": every}
    experiment = ran(train, {"own": own}, max_failures=1, max_concurrent=1, **options)
    (trial,) = experiment.trials
    assert (str(trial.status), trial.failures) == ("TERMINATED", 1)
    assert [(result["at"], result["seen"]) for result in trial.results] == [(i, i) for i in range(1, 7)]
    assert [record.iteration for record in trial.checkpoints.records()] == [2, 4, 6]


def test_trials_have_their_own_states_apart_from_the_notebooks() -> None:
    mine = Steps()
    space = {"own": nbckpt.grid_search([True, False])}
    experiment = ran(train, space, max_failures=1, checkpoint_every=2, max_concurrent=2)
    assert [str(trial.status) for trial in experiment.trials] == ["TERMINATED"] * 2
    assert (mine.done, mine.synced) == (0, 0)
    assert current.get().live() == [("steps", mine)]


def test_a_states_checkpoint_syncs_states_and_holds_other_fields() -> None:
    with pytest.raises(nbckpt.UsageError, match=r"Make one with nbckpt\.State"):
        states_checkpoint()
    steps = Steps()
    steps.done = 3
    fields = states_checkpoint(epoch=7).to_dict()
    assert (fields.pop("epoch"), list(fields)) == (7, ["state:steps"])
    assert pickle.loads(fields["state:steps"].data) == (3, 1)


def test_checkpoint_every_ignores_a_function_without_states() -> None:
    def plain(config: dict[str, Any]) -> None:
        for i in range(4):
            nbckpt.report(i=i)

    experiment = ran(plain, checkpoint_every=2)
    assert experiment.trials[0].checkpoints.records() == []


def test_a_trial_saves_no_states_in_the_folder_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBCKPT_CHECKPOINT_PATH", str(tmp_path / "job"))

    def saves(config: dict[str, Any]) -> None:
        steps = Steps()
        nbckpt.report(where=str(nbckpt.save_all_states()), loaded=nbckpt.load_state(steps))

    experiment = ran(saves)
    metrics = experiment.trials[0].metrics
    assert (metrics["where"], metrics["loaded"]) == ("None", False)
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize("executor", ["thread", "inline"])
def test_a_trial_that_saves_no_states_reports_none_as_dropped(
    executor: str, caplog: pytest.LogCaptureFixture
) -> None:
    def keeps(config: dict[str, Any]) -> None:
        history = nbckpt.State.of("history", [0])
        for i in range(3):
            history.value.append(i)
            nbckpt.report(i=i, seen=len(history.value))

    experiment = ran(keeps, executor=executor, num_samples=2, max_concurrent=1)
    gc.collect()
    assert [trial.metrics["seen"] for trial in experiment.trials] == [4, 4]
    assert caplog.text == ""
