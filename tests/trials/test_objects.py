"""Objects in configurations that JSON cannot express: functions, arrays; and parameters beside them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trials.conftest import forget, ran

import nbckpt
from nbckpt import UsageError
from nbckpt.trials import Trainable, with_parameters
from nbckpt.trials.model import params
from nbckpt.trials.model.points import drawn
from nbckpt.trials.model.view import internals

DIES = textwrap.dedent(
    """
    import functools, os
    import numpy as np
    import nbckpt

    def first(x):
        return 1

    def second(x):
        return 2

    class Net:
        def __init__(self, width):
            self.width = width

    data = [np.zeros(5000), np.zeros(5000)]
    data[1][2500] = 1
    space = {
        "f": nbckpt.grid_search([first, second]),
        "g": nbckpt.grid_search([lambda: 1, lambda: 2]),
        "data": nbckpt.grid_search(data),
        "net": Net(7),
        "made": nbckpt.sample_from(lambda spec: Net(spec.config.net.width + 1)),
        "deep": {"partial": functools.partial(first, 3)},
    }

    def train(config):
        if not os.path.exists("second kernel"):
            os._exit(0)
        values = config["f"](0), config["g"](), int(config["data"].sum())
        sizes = config["net"].width, config["made"].width, config["deep"]["partial"]()
        nbckpt.report(values=values, sizes=sizes)
    """
)
START = "nbckpt.run(train, space, name='e', executor='inline')"
WANTED = [([f, g, n], [7, 8, 1]) for f in (1, 2) for g in (1, 2) for n in (0, 1)]


def kernel(folder: Path, code: str) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=os.environ, check=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("again", ["import nbckpt; nbckpt.open_experiment('e').resume()", DIES + START])
def test_objects_of_a_configuration_are_there_in_a_new_kernel(tmp_path: Path, again: str) -> None:
    kernel(tmp_path, DIES + START)
    (tmp_path / "second kernel").touch()
    kernel(tmp_path, again)
    trials = nbckpt.open_experiment("e").trials
    assert [(trial.metrics["values"], trial.metrics["sizes"]) for trial in trials] == WANTED


def other(value: float) -> float:
    return -value


def test_a_table_shows_the_name_of_a_function_and_no_address(tmp_path: Path) -> None:
    experiment = ran(lambda config: {"y": 1}, {"f": nbckpt.grid_search([other, len])}, folder=tmp_path)
    assert params.read(experiment.folder / "t0")["f"] == "<function other>"
    assert "  <function other>  " in repr(experiment)


def test_another_object_is_another_configuration(tmp_path: Path) -> None:
    def runs(made: object) -> int:
        experiment = ran(lambda config: {"y": 1}, {"x": made}, name="e", folder=tmp_path)
        return len(experiment.trials)

    one = object()
    assert (runs(one), runs(one), runs(object())) == (1, 1, 2)


def test_a_tracked_trial_continues_with_the_objects_given(tmp_path: Path) -> None:
    with suppress(KeyboardInterrupt), nbckpt.track("e", f=other, folder=tmp_path) as run:
        raise KeyboardInterrupt
    forget(run.experiment)
    with nbckpt.track("e", f=other, folder=tmp_path, resume=True) as again:
        assert (again.trial.id, again.config["f"]) == ("t0", other)


ARRAYS = [np.zeros(5000), np.zeros(5000), np.arange(3)]
ARRAYS[1][2500] = 1


def test_a_point_may_give_an_array() -> None:
    (config,) = drawn([{"x": np.arange(3)}], {"x": nbckpt.choice(ARRAYS)}, seed=1)
    assert config["x"] is ARRAYS[2]
    with pytest.raises(nbckpt.UsageError, match="a point gives x=array"):
        list(drawn([{"x": np.arange(4)}], {"x": nbckpt.choice(ARRAYS)}, seed=1))


def test_a_grid_beside_a_point_tries_each_array_once(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> dict[str, int]:
        return {"sum": int(config["x"].sum())}

    space, points = {"x": nbckpt.grid_search(ARRAYS)}, [{"x": ARRAYS[1]}]
    experiment = ran(train, space, points=points, folder=tmp_path)
    assert [trial.metrics["sum"] for trial in experiment.trials] == [1, 0, 3]


def test_optuna_learns_of_trials_with_arrays(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    for samples in (2, 3):
        experiment = ran(
            lambda config: {"y": 1},
            {"x": nbckpt.choice(ARRAYS)},
            search="random",
            num_samples=samples,
            metric="y",
            mode="min",
            name="e",
            folder=tmp_path,
        )
        assert not internals(experiment).notes


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
