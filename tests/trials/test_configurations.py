"""Configurations: spaces, given points, objects that JSON cannot hold, and parameters beside them."""

from __future__ import annotations

import itertools
import math
import os
import random
import subprocess
import sys
import textwrap
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials.conftest import forget, ran

import nbckpt
from nbckpt.commands.values import find_scheduler, words_of
from nbckpt.errors import UsageError
from nbckpt.trials import Trainable, with_parameters
from nbckpt.trials.model import params
from nbckpt.trials.model.drawing import configs, domains, with_values
from nbckpt.trials.model.points import drawn
from nbckpt.trials.model.space import lograndint, normal, rounded
from nbckpt.trials.model.view import internals

values = st.lists(st.integers(), min_size=1, max_size=3)


@given(st.dictionaries(st.text("abc", min_size=1), values, max_size=3), st.integers(1, 3))
def test_every_combination_occurs_once_per_sample(values: dict[str, list[int]], samples: int) -> None:
    space = {key: nbckpt.grid_search(value) for key, value in values.items()}
    drawn = [tuple(config[key] for key in values) for config in configs(space, samples, 0)]
    assert drawn == list(itertools.product(*values.values())) * samples


@given(st.integers(0, 1 << 31), st.integers(1, 5))
def test_more_samples_of_a_seed_extend_the_same_draw(seed: int, samples: int) -> None:
    inner = {"share": nbckpt.uniform(-1, 1), "kind": nbckpt.choice(["xy"])}
    space = {"rate": nbckpt.loguniform(1e-5, 1), "inner": inner}
    few, many = list(configs(space, samples, seed)), list(configs(space, samples + 2, seed))
    assert many[:samples] == few
    for config in many:
        assert 1e-5 <= config["rate"] <= 1
        assert -1 <= config["inner"]["share"] <= 1
        assert config["inner"]["kind"] == "xy"


def test_a_space_is_unchanged_and_configurations_share_no_dicts() -> None:
    space = {"inner": {"n": nbckpt.grid_search([1, 2])}}
    one, two = configs(space, 1, 0)
    one["inner"]["n"] = 5
    assert two == {"inner": {"n": 2}}
    assert next(configs(space, 1, 0)) == {"inner": {"n": 1}}


def test_values_are_set_under_the_path_of_their_domain() -> None:
    space = {"a/b": 1, "inner": {3: nbckpt.uniform(0, 1), "m": 2}}
    assert list(domains(space)) == [("inner", 3)]
    assert with_values(space, {("inner", 3): 0.5}) == {"a/b": 1, "inner": {3: 0.5, "m": 2}}


def test_the_ends_of_a_range_are_numbers_of_any_kind(subtests: pytest.Subtests) -> None:
    for low in [np.float32(1), np.int64(1), Fraction(1), 1.0, True]:
        with subtests.test(low=low):
            assert 1 <= nbckpt.uniform(low, 2).draw(random.Random(1)) <= 2
            assert nbckpt.randint(low, 2.5).draw(random.Random(1)) == 1  # type: ignore[arg-type]


def test_randint_draws_below_its_upper_end() -> None:
    drawn = [config["n"] for config in configs({"n": nbckpt.randint(-1, 2)}, 200, 0)]
    assert {(type(number), number) for number in drawn} == {(int, -1), (int, 0), (int, 1)}


@given(st.integers(0, 1 << 31))
def test_rounded_and_lograndint_stay_inside(seed: int) -> None:
    space = {"q": rounded(nbckpt.uniform(0, 1), 0.25), "k": lograndint(1, 100), "x": normal(0, 1)}
    (config,) = configs(space, 1, seed)
    assert config["q"] in {0, 0.25, 0.5, 0.75, 1}
    assert 1 <= config["k"] < 100
    assert isinstance(config["x"], float)


def test_sample_from_sees_the_drawn_configuration() -> None:
    space = {
        "double": nbckpt.sample_from(lambda spec: spec.config.inner.width * 2),
        "more": nbckpt.sample_from(lambda spec: spec.config["double"] + 1),
        "inner": {"width": nbckpt.grid_search([1, 2])},
    }
    first, second = configs(space, 1, 0)
    assert first == {"double": 2, "more": 3, "inner": {"width": 1}}
    assert second == {"double": 4, "more": 5, "inner": {"width": 2}}
    assert type(first["inner"]) is dict


def test_sample_from_in_a_circle_is_refused() -> None:
    a = nbckpt.sample_from(lambda spec: spec.config.b)
    b = nbckpt.sample_from(lambda spec: spec.config.a)
    with pytest.raises(nbckpt.UsageError, match="sample_from for 'a' needs its own value"):
        list(configs({"a": a, "b": b}, 1, 0))
    with pytest.raises(AttributeError, match="no value 'b'"):
        list(configs({"a": a}, 1, 0))


