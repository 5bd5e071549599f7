"""What `State.of` loads in place: the objects that a program has in its variables go on being used."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nbckpt


class Model:
    """An object that tells its state."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def state_dict(self) -> dict[str, float]:
        return {"weight": self.weight}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.weight = state["weight"]


def saved_and_loaded(folder: Path, before: Any, after: Any) -> Any:
    """Save one value, and load it as another program's value."""
    for value in (before, after):
        with nbckpt.states.use_folder(folder):
            state = nbckpt.State.of("it", value)
            if not nbckpt.load_state(state):
                nbckpt.save_all_states()
    return state.value


def test_objects_in_a_dict_are_loaded_in_place(tmp_path: Path) -> None:
    before = {"model": Model(1.0), "teacher": Model(2.0), "step": 7}
    model, teacher = Model(0.0), Model(0.0)
    after = {"model": model, "teacher": teacher, "step": 0}
    assert saved_and_loaded(tmp_path, before, after) is after
    assert after == {"model": model, "teacher": teacher, "step": 7}
    assert (model.weight, teacher.weight) == (1.0, 2.0)
    assert before["step"] == 7
    assert isinstance(before["model"], Model)


def test_load_drops_missing_objects_and_adds_new_as_state_dicts(
    tmp_path: Path,
) -> None:
    after = {"other": Model(5.0)}
    saved_and_loaded(tmp_path, {"model": Model(1.0)}, after)
    assert after == {"model": {"weight": 1.0}}


def test_shared_objects_in_a_dict_are_shared_again(tmp_path: Path) -> None:
    rng, weights = np.random.default_rng(0), np.zeros(3)
    before = {"rng": rng, "again": rng, "weights": weights, "best": weights}
    before["itself"] = before
    after: dict[str, Any] = {"rng": np.random.default_rng(1), "weights": np.ones(3)}
    saved_and_loaded(tmp_path, before, after)
    assert after["rng"] is after["again"]
    assert after["weights"] is after["best"]
    assert after["itself"]["weights"] is after["weights"]


@pytest.mark.parametrize(
    ("make", "draw"),
    [
        (random.Random, random.Random.random),
        (np.random.default_rng, np.random.Generator.random),
        (lambda seed: np.random.Generator(np.random.MT19937(seed)), np.random.Generator.random),
    ],
    ids=["random", "numpy", "twister"],
)
def test_random_generators_continue_in_place(
    tmp_path: Path, make: Callable[[int], Any], draw: Callable[[Any], float]
) -> None:
    before, after = make(1), make(2)
    draw(before)
    assert saved_and_loaded(tmp_path, before, after) is after
    assert draw(after) == draw(before)


def test_random_generators_of_another_kind_are_replaced(tmp_path: Path) -> None:
    before, after = np.random.default_rng(1), np.random.Generator(np.random.MT19937(1))
    loaded = saved_and_loaded(tmp_path, before, after)
    assert loaded is not after
    assert loaded.random() == before.random()
