"""What is loaded goes into the objects that the program has."""

from __future__ import annotations

import io
import random
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import nbckpt
from late import Library
from nbckpt.states.values import write
from state.conftest import Model, loaded

torch = Library("torch")
NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")
pytestmark = pytest.mark.usefixtures("job")


GENERATORS: dict[str, tuple[Any, Any]] = {
    "torch.Generator": (
        lambda seed: torch.Generator().manual_seed(seed),
        lambda value: torch.rand(3, generator=value).tolist(),
    ),
    "RandomState": (
        lambda seed: np.random.RandomState(seed),
        lambda value: value.standard_normal(3).tolist(),
    ),
    "Random": (random.Random, lambda generator: [generator.gauss(0, 1) for _ in range(3)]),
    "Generator": (np.random.default_rng, lambda generator: generator.random(3).tolist()),
    "twister": (
        lambda seed: np.random.Generator(np.random.MT19937(seed)),
        lambda generator: generator.random(3).tolist(),
    ),
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=NEEDS_TORCH if "torch" in kind else ()) for kind in GENERATORS]
)
def test_a_generator_continues_where_it_was_saved(kind: str) -> None:
    make, draw = GENERATORS[kind]
    wraps: list[Any] = [lambda value: value, lambda value: [value], lambda value: (1, {"rng": value})]
    for wrap in wraps:
        saved, other = make(1), make(2)
        draw(saved)
        assert loaded(wrap(saved), wrapped := wrap(other)) is wrapped
        assert draw(other) == draw(saved)


def test_random_generators_of_another_kind_are_replaced() -> None:
    saved, other = np.random.default_rng(1), np.random.Generator(np.random.MT19937(1))
    value = loaded(saved, other)
    assert value is not other
    assert value.random() == saved.random()


@pytest.mark.parametrize(
    "wrap",
    [lambda *value: list(value), lambda *value: tuple(value), lambda a, b: {"x": {"a": [a], "b": b}}],
    ids=["list", "tuple", "dicts"],
)
def test_objects_in_containers_are_loaded_in_place(wrap: Any) -> None:
    array = np.zeros(3)
    model = Model(1)
    value = loaded(wrap(Model(5), np.arange(3.0)), other := wrap(model, array))
    assert value is other
    assert model.weight == 5
    assert array.tolist() == [0, 1, 2]


def test_objects_in_a_dict_are_loaded_in_place() -> None:
    before = {"model": Model(1), "teacher": Model(2), "step": 7}
    model, teacher = Model(0), Model(0)
    after = {"model": model, "teacher": teacher, "step": 0}
    assert loaded(before, after) is after
    assert after == {"model": model, "teacher": teacher, "step": 7}
    assert (model.weight, teacher.weight) == (1, 2)
    assert before["step"] == 7
    assert isinstance(before["model"], Model)


def test_load_drops_missing_objects_and_adds_new_as_state_dicts() -> None:
    after = {"other": Model(5)}
    loaded({"model": Model(1)}, after)
    assert after == {"model": {"weight": 1}}


def test_shared_objects_in_a_dict_are_shared_again() -> None:
    rng, weights = np.random.default_rng(0), np.zeros(3)
    before = {"rng": rng, "again": rng, "weights": weights, "best": weights}
    before["itself"] = before
    after: dict[str, Any] = {"rng": np.random.default_rng(1), "weights": np.ones(3)}
    loaded(before, after)
    assert after["rng"] is after["again"]
    assert after["weights"] is after["best"]
    assert after["itself"]["weights"] is after["weights"]


def test_a_list_gets_its_saved_length() -> None:
    first = Model(1)
    shorter, longer = [first, Model(2)], [first]
    assert loaded([Model(7)], shorter) is shorter
    assert shorter == [first]
    assert first.weight == 7
    loaded([Model(8), 9], longer)
    assert longer == [first, 9]


def test_a_container_in_itself_is_loaded() -> None:
    saved: list[Any] = [1]
    saved.append(saved)
    values = loaded(saved, other := [])
    assert values is other
    assert values[0] == 1


@pytest.mark.parametrize(
    ("other", "words"),
    [((1, 2), "tuple"), (np.zeros(4), "ndarray"), (frozenset(), "frozenset")],
    ids=["tuple", "array", "set"],
)
def test_an_object_that_cannot_be_filled_is_named(
    other: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    loaded({"a": 1}, other)
    assert f"state 'value': a {words} cannot be filled in place" in caplog.text


def test_a_number_is_replaced_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert loaded(5, 0) == 5
    assert caplog.text == ""


@pytest.mark.parametrize("library", ["", pytest.param("torch", marks=NEEDS_TORCH)])
def test_the_global_generators_continue_where_they_were_saved(library: str) -> None:
    def draw() -> tuple[Any, ...]:
        return random.random(), np.random.rand(2).tolist(), torch.rand(2).tolist() if library else None

    draw()  # imports the libraries: a state holds the generators of those that are imported
    state = nbckpt.states.RandomState()
    nbckpt.save_all_states()
    wanted = draw()
    assert all(new != old for new, old in zip(draw(), wanted, strict=True) if old)
    assert nbckpt.load_state(state)
    assert draw() == wanted


@pytest.mark.parametrize("value", [[1], {"other": 1}, 5], ids=["list", "dict", "number"])
def test_the_generators_refuse_the_file_of_another_state(value: Any) -> None:
    file = io.BytesIO()
    write(value, file)
    file.seek(0)
    with pytest.raises(nbckpt.errors.CorruptError, match="is not a state of the random generators"):
        nbckpt.states.RandomState().load(file)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"numpy.random.state": "?"}, "numpy.random.state is not set: "),
        pytest.param({"torch.random.state": "?"}, "torch.random.state is not set: ", marks=NEEDS_TORCH),
        (
            {"torch.cuda.random.state": ["?"]},
            "torch.cuda.random.state is not set: it was saved for 1 device, and this machine has 0",
        ),
    ],
    ids=["numpy", "torch", "device"],
)
def test_a_generator_that_cannot_be_set_is_named(
    wrong: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    random.seed(1)
    saved = {"random.state": random.getstate(), **wrong}
    wanted = random.random()
    file = io.BytesIO()
    write(saved, file)
    file.seek(0)
    nbckpt.states.RandomState("seeds").load(file)
    assert random.random() == wanted
    assert f"state 'seeds': {why}" in caplog.text