def test_an_invalid_domain_is_refused(subtests: pytest.Subtests) -> None:
    for make, message in [
        (lambda: nbckpt.grid_search([]), "grid_search got no values"),
        (lambda: nbckpt.choice([]), "choice got no values"),
        (lambda: nbckpt.grid_search("abc"), r"grid_search\(\['abc'\]\)"),
        (lambda: nbckpt.grid_search(5), r"grid_search\(\[5\]\)"),
        (lambda: nbckpt.uniform(1, 0), "smaller number first"),
        (lambda: nbckpt.uniform(float("nan"), 1), r"uniform\(nan, 1\) takes finite"),
        (lambda: nbckpt.loguniform(0, 1), "positive"),
        (lambda: nbckpt.randint(3, 3), "the upper end is not drawn"),
        (lambda: lograndint(0, 3), "use randint"),
        (lambda: rounded(nbckpt.uniform(0, 1), 0), "positive step"),
        (lambda: nbckpt.sample_from(3), "takes a function"),
        (lambda: nbckpt.uniform("0", 1), r"uniform\('0', 1\) takes finite numbers"),  # type: ignore[arg-type]
        (lambda: nbckpt.loguniform(1, None), r"loguniform\(1, None\) takes"),  # type: ignore[arg-type]
        (lambda: nbckpt.randint(0, "9"), r"randint\(0, '9'\) takes finite numbers"),  # type: ignore[arg-type]
        (lambda: nbckpt.randint(0.2, 0.9), r"randint\(0.2, 0.9\) is empty"),  # type: ignore[arg-type]
        (lambda: nbckpt.randint(0, math.inf), "finite"),  # type: ignore[arg-type]
        (lambda: nbckpt.randint(math.nan, 3), "empty|finite"),  # type: ignore[arg-type]
        (lambda: nbckpt.uniform(0, math.inf), r"uniform\(0, inf\) takes finite numbers"),
        (lambda: normal(math.nan), r"normal\(nan, 1.0\) takes finite numbers"),
        (lambda: lograndint(0.5, 10), r"lograndint\(0.5, 10\) needs positive"),  # type: ignore[arg-type]
        (lambda: normal(0, "1"), r"normal\(0, '1'\) takes"),  # type: ignore[arg-type]
        (lambda: rounded(nbckpt.uniform(0, 1), "1"), r"rounded\('1'\) takes"),  # type: ignore[arg-type]
    ]:
        with subtests.test(message), pytest.raises(nbckpt.UsageError, match=message):
            make()


SPACE = {
    "lr": nbckpt.loguniform(1e-4, 1),
    "width": nbckpt.randint(1, 9),
    "opt": {"kind": nbckpt.grid_search(["sgd", "adam"])},
    "epochs": 3,
}


def test_spaces_in_quotes_and_brackets_separate_no_words(subtests: pytest.Subtests) -> None:
    for text, words in [
        ("lr=0.1 width=8", ["lr=0.1", "width=8"]),
        ("name='a b' lr=1", ["name='a b'", "lr=1"]),
        ('name="it\'s b=2" lr=1', ['name="it\'s b=2"', "lr=1"]),
        ("widths=[8, 16] opt={'a': 1, 'b': 2} lr=uniform(0, 1)", None),
        ("  lr=1   width=8 ", ["lr=1", "width=8"]),
        ("name='a b", ["name='a", "b"]),
    ]:
        with subtests.test(text):
            assert words_of(text) == (words or ["widths=[8, 16]", "opt={'a': 1, 'b': 2}", "lr=uniform(0, 1)"])


def test_a_scheduler_s_option_may_have_spaces() -> None:
    made = find_scheduler("pbt interval=5 mutations={'lr': [0.1, 1], 'name': ['a b', 'c']}", None)
    assert made.mutations["name"].values == ("a b", "c")


def test_a_point_gives_values_and_the_others_are_drawn() -> None:
    first, second = drawn([{"lr": 0.1, "opt": {"kind": "adam"}}, {}], SPACE, seed=1)
    assert (first["lr"], first["opt"], first["epochs"]) == (0.1, {"kind": "adam"}, 3)
    assert 1 <= first["width"] < 9
    assert 1e-4 <= second["lr"] <= 1
    assert second["opt"]["kind"] in {"sgd", "adam"}
    space = {"a": nbckpt.randint(0, 9), "b": nbckpt.sample_from(lambda spec: spec.config.a * 2)}
    assert list(drawn([{"a": 4}], space, seed=1)) == [{"a": 4, "b": 8}]


def test_points_are_drawn_alike_each_time_and_apart() -> None:
    points = list(drawn([{}, {}], SPACE, seed=1))
    assert points == list(drawn([{}, {}], SPACE, seed=1))
    assert points[0] != points[1]
    assert points[:1] != list(drawn([{}], SPACE, seed=2))


def test_a_point_outside_the_space_is_refused(subtests: pytest.Subtests) -> None:
    for point, message in [
        ({"lrr": 0.1}, "a point gives 'lrr', which does not vary in config. Did you mean 'lr'?"),
        ({"epochs": 4}, "'epochs', which does not vary in config. These vary: lr, opt/kind, width"),
        ({"opt": 1}, "a point gives 'opt', which does not vary"),
        ({"lr": 2}, "lr=2, which Uniform"),
        ({"width": 9}, "width=9, which Integer"),
        ({"width": 2.5}, "width=2.5, which Integer"),
        ({"opt": {"kind": "lion"}}, "opt/kind='lion', which Grid"),
    ]:
        with subtests.test(message), pytest.raises(UsageError, match=message.replace("?", r"\?")):
            list(drawn([point], SPACE, seed=1))
    with pytest.raises(UsageError, match=r"'y', which does not vary in config. Nothing varies there$"):
        list(drawn([{"y": 2}], {"x": 1}, seed=1))


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
