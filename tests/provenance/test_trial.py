"""The provenance of trials: the file in their folder, how they show it, and the inputs that they read."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import blake3
import fsspec
import pandas as pd
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from provenance.conftest import run

import nbckpt
from nbckpt.mirror import Mirror
from nbckpt.provenance import background, fingerprint, inputs
from nbckpt.provenance.lines import described, lines
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


class Tagged(MemoryFileSystem):
    """A storage that knows ETags."""

    protocol = "tagged"

    def info(self, path: str, **more: Any) -> dict[str, Any]:
        return {"name": path, "size": 3, "ETag": '"abc-1"', "LastModified": "2026-01-01"}


@pytest.fixture(autouse=True)
def none_before() -> Iterator[None]:
    """Forget the inputs of other tests."""
    inputs.forget()
    fsspec.register_implementation("tagged", Tagged, clobber=True)
    yield
    inputs.forget()


def old(file: Path, contents: bytes) -> Path:
    """Write a file whose last change is long ago."""
    file.write_bytes(contents)
    os.utime(file, (1_700_000_000, 1_700_000_000))
    return file


def test_data_returns_the_path_and_notes_the_contents(tmp_path: Path) -> None:
    file = old(tmp_path / "train.csv", b"a,b\n1,2\n")
    assert list(pd.read_csv(nbckpt.data(file)).columns) == ["a", "b"]
    (noted,) = inputs.so_far()
    assert noted["checksum"] == blake3.blake3(b"a,b\n1,2\n").hexdigest()
    assert (noted["path"], noted["size"], noted["modified"]) == (str(file), 8, "2023-11-14T22:13:20Z")


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = old(tmp_path / "train.csv", b"1")
    nbckpt.data(file)
    monkeypatch.setattr(fingerprint, "open", lambda *_, **__: pytest.fail("it was read"), raising=False)
    nbckpt.data(file)
    assert inputs.so_far()[0]["note"] == fingerprint.KNOWN


def test_a_file_with_another_time_is_read_again(tmp_path: Path) -> None:
    file = old(tmp_path / "train.csv", b"1")
    nbckpt.data(file)
    file.write_bytes(b"2")
    nbckpt.data(file)
    assert inputs.so_far()[0]["checksum"] == blake3.blake3(b"2").hexdigest()


def test_a_file_that_just_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_bytes(b"1")
    nbckpt.data(file)
    nbckpt.data(file)
    assert "note" not in inputs.so_far()[0]


def test_a_folder_has_one_fingerprint_of_all_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    (folder / "b").mkdir(parents=True)
    old(folder / "a.png", b"12")
    old(folder / "b/c.png", b"3")
    nbckpt.data(folder)
    before = inputs.so_far()[0]
    assert (before["files"], before["size"]) == (2, 3)
    (folder / "b/c.png").rename(folder / "b/d.png")
    nbckpt.data(folder)
    assert inputs.so_far()[0]["checksum"] != before["checksum"]


def test_a_folder_leaves_pipes_and_links_to_folders_out(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    nbckpt.data(folder)
    assert inputs.so_far()[0]["files"] == 0


def test_a_url_has_the_etag_of_its_storage() -> None:
    url = "tagged://bucket/a.csv?token=abc"
    assert nbckpt.data(url) == url
    (noted,) = inputs.so_far()
    assert (noted["etag"], noted["size"]) == ("abc-1", 3)
    assert noted["path"] == "tagged://bucket/a.csv?token=***"


def test_a_url_that_cannot_be_asked_is_noted() -> None:
    nbckpt.data("memory://nobody/has/this.csv")
    assert "it cannot be asked for" in inputs.so_far()[0]["note"]


def test_a_missing_input_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(nbckpt.NotFoundError, match=r"no file or folder 'none\.csv'"):
        nbckpt.data("none.csv")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(nbckpt.UsageError, match="neither a file nor a folder"):
        nbckpt.data(tmp_path / "pipe")


def test_without_provenance_data_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBCKPT_PROVENANCE", "0")
    assert nbckpt.data("none.csv") == "none.csv"
    assert inputs.so_far() == []


@pytest.mark.parametrize("executor", ["inline", "thread", pytest.param("process", marks=pytest.mark.slow)])
def test_an_input_belongs_to_the_trial_that_reads_it(tmp_path: Path, executor: str) -> None:
    def train(config: dict[str, str]) -> None:
        nbckpt.data(config["file"])
        nbckpt.report(loss=1)

    for name in ("a", "b", "shared"):
        old(tmp_path / name, name.encode())
    nbckpt.data(tmp_path / "shared")
    grid = {"file": nbckpt.grid_search([str(tmp_path / "a"), str(tmp_path / "b")])}
    experiment = run(train, grid, name="e", executor=executor)
    for trial, name in zip(experiment.trials, "ab", strict=True):
        kept = read_attempts(trial.folder)[-1]
        assert [Path(noted["path"]).name for noted in kept.inputs] == ["shared", name]
        assert f"{name} {blake3.blake3(name.encode()).hexdigest()[:10]}" in "\n".join(lines(kept))


def test_a_saved_checkpoint_has_the_inputs_so_far(tmp_path: Path) -> None:
    nbckpt.data(old(tmp_path / "train.csv", b"1"))
    manifest = nbckpt.Tracker(tmp_path / "store").save({"x": 1}, "n").manifest
    assert manifest.provenance["again"]["data"][0]["path"] == str(tmp_path / "train.csv")


def test_a_changed_note_of_an_input_is_told(tmp_path: Path) -> None:
    read_files = [str(old(tmp_path / name, name.encode())) for name in ("one.csv", "two.csv")]

    def train(config: dict[str, Any]) -> None:
        for path in read_files:
            nbckpt.data(path)
        nbckpt.report(x=1)

    (trial,) = run(train, name="e").trials
    file = trial.folder / inputs.FILE
    file.write_bytes(file.read_bytes().replace(b"one.csv", b"0ne.csv"))
    kept = read_attempts(trial.folder)[-1]
    assert [noted["path"] for noted in kept.inputs] == read_files[1:]
    assert "1 of the noted inputs cannot be read" in described(kept)


def test_strange_lines_of_inputs_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "e/t0"
    folder.mkdir(parents=True)
    good = {"path": "a", "at": "2026", "checksum": "1"}
    strange = [b"{", b"[]", b'{"path": 1}', b"\xff", b'{"path": "a", "size": -1}', json.dumps(good).encode()]
    (folder / inputs.FILE).write_bytes(b"\n".join(strange))
    assert inputs.of_folder(folder, "2025") == ([good], 5)
    assert inputs.of_folder(folder, "2027") == ([], 5)
    (folder / inputs.FILE).unlink()
    (folder / inputs.FILE).symlink_to("/etc/passwd")
    assert inputs.of_folder(folder, "") == ([], 0)
