"""States of PyTorch models, optimizers and schedulers: loaded in place, with what they share."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nbckpt
from late import library

torch = library("torch", reason="needs PyTorch")


class Training:
    """A model with its optimizer and the scheduler of its learning rate."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(300, 400), torch.nn.BatchNorm1d(400), torch.nn.Linear(400, 1)
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=2, gamma=0.5)

    def step(self, seed: int) -> None:
        batch = torch.randn(8, 300, generator=torch.Generator().manual_seed(seed))
        self.optimizer.zero_grad()
        self.model(batch).square().mean().backward()
        self.optimizer.step()
        self.scheduler.step()

    def states(self) -> list[Any]:
        return [nbckpt.State.of(name, value) for name, value in vars(self).items()]

    def parameters(self) -> list[Any]:
        return [weight.detach().clone() for weight in self.model.state_dict().values()]


def saved(folder: Path, states: Callable[[], Any]) -> Path:
    """Save what *states* makes, and return the save's folder."""
    with nbckpt.states.use_folder(folder):
        kept = states()
        made = nbckpt.save_all_states()
        assert kept
        assert made is not None
        return Path(made)


def sizes(file: Path) -> list[int]:
    """Return the sizes of a state's pickle and of the memory behind it."""
    return json.loads(file.read_bytes().split(b"\n", 2)[1])[0]


def equal(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


def test_resumed_training_equals_uninterrupted_training(tmp_path: Path) -> None:
    whole = Training(seed=1)
    for seed in range(3):
        whole.step(seed)
    saved(tmp_path, whole.states)
    resumed = Training(seed=2)
    assert not equal(resumed.parameters(), whole.parameters())
    with nbckpt.states.use_folder(tmp_path):
        assert [nbckpt.load_state(state) for state in resumed.states()] == [True] * 3
    assert equal(resumed.parameters(), whole.parameters())
    for seed in range(3, 6):
        whole.step(seed)
        resumed.step(seed)
    assert equal(resumed.parameters(), whole.parameters())
    assert resumed.scheduler.get_last_lr() == whole.scheduler.get_last_lr() == [0.01 * 0.5**3]


def test_a_model_and_its_optimizer_are_loaded_in_place(tmp_path: Path) -> None:
    first = Training(seed=1)
    first.step(0)
    saved(tmp_path, first.states)
    training = Training(seed=2)
    weights = list(training.model.parameters())
    memory = [weight.data_ptr() for weight in weights]
    with nbckpt.states.use_folder(tmp_path):
        for state in training.states():
            nbckpt.load_state(state)
    assert [weight.data_ptr() for weight in training.model.parameters()] == memory
    assert [*map(id, training.optimizer.param_groups[0]["params"])] == [*map(id, weights)]
    assert training.scheduler.optimizer is training.optimizer


def test_a_live_model_needs_no_variable_for_its_state(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = torch.nn.Linear(2, 2)

    def states() -> list[Any]:
        nbckpt.State.of("model", model)
        return [model]

    with caplog.at_level(logging.WARNING, "nbckpt"):
        made = saved(tmp_path, states)
    assert (made / "model.state").exists()
    assert caplog.messages == []


def test_tensors_are_stored_outside_the_pickle(tmp_path: Path) -> None:
    training = Training(seed=1)
    training.step(0)
    made = saved(tmp_path, training.states)
    record, *memory = sizes(made / "model.state")
    assert record < 16_000
    assert max(memory) == 300 * 400 * 4
    record, *memory = sizes(made / "optimizer.state")
    assert record < 32_000
    assert sorted(memory)[-2:] == [300 * 400 * 4] * 2  # both of Adam's moments


def test_shared_tensor_memory_is_saved_once_and_shared_again(tmp_path: Path) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = torch.nn.Linear(300, 300, bias=False)
            self.decode = torch.nn.Linear(300, 300, bias=False)
            self.decode.weight = self.encode.weight

    tied, every = Tied(), torch.arange(10_000.0)
    states = [("tied", tied), ("views", {"every": every, "second": every[::2]})]
    made = saved(tmp_path, lambda: [nbckpt.State.of(*entry) for entry in states])
    assert sizes(made / "tied.state")[1:] == [300 * 300 * 4]
    assert sizes(made / "views.state")[1:] == [10_000 * 4]
    with nbckpt.states.use_folder(tmp_path):
        state = nbckpt.State.of("views", None)
        nbckpt.load_state(state)
    state.value["every"][2] = -1.0
    assert state.value["second"][1] == -1.0


def test_a_model_and_its_optimizer_in_one_value_belong_together(tmp_path: Path) -> None:
    training = Training(seed=1)
    training.step(0)
    saved(tmp_path, lambda: nbckpt.State.of("all", training))
    with nbckpt.states.use_folder(tmp_path):
        state = nbckpt.State.of("all", None)
        nbckpt.load_state(state)
    training.step(1)
    state.value.step(1)
    assert equal(state.value.parameters(), training.parameters())


@pytest.mark.parametrize("kind", ["tensor", "parameter", "bfloat16", "large"])
def test_a_tensor_is_filled_in_place(tmp_path: Path, kind: str) -> None:
    made = torch.arange(4000.0 if kind == "large" else 5.0)
    if kind == "bfloat16":
        made = made.bfloat16()
    tensor = torch.nn.Parameter(made) if kind == "parameter" else made
    before = tensor.detach().clone()
    with nbckpt.states.use_folder(tmp_path):
        state = nbckpt.State.of("tensor", tensor)
        nbckpt.save_all_states()
        with torch.no_grad():
            tensor += 1
        nbckpt.load_state(state)
        assert state.value is tensor
    assert torch.equal(tensor.detach(), before)
    assert tensor.requires_grad == (kind == "parameter")
    assert tensor.is_leaf


def test_random_generators_continue_where_they_were_saved(tmp_path: Path) -> None:
    generator, state = torch.Generator().manual_seed(7), np.random.default_rng(7)
    torch.rand(3, generator=generator)
    with nbckpt.states.use_folder(tmp_path):
        states = [nbckpt.State.of("torch", generator.get_state()), nbckpt.State.of("numpy", state)]
        nbckpt.save_all_states()
        drawn = torch.rand(3, generator=generator), state.random(3)
        for state in states:
            nbckpt.load_state(state)
        generator.set_state(states[0].value)
        assert torch.equal(torch.rand(3, generator=generator), drawn[0])
        assert (states[1].value.random(3) == drawn[1]).all()


def test_a_dict_of_models_is_loaded_in_place(tmp_path: Path) -> None:
    first, second = Training(seed=1), Training(seed=2)
    first.step(0)
    saved(tmp_path, lambda: nbckpt.State.of("all", vars(first)))
    with nbckpt.states.use_folder(tmp_path):
        state = nbckpt.State.of("all", vars(second))
        assert nbckpt.load_state(state)
    first.step(1)
    second.step(1)
    assert equal(first.parameters(), second.parameters())
