"""Experiments, end to end on threads: run, resume, fail, pause, stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt.trials import Experiment, Status
from nbckpt.trials.experiment import _live


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def count(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    for i in range(checkpoint.to_dict()["i"] if checkpoint else 0, config.get("n", 4)):
        nbckpt.report(loss=config.get("lr", 1) / (i + 1), checkpoint={"i": i + 1})


def iterations(experiment: Experiment) -> list[list[int]]:
    return [[it["training_iteration"] for it in trial.results] for trial in experiment.trials]


def test_a_grid_runs_to_its_end() -> None:
    experiment = nbckpt.run(count, {"lr": nbckpt.grid_search([0.1, 0.2])}, metric="loss", mode="min")
    assert experiment.wait(20)
    assert [trial.status for trial in experiment.trials] == [Status.TERMINATED] * 2
    assert iterations(experiment) == [[1, 2, 3, 4]] * 2
    assert experiment.best().config == {"lr": 0.1}


def test_on_disk_there_is_what_the_format_says_and_nothing_else(store: Path) -> None:
    experiment = nbckpt.run(count, name="e", keep_checkpoints=1)
    assert experiment.wait(20)
    folder = store / "experiments" / "e"
    assert sorted(
        str(it.relative_to(folder)) for it in folder.rglob("*") if ".nbckpt" not in str(it.name)
    ) == [
        "experiment.json",
        "t0",
        "t0/checkpoint_000004",
        "t0/checkpoint_000004.json",
        "t0/checkpoint_000004/.nbckpt/checkpoint.json",
        "t0/events.jsonl",
        "t0/params.json",
    ]


def test_a_trial_that_fails_goes_on_from_its_checkpoint_and_no_step_is_there_twice() -> None:
    seen = []

    def train(config: dict[str, Any]) -> None:
        checkpoint = nbckpt.get_checkpoint()
        for i in range(checkpoint.to_dict()["i"] if checkpoint else 0, 10):
            seen.append(i)
            if len(seen) == 6:
                raise ValueError("once")
            nbckpt.report(i=i, checkpoint={"i": i + 1} if i % 2 else None)

    experiment = nbckpt.run(train, max_failures=1)
    assert experiment.wait(20)
    assert iterations(experiment) == [list(range(1, 11))]
    assert seen == [0, 1, 2, 3, 4, 5, 4, 5, 6, 7, 8, 9]


def test_the_same_name_resumes_in_a_new_kernel_with_the_kept_function(store: Path) -> None:
    experiment = nbckpt.run(count, {"n": 30}, name="e", stop={"training_iteration": 3})
    assert experiment.wait(20)
    trial = experiment.trials[0]
    trial.pause()  # as if it had been paused at its end
    trial.close()
    _live.clear()
    again = Experiment.read(store / "experiments" / "e")
    assert again is not experiment
    assert again.trials[0].status == Status.PAUSED
    again.spec = again.spec
    again.resume()
    assert again.wait(20)
    assert iterations(again) == [[1, 2, 3, 4]]
