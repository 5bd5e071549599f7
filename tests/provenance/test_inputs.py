"""nbckpt.data: inputs and their fingerprints, for the trial or the cells that read them."""

from __future__ import annotations

import json
import os
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
from nbckpt.provenance import fingerprint, inputs
from nbckpt.provenance.lines import described, lines
from nbckpt.provenance.trial import read_attempts


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
