"""Fixtures for the tests of trials: a store of the test's own, and what a trial is to leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbckpt.trials import Experiment
from nbckpt.trials.engine.experiment import _live

SECONDS = 60


@pytest.fixture(autouse=True)
def nothing_temporary_left(tmp_path: Path) -> Iterator[None]:
    """Hold that no staged folder and no temporary checkpoint is left below the test's folder."""
    yield
    left = [*tmp_path.rglob(".*nbckpt-tmp*"), *tmp_path.rglob("checkpoint_tmp*")]
    # A store keeps the folder of this very name, empty, for its next write.
    assert not [
        str(path.relative_to(tmp_path)) for path in left if path.name != ".nbckpt-tmp" or any(path.iterdir())
    ]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the store that commands and `nbckpt.run` use in the test."""
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def experiments(store: Path) -> Path:
    """Return the folder of the store's experiments."""
    return store / "experiments"


def forget(experiment: Experiment) -> Path:
    """Forget an experiment as a restart of the kernel does, and return its folder."""
    assert experiment.wait(SECONDS)
    _live.pop(experiment.folder)
    return experiment.folder
