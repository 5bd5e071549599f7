"""What trials on other nodes write beside their checkpoints: where it goes in each situation."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from cluster.conftest import Nodes

import nbckpt
from nbckpt.store import base, open_store
from nbckpt.sync import SyncConfig
from nbckpt.sync.download import download
from nbckpt.trials import Experiment, Status
from nbckpt.trials.engine.runner import runner_of
from nbckpt.trials.executors import artifacts
from nbckpt.trials.executors import ray as executor

pytestmark = pytest.mark.slow  # the start of a cluster

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as the functions of a notebook

A_WHILE = 120


class Draws(nbckpt.trials.Trainable):
    """Writes beside its checkpoints, with each step and at the end."""

    def setup(self, config: dict[str, Any]) -> None:
        self.n = 0

    def step(self) -> dict[str, Any]:
        self.n += 1
        folder = Path(self.logdir)
        (folder / "plots").mkdir(exist_ok=True)
        if self.n == 1:
            (folder / "plots" / "first").write_text("first")
        (folder / "plots" / "newest").write_text(str(self.n))
        if "params" in self.config:
            (folder / "params.json").write_text("another's")
        return {"n": self.n, "done": self.n == 4, "logdir": self.logdir}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"n": self.n}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.n = checkpoint["n"]

    def cleanup(self) -> None:
        (Path(self.logdir) / "last").write_text(str(self.n))


def run(config: dict[str, Any] | None = None, **options: Any) -> Experiment:
    experiment = nbckpt.run(
        Draws,
        config,
        **{"name": "e", "executor": "ray", "checkpoint_every": 2, "resources_per_trial": {"second": 1}}
        | options,
    )
    assert experiment.wait(A_WHILE)
    trial = experiment.trials[0]
    assert trial.status == Status.TERMINATED, trial.traceback
    assert trial.note in {"done", "n reached 2"}
    assert experiment.notes == []
    return experiment


def written(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    paths = {path.relative_to(folder).as_posix(): path for path in files}
    return {path: value.read_text() for path, value in paths.items() if path.startswith(("plots", "last"))}


ALL = {"plots/first": "first", "plots/newest": "4", "last": "4"}


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pieces of artifacts and checkpoints that came to this machine."""
    paths: list[str] = []
    call = executor.RayWorker.call

    def notes(self: Any, request: str, *given: Any, timeout: float | None = None) -> Any:
        if request in {"read", "write"}:
            paths.append(request if given[0].startswith("checkpoint_") else given[0])
        return call(self, request, *given, timeout=timeout)

    monkeypatch.setattr(executor.RayWorker, "call", notes)
    return paths


@pytest.mark.parametrize("kind", ["thread", "process", "inline"])
def test_no_files_are_transferred_on_one_machine(kind: str, carried: list[str]) -> None:
    """Scenario (a): what the trial writes is in its folder already."""
    experiment = run(executor=kind, resources_per_trial=None)
    trial = experiment.trials[0]
    assert trial.results[0]["logdir"] == str(trial.folder)
    assert (written(trial.folder), carried) == (ALL, [])


def test_changed_files_of_another_node_reach_the_driver(nodes: Nodes, carried: list[str]) -> None:
    """Scenario (b): at checkpoints and at the end, and only what changed."""
    trial = run({"params": 1}).trials[0]
    assert trial.results[0]["logdir"] != str(trial.folder)
    assert written(trial.folder) == ALL
    assert [path for path in carried if path != "read"] == [
        *("plots/first", "plots/newest"),
        *("plots/newest", "last"),
    ]
    assert "another" not in (trial.folder / "params.json").read_text()
    assert nodes.left() == []


def test_a_large_artifact_arrives_in_pieces(monkeypatch: pytest.MonkeyPatch, carried: list[str]) -> None:
    monkeypatch.setattr(artifacts, "PIECE", 3)
    monkeypatch.setattr(base, "PIECE", 3)
    trial = run().trials[0]
    assert written(trial.folder) == ALL


def test_artifacts_go_directly_to_the_upload_dir(nodes: Nodes, tmp_path: Path, carried: list[str]) -> None:
    """Scenario (c): checkpoints come to the driver, which sends them; nothing else does."""
    target = tmp_path / "target"
    trial = run(sync_config=SyncConfig(target.as_uri())).trials[0]
    assert written(trial.folder) == {}
    assert set(carried) == {"read"}
    download(open_store(target / "e" / "artifacts" / "t0"), tmp_path / "artifacts")
    assert written(tmp_path / "artifacts") == ALL
    download(open_store(target / "e"), tmp_path / "there")
    assert written(tmp_path / "there" / "artifacts" / "t0") == ALL
    assert (tmp_path / "there" / "t0" / "checkpoint_000004.json").is_file()
    assert nodes.left() == []


def test_without_a_syncer_trials_use_the_shared_disk(nodes: Nodes, carried: list[str]) -> None:
    """Scenario (d): the trial is in its own folder, wherever it runs."""
    sync = SyncConfig(syncer=None)
    trial = run(sync_config=sync).trials[0]
    assert trial.results[0]["logdir"] == str(trial.folder)
    assert (written(trial.folder), carried, nodes.left()) == (ALL, [], [])
    for record in trial.checkpoints.records():
        trial.checkpoints.check(record)
    assert [record.iteration for record in trial.checkpoints.records()] == [2, 4]


def test_a_trial_on_a_shared_disk_resumes_from_its_checkpoint(carried: list[str]) -> None:
    experiment = run(sync_config=SyncConfig(syncer=None), stop={"n": 2})
    runner_of(experiment).spec = replace(experiment.spec, stop=None)
    experiment.resume("t0")
    assert experiment.wait(A_WHILE)
    trial = experiment.trials[0]
    assert [result["n"] for result in trial.results] == [1, 2, 3, 4], trial.traceback
    assert carried == []


def test_without_a_syncer_only_checkpoints_reach_the_driver(
    monkeypatch: pytest.MonkeyPatch, carried: list[str]
) -> None:
    """Scenario (d), on nodes that do not see the driver's disk."""
    reads = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"" if path.name == "params.json" else reads(path))
    trial = run(sync_config=SyncConfig(syncer=None)).trials[0]
    assert trial.results[0]["logdir"] != str(trial.folder)
    assert (written(trial.folder), set(carried)) == ({}, {"read"})


def test_sync_artifacts_false_leaves_artifacts_on_the_node(carried: list[str]) -> None:
    trial = run(sync_config=SyncConfig(sync_artifacts=False)).trials[0]
    assert (written(trial.folder), set(carried)) == ({}, {"read"})
