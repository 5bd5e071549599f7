"""Fixtures for the tests of trials: a store of the test's own, and what a trial is to leave behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt.trials import Experiment, FunctionRunner, wrap_function
from nbckpt.trials.engine import shutdown
from nbckpt.trials.engine.pool import WorkerPool
from nbckpt.trials.model import optuna as optuna_parts

SECONDS = 60
Start = Callable[..., FunctionRunner]


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


@pytest.fixture
def studies(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the studies that the samplers of the test make, the oldest first."""
    made: list[Any] = []
    new_study = optuna_parts.new_study

    def recorded(*args: Any, **kwargs: Any) -> Any:
        made.append(new_study(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(optuna_parts, "new_study", recorded)
    return made


def ran(train: Any, config: Any = None, **options: Any) -> Experiment:
    """Run an experiment to its end."""
    experiment = nbckpt.run(train, config, **options)
    assert experiment.wait(SECONDS)
    return experiment


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def forget(experiment: Experiment) -> Path:
    """Forget an experiment as a restart of the kernel does, and return its folder."""
    assert experiment.wait(SECONDS)
    shutdown.live.pop(experiment.folder)
    return experiment.folder


@pytest.fixture
def before_it_leaves(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Keep each worker with its trial that has ended, until the yielded function has begun an act."""
    forget, may_leave = WorkerPool.forget, threading.Event()

    def late(*given: Any) -> None:
        may_leave.wait(SECONDS)
        forget(*given)

    def begin(act: Callable[[], object]) -> None:
        with ThreadPoolExecutor(1) as pool:
            acting = pool.submit(act)
            wait([acting], 0.3)  # long enough to act, also for another process, if that could be
            may_leave.set()
            acting.result(SECONDS)

    monkeypatch.setattr(WorkerPool, "forget", late)
    yield begin
    may_leave.set()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Make runners that are stopped after the test; each has a folder of its own unless one is named."""
    runners: list[FunctionRunner] = []

    def begin(
        function: Any, config: Mapping[str, Any] | None = None, place: str = "", **options: Any
    ) -> FunctionRunner:
        folder = tmp_path / (place or f"trial{len(runners)}")
        runners.append(wrap_function(function, **options)(config, folder, trial_name="e/t0", trial_id="t0"))
        return runners[-1]

    yield begin
    for runner in runners:
        runner.stop()
