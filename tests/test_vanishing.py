"""What another process removes while a folder is looked through is left out, and fails nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.mirror import AutoMirror
from nbckpt.trials import Catalog, CheckpointFolder


def train(config: dict[str, int]) -> None:
    nbckpt.report(loss=1, checkpoint={"i": 1})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store's folder with a checkpoint and an experiment."""
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    with nbckpt.Tracker() as tracker:
        tracker.save({"x": os.urandom(1 << 20)}, "one")
    assert nbckpt.run(train, name="e", executor="inline").wait(60)
    return tmp_path / "store"


@pytest.fixture
def goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Have a folder taken away just before it is listed."""

    def goes(folder: Path) -> None:
        for name in ("scandir", "listdir"):
            monkeypatch.setattr(os, name, _taking(getattr(os, name), folder, tmp_path / "away"))

    return goes


def _taking(real: Callable[[Any], Any], folder: Path, away: Path) -> Callable[[Any], Any]:
    def lists(place: Any = ".") -> Any:
        if not isinstance(place, int) and Path(os.fsdecode(place)) == folder and folder.exists():
            folder.rename(away)
        return real(place)

    return lists


@pytest.mark.parametrize("gone", ["packs", "experiments/e/t0"])
def test_the_status_ignores_files_that_vanish(
    store: Path, goes: Callable[[Path], None], gone: str, tmp_path: Path
) -> None:
    with nbckpt.Tracker() as tracker:
        session = Session(tracker, AutoMirror(tracker.store), {})
        goes(store / gone)
        assert "1 checkpoint" in str(parse(TABLE, [], "%ckpt").run(session))
    assert (tmp_path / "away").exists()


def test_a_mirror_ignores_trials_that_vanish(
    store: Path, goes: Callable[[Path], None], tmp_path: Path
) -> None:
    with nbckpt.Tracker() as tracker:
        auto = AutoMirror(tracker.store, in_background=False)
        auto.start(f"memory://{tmp_path.name}", 60)
        auto.push()
        goes(store / "experiments" / "e")
        assert auto.waiting().trials <= 1


def test_a_refresh_ignores_an_experiment_that_vanishes(store: Path, goes: Callable[[Path], None]) -> None:
    experiment = Catalog(store / "experiments").open("e")
    goes(experiment.folder)
    experiment.refresh()
    assert [trial.id for trial in experiment.trials] == ["t0"]


def test_a_list_ignores_a_trial_that_vanishes(store: Path, goes: Callable[[Path], None]) -> None:
    folder = CheckpointFolder(store / "experiments" / "e" / "t0")
    goes(folder.folder)
    assert folder.records() == []
