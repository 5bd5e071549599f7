"""Parameters beside the configuration."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from trials.runs import ran

import nbckpt
from nbckpt import UsageError
from nbckpt.trials import Trainable, with_parameters


def train(config: dict[str, Any], data: list[int], plus: int = 0) -> dict[str, int]:
    return {"sum": sum(data) + plus + config["x"]}


class Summing(Trainable):
    def setup(self, config: dict[str, Any], data: list[int]) -> None:  # type: ignore[override]
        self.sum = sum(data) + config["x"]

    def step(self) -> dict[str, Any]:
        return {"sum": self.sum, "done": True}


@pytest.mark.parametrize("trainable", [train, Summing])
def test_a_trainable_gets_its_parameters(tmp_path: Path, trainable: Any) -> None:
    bound = with_parameters(trainable, data=[1, 2])
    experiment = ran(bound, {"x": 10}, folder=tmp_path)
    assert experiment.trial("t0").metrics["sum"] == 13
    assert experiment.name.startswith(trainable.__name__)


def test_a_run_that_resumes_keeps_what_sample_from_drew(tmp_path: Path) -> None:
    numbers = itertools.count(1)

    def stop_at(config: dict[str, Any]) -> None:
        nbckpt.report(n=config["n"])
        if not (tmp_path / "second").exists():
            raise RuntimeError

    space = {"n": nbckpt.sample_from(lambda _: next(numbers)), "x": nbckpt.grid_search([0, 1])}
    ran(stop_at, space, name="e", folder=tmp_path)
    (tmp_path / "second").touch()
    again = ran(stop_at, space, name="e", folder=tmp_path)
    assert [trial.config["n"] for trial in again.trials] == [1, 2]
    again.resume(errored=True).wait(60)
    assert [trial.metrics["n"] for trial in again.trials] == [1, 2]


def test_what_cannot_be_called_is_refused_by_name(subtests: pytest.Subtests) -> None:
    """An unknown parameter is refused too."""
    names = {5: "not 5", None: "not None", "train": "not 'train'", type: r"type\(\) has no signature"}
    lacks = r"\(\) has no parameter 'date'"
    missing = {train: f"train{lacks}", Summing: rf"Summing\.setup{lacks}"}
    for trainable, message in (names | missing).items():
        with subtests.test(message), pytest.raises(UsageError, match=message):
            with_parameters(trainable, date=[])
