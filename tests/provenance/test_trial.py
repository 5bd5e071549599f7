"""The provenance of trials: the file in the trial's folder, and how a trial shows it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from provenance.conftest import run

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


def fits(folder: Path, **more: object) -> Experiment:
    return run(train, {"rate": 0.5}, folder=folder, **{"name": "fits", **more})


def notes(experiment: Experiment) -> str:
    return "\n".join(TrialShown(experiment, experiment.trial("t0")).page().notes)


def test_a_trial_shows_its_commit_and_its_changes(changed: Path, tmp_path: Path) -> None:
    (changed / "new.py").write_text("x = 1\n")
    shown = notes(fits(tmp_path / "experiments"))
    (kept,) = read_attempts(tmp_path / "experiments/fits/t0")
    assert f"Code: {kept.code['commit'][:10]} on main" in shown
    assert "1 changed file, kept as a patch; not kept: new.py" in shown
    assert b"+RATE = 2" in kept.patch


def test_a_trial_keeps_packages_machine_seeds_and_command(tmp_path: Path) -> None:
    shown = notes(fits(tmp_path / "experiments"))
    (kept,) = read_attempts(tmp_path / "experiments/fits/t0")
    assert kept.packages["pytest"] == pytest.__version__
    assert "Code: no git repository" in shown
    assert f"With: Python {kept.machine['python']}, {len(kept.packages)} packages" in shown
    assert "random" in kept.seeds
    assert kept.document["command"]


def test_trials_share_the_objects_of_their_experiment(changed: Path, tmp_path: Path) -> None:
    trials = run(train, {"rate": nbckpt.grid_search([1, 2, 3])}, name="fits").trials
    objects = [read_attempts(trial.folder)[0].document["objects"] for trial in trials]
    assert len(objects) == 3
    assert len({kept["patch"] for kept in objects}) == 1


def test_without_provenance_nothing_is_written(repository: Path, tmp_path: Path) -> None:
    experiment = fits(tmp_path / "experiments", provenance=False)
    assert not (experiment.folder / "t0" / FILE).exists()
    assert "Code:" not in notes(experiment)


def test_the_setting_turns_provenance_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCKPT_PROVENANCE", "0")
    assert not (fits(tmp_path / "experiments").folder / "t0" / FILE).exists()


def test_a_resumed_trial_keeps_the_code_it_began_with(repository: Path, git: object, tmp_path: Path) -> None:
    def counts(config: dict[str, float]) -> None:
        start = (nbckpt.get_checkpoint() or {"at": 0})["at"]
        nbckpt.report(loss=1.0, checkpoint={"at": start + 1})
        if not start:
            raise RuntimeError("first attempt")

    assert callable(git)
    experiment = run(counts, name="fits")
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
    experiment = fits(tmp_path / "experiments")
    (kept,) = read_attempts(experiment.folder / "t0")
    assert "value-of-a-variable" not in json.dumps(dict(kept.document))


@pytest.mark.parametrize("artifacts", [True, False])
def test_a_synced_trial_comes_back_with_its_provenance(
    changed: Path, tmp_path: Path, *, artifacts: bool
) -> None:
    url = f"memory://provenance-{artifacts}"
    config = nbckpt.SyncConfig(url, sync_artifacts=artifacts)
    experiment = fits(tmp_path / "experiments", sync_config=config)
    assert experiment.wait(60)
    download(open_store(f"{url}/fits"), tmp_path / "elsewhere/fits")
    (kept,) = read_attempts(tmp_path / "elsewhere/fits/t0")
    assert b"+RATE = 2" in kept.patch
    assert kept.packages


def test_a_pushed_trial_comes_back_with_its_provenance(changed: Path, tmp_path: Path) -> None:
    fits(tmp_path / "store/experiments")
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

    experiment = run(drawing, name="fits", executor="process")
    (kept,) = read_attempts(experiment.folder / "t0")
    before = random.getstate()
    try:
        assert "random" in write_seeds(kept.seeds)
        assert [random.random(), random.random()] == experiment.trial("t0").metric("drawn")
    finally:
        random.setstate(before)
    assert kept.document["executor"] == "process"


def test_a_trial_keeps_the_machine_that_it_ran_on(tmp_path: Path) -> None:
    fits(tmp_path / "experiments")
    folder = tmp_path / "experiments/fits/t0"
    of_worker(folder, WorkerOrigin({"cpu": "of the node"}, {}))
    background.settle()
    (kept,) = read_attempts(folder)
    assert kept.machine == {"cpu": "of the node"}
    assert "random" in kept.seeds
    kept.check()


def test_a_trial_without_provenance_gets_none_from_its_process(tmp_path: Path) -> None:
    fits(tmp_path / "experiments", provenance=False)
    of_worker(tmp_path / "experiments/fits/t0", WorkerOrigin())
    background.settle()
    assert not (tmp_path / "experiments/fits/t0" / FILE).exists()


# Comparisons.


def test_a_comparison_names_the_code_that_differs(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "experiments"
    for name in ("a", "b"):
        fits(folder, name=name)
        (repository / "train.py").write_text("RATE = 2\n")
    compared = nbckpt.trials.compare("a/t0", "b/t0", folder=folder)
    (row,) = compared.provenance
    assert row.name == "changes"
    assert row.values[0] == ""
    assert "train.py" in row.values[1]
    assert "code, packages and data that differ" in str(compared)


def test_provenance_is_a_frame_too(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="needs pandas")
    for name in ("a", "b"):
        (tmp_path / "data.csv").write_text(name)
        nbckpt.data(tmp_path / "data.csv")
        fits(tmp_path / "e", name=name)
    frame = nbckpt.trials.compare("a/t0", "b/t0", folder=tmp_path / "e").provenance_frame()
    (row,) = [name for name in frame.index if name.startswith("data ")]
    assert frame.loc[row, "a/t0"] != frame.loc[row, "b/t0"]
