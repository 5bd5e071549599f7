"""The provenance of trials: the file in the trial's folder, and how a trial shows it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import nbckpt
from nbckpt.mirror import Mirror
from nbckpt.provenance import background
from nbckpt.provenance.seeds import write_seeds
from nbckpt.provenance.trial import FILE, of_worker, read_attempts
from nbckpt.provenance.worker import WorkerOrigin
from nbckpt.store import LocalStore, open_store
from nbckpt.sync.download import download
from nbckpt.trials import Experiment
from nbckpt.trials.views.trial_page import TrialShown


def train(config: dict[str, float]) -> None:
    nbckpt.report(loss=config["rate"])


def run(folder: Path, **more: object) -> Experiment:
    experiment = nbckpt.run(train, {"rate": 0.5}, name="fits", folder=folder, executor="inline", **more)
    background.settle()
    return experiment


def notes(experiment: Experiment) -> str:
    return "\n".join(TrialShown(experiment, experiment.trial("t0")).page().notes)


def test_a_trial_shows_its_commit_and_its_changes(changed: Path, tmp_path: Path) -> None:
    (changed / "new.py").write_text("x = 1\n")
    shown = notes(run(tmp_path / "experiments"))
    (kept,) = read_attempts(tmp_path / "experiments/fits/t0")
    assert f"Code: {kept.code['commit'][:10]} on main" in shown
    assert "1 changed file, kept as a patch; not kept: new.py" in shown
    assert b"+RATE = 2" in kept.patch


def test_a_trial_keeps_packages_machine_seeds_and_command(tmp_path: Path) -> None:
    shown = notes(run(tmp_path / "experiments"))
    (kept,) = read_attempts(tmp_path / "experiments/fits/t0")
    assert kept.packages["pytest"] == pytest.__version__
    assert "Code: no git repository" in shown
    assert f"With: Python {kept.machine['python']}, {len(kept.packages)} packages" in shown
    assert "random" in kept.seeds
    assert kept.document["command"]


def test_trials_share_the_objects_of_their_experiment(changed: Path, tmp_path: Path) -> None:
    grid = {"rate": nbckpt.grid_search([1, 2, 3])}
    nbckpt.run(train, grid, name="fits", folder=tmp_path / "experiments", executor="inline")
    background.settle()
    checksums = {
        read_attempts(tmp_path / f"experiments/fits/t{number}")[0].document["objects"]["patch"]
        for number in range(3)
    }
    assert len(checksums) == 1


def test_without_provenance_nothing_is_written(repository: Path, tmp_path: Path) -> None:
    experiment = run(tmp_path / "experiments", provenance=False)
    assert not (experiment.folder / "t0" / FILE).exists()
    assert "Code:" not in notes(experiment)


def test_the_setting_turns_provenance_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCKPT_PROVENANCE", "0")
    assert not (run(tmp_path / "experiments").folder / "t0" / FILE).exists()


def test_a_resumed_trial_keeps_the_code_it_began_with(repository: Path, git: object, tmp_path: Path) -> None:
    def counts(config: dict[str, float]) -> None:
        start = (nbckpt.get_checkpoint() or {"at": 0})["at"]
        nbckpt.report(loss=1.0, checkpoint={"at": start + 1})
        if not start:
            raise RuntimeError("first attempt")

    assert callable(git)
    experiment = nbckpt.run(counts, {}, name="fits", folder=tmp_path / "experiments", executor="inline")
    background.settle()
    git("commit", "--quiet", "--allow-empty", "-m", "second")
    experiment.resume(errored=True)
    experiment.wait()
    background.settle()
    first, second = read_attempts(experiment.folder / "t0")
    assert first.code["commit"] != second.code["commit"]
    assert f"began at another commit: {first.code['commit'][:10]}" in notes(experiment)


def test_no_environment_variable_is_kept(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_VARIABLE", "value-of-a-variable")
    experiment = run(tmp_path / "experiments")
    (kept,) = read_attempts(experiment.folder / "t0")
    assert "value-of-a-variable" not in json.dumps(dict(kept.document))


@pytest.mark.parametrize("artifacts", [True, False])
def test_a_synced_trial_comes_back_with_its_provenance(
    changed: Path, tmp_path: Path, *, artifacts: bool
) -> None:
    url = f"memory://provenance-{artifacts}"
    config = nbckpt.SyncConfig(url, sync_artifacts=artifacts)
    experiment = run(tmp_path / "experiments", sync_config=config)
    assert experiment.wait(60)
    download(open_store(f"{url}/fits"), tmp_path / "elsewhere/fits")
    (kept,) = read_attempts(tmp_path / "elsewhere/fits/t0")
    assert b"+RATE = 2" in kept.patch
    assert kept.packages


def test_a_pushed_trial_comes_back_with_its_provenance(changed: Path, tmp_path: Path) -> None:
    run(tmp_path / "store/experiments")
    store, target = LocalStore(tmp_path / "store"), tmp_path / "target"
    Mirror(store, tmp_path / "store/experiments", target).push()
    Mirror(LocalStore(tmp_path / "other"), tmp_path / "other/experiments", target).pull()
    (kept,) = read_attempts(tmp_path / "other/experiments/fits/t0")
    assert b"+RATE = 2" in kept.patch


def test_a_process_trial_keeps_the_seeds_of_its_process(tmp_path: Path) -> None:
    def drawing(config: dict[str, float]) -> None:
        import random

        nbckpt.report(drawn=random.random())
        nbckpt.report(drawn=random.random())

    experiment = nbckpt.run(drawing, name="fits", folder=tmp_path / "experiments", executor="process")
    assert experiment.wait(100)
    background.settle()
    (kept,) = read_attempts(tmp_path / "experiments/fits/t0")
    before = random.getstate()
    try:
        assert "random" in write_seeds(kept.seeds)
        assert [random.random(), random.random()] == experiment.trial("t0").metric("drawn")
    finally:
        random.setstate(before)
    assert kept.document["executor"] == "process"


def test_a_trial_keeps_the_machine_that_it_ran_on(tmp_path: Path) -> None:
    run(tmp_path / "experiments")
    folder = tmp_path / "experiments/fits/t0"
    of_worker(folder, WorkerOrigin({"cpu": "of the node"}, {}))
    background.settle()
    (kept,) = read_attempts(folder)
    assert kept.machine == {"cpu": "of the node"}
    assert "random" in kept.seeds
    kept.check()


def test_a_trial_without_provenance_gets_none_from_its_process(tmp_path: Path) -> None:
    run(tmp_path / "experiments", provenance=False)
    of_worker(tmp_path / "experiments/fits/t0", WorkerOrigin())
    background.settle()
    assert not (tmp_path / "experiments/fits/t0" / FILE).exists()
