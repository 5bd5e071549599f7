"""What the tests of states share: an environment without replicas, and a state that is easy to compare."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

import nbckpt

TORCHRUN = ("RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")


@pytest.fixture(autouse=True)
def no_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take from the environment what says that this is a replica."""
    for name in [*os.environ]:
        ours = name.startswith(("NBCKPT_", "ADAPTDL_")) and name != "NBCKPT_SECRET_FILE"
        if ours or name in TORCHRUN:
            monkeypatch.delenv(name)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Path]:
    """Give the folder of a job, whose states are those that the test makes."""
    with nbckpt.states.use_folder(tmp_path / "job"):
        yield tmp_path / "job"


class Number(nbckpt.State):
    """A state that is one number."""

    def __init__(self, name: str = "n", value: int = 0) -> None:
        self.value = value  # before the state is known: another thread may save it at once
        super().__init__(name)

    def save(self, fileobj: IO[bytes]) -> None:
        pickle.dump(self.value, fileobj)

    def load(self, fileobj: IO[bytes]) -> None:
        self.value = pickle.load(fileobj)


class Model:
    """An object that tells its state, as a torch module does."""

    def __init__(self, weight: float = 0.0) -> None:
        self.weight = weight

    def state_dict(self) -> dict[str, float]:
        return {"weight": self.weight}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.weight = state["weight"]


def loaded(value: Any, other: Any) -> Any:
    """Save a value, load it into another one, and return the value of the state."""
    state = nbckpt.State.of("value", value)
    nbckpt.save_all_states()
    state.close()
    state = nbckpt.State.of("value", other)
    assert nbckpt.load_state(state)
    state.close()
    return state.value


def restarted(job: Path, name: str = "n", default: int = -1) -> tuple[bool, int]:
    """Return what a program that starts anew finds of a number."""
    with nbckpt.states.use_folder(job):
        state = Number(name, default)
        return nbckpt.load_state(state), state.value


def saves(job: Path) -> list[str]:
    """Return what is in a job's folder, without its lock."""
    return sorted(entry.name for entry in job.iterdir() if entry.name != ".nbckpt-tmp.lock")


def remade(name: str) -> Number:
    """Make a state from a module, as a library would for a cell."""
    return Number(name)
