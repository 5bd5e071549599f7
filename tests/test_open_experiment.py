"""An experiment is opened by its name: in the store, in a folder, or at a URL, from which it is pulled."""

from __future__ import annotations

import itertools
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt.errors import CorruptError, NotFoundError, UsageError
from nbckpt.mirror import Mirror
from nbckpt.store import LocalStore, open_store
from nbckpt.store.locks import file_lock
from nbckpt.trials.model.spec_file import FILE

SECONDS = 60


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def url() -> str:
    return f"memory://{uuid.uuid4().hex}"


def count(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    for i in range(checkpoint.to_dict()["i"] if checkpoint else 0, config["n"]):
        nbckpt.report(i=i + 1, checkpoint={"i": i + 1})


def made(folder: Path, name: str = "grid", n: int = 2, **options: Any) -> nbckpt.Experiment:
    experiment = nbckpt.run(count, {"n": n}, name=name, folder=folder, executor="inline", **options)
    assert experiment.wait(SECONDS)
    return experiment


def pushed(tmp_path: Path, url: str, n: int = 2) -> nbckpt.Experiment:
    there = tmp_path / "there"
    experiment = made(there / "experiments", n=n)
    Mirror(LocalStore(there), there / "experiments", url).push()
    return experiment


def iterations(experiment: nbckpt.Experiment) -> list[int]:
    return [trial.iteration for trial in experiment.trials]


def test_a_name_alone_opens_an_experiment_of_the_store(store: Path) -> None:
    experiment = made(store / "experiments")
    assert nbckpt.open_experiment("grid") is experiment


def test_a_folder_is_a_store_or_holds_experiments(tmp_path: Path, subtests: pytest.Subtests) -> None:
    folder = made(tmp_path / "other" / "experiments").folder
    for part, form in itertools.product(("other", "other/experiments"), (str, Path, Path.as_uri)):
        with subtests.test(f"{part} {form}"):
            experiment = nbckpt.open_experiment("grid", form(tmp_path / part))
            assert (experiment.folder, iterations(experiment)) == (folder, [2])


def test_the_folder_may_stand_before_the_name(tmp_path: Path) -> None:
    made(tmp_path / "other" / "experiments")
    for form in ("grid", "experiments/grid", "grid/"):
        assert iterations(nbckpt.open_experiment(f"{tmp_path}/other/{form}")) == [2]
    with pytest.raises(NotFoundError, match="there is no experiment 'nosuch' in"):
        nbckpt.open_experiment(f"{tmp_path}/other/nosuch")


def test_an_opened_experiment_is_controlled(tmp_path: Path) -> None:
    made(tmp_path / "other", n=4, stop=lambda trial, result: result["i"] == 2)
    experiment = nbckpt.open_experiment("grid", tmp_path / "other")
    assert experiment.resume("t0").wait(SECONDS)
    assert iterations(experiment) == [4]


def test_a_missing_experiment_suggests_the_closest(tmp_path: Path, store: Path, url: str) -> None:
    made(store / "experiments")
    pushed(tmp_path, url)
    for path in (None, tmp_path / "there", url):
        with pytest.raises(
            NotFoundError, match=r"no experiment 'gird'.*: there are grid. Did you mean 'grid'\?"
        ):
            nbckpt.open_experiment("gird", path)


def test_a_place_without_experiments_is_named() -> None:
    for path in ("nowhere", "memory://nowhere"):
        with pytest.raises(NotFoundError, match=r"there is no experiment 'grid' in .*nowhere.*: it has none"):
            nbckpt.open_experiment("grid", path)


def test_an_experiment_at_a_url_is_pulled_and_opened(tmp_path: Path, store: Path, url: str) -> None:
    pushed(tmp_path, url)
    experiment = nbckpt.open_experiment("grid", url)
    assert (experiment.folder, iterations(experiment)) == (store / "experiments" / "grid", [2])
    checkpoint = experiment.trial("t0").checkpoint
    assert checkpoint is not None
    assert checkpoint.to_dict() == {"i": 2}


def test_an_experiment_that_a_run_synced_is_opened(tmp_path: Path, url: str) -> None:
    made(tmp_path / "there", sync_config=nbckpt.SyncConfig(upload_dir=url))
    assert iterations(nbckpt.open_experiment("grid", url)) == [2]


def test_opening_again_takes_what_is_newer(tmp_path: Path, url: str) -> None:
    pushed(tmp_path, url)
    experiment = nbckpt.open_experiment("grid", url)
    pushed(tmp_path, url, n=3)
    assert nbckpt.open_experiment("grid", url) is experiment
    assert iterations(experiment) == [2, 3]


def test_another_experiment_of_the_name_is_not_mixed(tmp_path: Path, store: Path, url: str) -> None:
    pushed(tmp_path, url, n=3)
    made(store / "experiments", n=1)
    with pytest.raises(UsageError, match="is another experiment than at memory://"):
        nbckpt.open_experiment("grid", url)
    assert iterations(nbckpt.open_experiment("grid")) == [1]


def test_an_experiment_that_runs_here_is_opened_as_it_is(tmp_path: Path, store: Path, url: str) -> None:
    pushed(tmp_path, url)
    nbckpt.open_experiment("grid", url)
    with file_lock(store / "experiments" / ".grid.lock"):
        assert iterations(nbckpt.open_experiment("grid", url)) == [2]


def test_a_damaged_experiment_at_a_url_changes_nothing(tmp_path: Path, store: Path, url: str) -> None:
    pushed(tmp_path, url)
    nbckpt.open_experiment("grid", url)
    before = (store / "experiments" / "grid" / FILE).read_bytes()
    open_store(url).put(f"experiments/grid/{FILE}", b"{")
    with pytest.raises(CorruptError, match="memory://"):
        nbckpt.open_experiment("grid", url)
    assert (store / "experiments" / "grid" / FILE).read_bytes() == before


def test_a_name_never_leads_out_of_the_store(tmp_path: Path, url: str, subtests: pytest.Subtests) -> None:
    pushed(tmp_path, url)
    for name in ("", "../grid", ".grid", "a/b", "a\\b", "a\0b"):
        with subtests.test(name):
            for path in (tmp_path / "there", url):
                with pytest.raises(NotFoundError, match="there is no experiment"):
                    nbckpt.open_experiment(name, path)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX")
def test_a_link_out_of_the_store_is_not_written(tmp_path: Path, store: Path, url: str) -> None:
    pushed(tmp_path, url)
    (tmp_path / "away").mkdir()
    (store / "experiments").mkdir(parents=True)
    (store / "experiments" / "grid").symlink_to(tmp_path / "away")
    with pytest.raises(UsageError, match="is a link that leads outside"):
        nbckpt.open_experiment("grid", url)
    assert list((tmp_path / "away").iterdir()) == []
