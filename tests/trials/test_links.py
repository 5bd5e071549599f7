"""Experiments in a folder that somebody else made: no link leads out of it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import CorruptError, NbckptError, NotFoundError, UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.trials import Catalog, CheckpointFolder
from nbckpt.trials.checkpoint_index import find
from nbckpt.trials.model.trial import Status

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX")


def train(config: dict[str, int]) -> None:
    nbckpt.report(loss=1, checkpoint={"i": 1})


def contents(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return an experiment elsewhere."""
    assert nbckpt.run(train, name="e", executor="inline", folder=tmp_path / "theirs").wait(60)
    return tmp_path / "theirs" / "e"


def copied(outside: Path, tmp_path: Path) -> Path:
    return shutil.copytree(outside, tmp_path / "mine" / "e")


def test_a_linked_experiment_is_not_read_run_or_removed(tmp_path: Path, outside: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "e").symlink_to(outside)
    before = contents(outside)
    assert Catalog(mine).names() == []
    for ref in ("e", "e/t0@1"):
        with pytest.raises(NotFoundError):
            Catalog(mine).remove(ref)
    with pytest.raises(UsageError, match=r"'e' in .* is a link that leads outside: remove it"):
        nbckpt.run(train, name="e", executor="inline", folder=mine)
    assert contents(outside) == before


@pytest.mark.parametrize("name", ["t0", "t0/events.jsonl", "t0/params.json"])
def test_a_linked_trial_is_a_damaged_row(tmp_path: Path, outside: Path, name: str) -> None:
    place = copied(outside, tmp_path) / name
    place.rename(tmp_path / "away")
    place.symlink_to(outside / name)
    (trial,) = Catalog(tmp_path / "mine").open("e").trials
    assert trial.status == Status.DAMAGED
    assert trial.damage == f"{name} is not read: it is a link that leads outside"


@pytest.mark.parametrize("target", ["events.jsonl", "nowhere"])
def test_a_journal_that_links_nowhere_harms_no_other_trial(tmp_path: Path, target: str) -> None:
    nbckpt.run(train, name="e", executor="inline", folder=tmp_path, num_samples=2).wait(60)
    journal = tmp_path / "e" / "t0" / "events.jsonl"
    journal.unlink()
    journal.symlink_to(target)
    broken, well = Catalog(tmp_path).open("e").trials
    assert list(broken.results) == []
    assert len(well.results) == 1


def test_the_folder_of_experiments_may_be_a_link(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "chosen").symlink_to(outside.parent)
    assert Catalog(tmp_path / "chosen").open("e").trials[0].results[0]["loss"] == 1


COMMANDS = "trials", "ls --all", "show e", "show t0", "rm e", "rm e/t0@1", "resume e", "best", "stop e", "gc"


def test_a_linked_experiments_folder_of_a_store_is_not_used(
    store: Path, outside: Path, subtests: pytest.Subtests
) -> None:
    with nbckpt.Tracker() as tracker:
        tracker.save({"x": 1}, "one")
        (store / "experiments").symlink_to(outside.parent)
        before = contents(outside)
        session = Session(tracker, AutoMirror(tracker.store), {})
        for words in COMMANDS:
            with subtests.test(words):
                with pytest.raises(NbckptError, match="is a link that leads outside its store"):
                    parse(TABLE, words.split(), "%ckpt").run(session)
                assert contents(outside) == before
        with pytest.raises(UsageError, match="is a link that leads outside its store"):
            nbckpt.run(train, name="new", executor="inline")
        for usual in ("ls", "status", "show one", "restore one", "verify one", "verify"):
            result = parse(TABLE, [] if usual == "status" else usual.split(), "%ckpt").run(session)
            assert result.exit_status == (2 if usual == "verify" else 0)  # it names the link as damage
    assert contents(outside) == before


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
def test_links_pipes_and_devices_among_trial_files_are_harmless(tmp_path: Path) -> None:
    from attack.limits import run_child

    assert [line for line in run_child("attack.odd_files", tmp_path, seconds=850) if "WRONG" in line] == []


def test_checkpoints_of_a_linked_trial_are_not_listed(tmp_path: Path, outside: Path) -> None:
    place = copied(outside, tmp_path) / "t0"
    shutil.rmtree(place)
    place.symlink_to(outside / "t0")
    assert list(find(Catalog(tmp_path / "mine"))) == []


def test_a_linked_file_in_a_checkpoint_is_damage(tmp_path: Path, outside: Path) -> None:
    folder = CheckpointFolder(copied(outside, tmp_path) / "t0")
    (record,) = folder.records()
    path = f"{record.name}/{min(record.files)}"
    (folder.folder / path).unlink()
    (folder.folder / path).symlink_to(outside / "t0" / path)
    with pytest.raises(CorruptError, match="is not what was saved"):
        folder.check(record)
