"""Experiments of somebody else: resumed and signed if trusted, and no link in them leads out."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import contents, ran

import nbckpt
from nbckpt.cli import main
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import CorruptError, NbckptError, NotFoundError, UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.trials import CheckpointFolder, Experiment, Trial
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.checkpoint_index import find
from nbckpt.trials.model.journal import read
from nbckpt.trials.model.trial import Status

DONE = [("TERMINATED", 4, "")] * 2


def train(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    done = checkpoint.to_dict()["done"] if checkpoint else 0
    for step in range(done + 1, 5):
        nbckpt.report(loss=1 / step, checkpoint={"done": step})


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Return a paused experiment of somebody with another secret, on a machine that has no object of it."""
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "mine"))
    made = ran(train, name="e", folder=tmp_path / "theirs" / "experiments", num_samples=2)
    for trial in made.trials:  # as if the kernel had died after the second checkpoint
        journal = trial.folder / "events.jsonl"
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:5]))
        for record in trial.checkpoints.records()[2:]:
            trial.checkpoints.delete(record)
    (tmp_path / "mine").mkdir()
    (tmp_path / "theirs" / "experiments").rename(tmp_path / "mine" / "experiments")
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    return Catalog(tmp_path / "mine" / "experiments")


class PausesAtTwo(nbckpt.trials.Callback):
    """Pauses the experiment at its second results."""

    def setup(self, experiment: Any) -> None:
        self.experiment = experiment

    def on_trial_result(self, trial: Any, result: Any) -> None:
        if trial.iteration == 2 and trial.attempts == 1:
            self.experiment.pause()


@pytest.fixture
def paused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an experiment of somebody with another secret, whose trial is paused."""
    theirs, mine = tmp_path / "theirs" / "experiments", tmp_path / "mine" / "experiments"
    monkeypatch.setenv("NBCKPT_STORE", str(mine.parent))
    made = nbckpt.run(train, name="e", executor="inline", folder=theirs, callbacks=[PausesAtTwo()])
    assert [(trial.status, trial.checkpoint_iteration) for trial in made.trials] == [("PAUSED", 2)]
    mine.parent.mkdir()
    theirs.rename(mine)
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    return mine / "e"


def ends(experiment: Experiment) -> list[tuple[str, int, str]]:
    assert experiment.wait(60)
    return [(trial.status, trial.iteration, trial.error) for trial in experiment.trials]


def origins(trial: Trial) -> list[tuple[str | None, int]]:
    """Return from which checkpoint each attempt started, and its iteration. The trial is whole."""
    assert [result["training_iteration"] for result in trial.results] == [1, 2, 3, 4]
    events = read(trial.folder / "events.jsonl")
    return [(event["from"], event["iteration"]) for event in events if event["event"] == "start"]


def test_resume_with_trust_continues_from_the_checkpoints(elsewhere: Catalog) -> None:
    experiment = elsewhere.open("e")
    with pytest.raises(nbckpt.errors.UntrustedError):
        experiment.resume()
    assert [trial.iteration for trial in experiment.trials] == [2, 2]
    assert ends(experiment.resume(trust=True)) == DONE
    assert [len(trial.results) for trial in experiment.trials] == [4, 4]


def test_resume_with_trust_signs_with_a_live_function_too(elsewhere: Catalog) -> None:
    experiment = ran(train, name="e", num_samples=2)
    assert [trial.status for trial in experiment.trials] == ["ERROR", "ERROR"]
    ended = ends(experiment.resume(errored=True, trust=True))
    assert [end[:2] for end in ended] == [("TERMINATED", 4)] * 2


def test_the_command_resume_with_trust_continues_a_paused_trial(
    paused: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = Trial.read(paused / "t0").checkpoints.records()[-1]
    assert main(["resume", "e", "--trust"]) == 0
    assert "e: 1 trial, 1 done" in capsys.readouterr().out
    assert origins(Trial.read(paused / "t0")) == [(None, 0), (checkpoint.name, 2)]


def test_another_machine_that_knows_only_a_url_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = (tmp_path / "url").as_uri()
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "theirs"))
    sync = nbckpt.SyncConfig(upload_dir=url)
    nbckpt.run(train, name="e", executor="inline", callbacks=[PausesAtTwo()], sync_config=sync)
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "mine"))
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    assert main(["pull", url]) == 0
    assert main(["resume", "e"]) == 1
    assert "not signed by you" in capsys.readouterr().err
    assert main(["resume", "e", "--trust"]) == 0
    trial = Trial.read(tmp_path / "mine" / "experiments" / "e" / "t0")
    assert [iteration for _, iteration in origins(trial)] == [0, 2]


def test_the_command_resume_without_trust_changes_nothing(
    paused: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(paused)
    assert main(["resume", "e"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    why = "nbckpt: the function of 'e' is not signed by you, and loading it can run any code."
    assert err.startswith(why)
    assert err.endswith(", and pass --trust if you trust its author\n")
    assert contents(paused) == before


@pytest.mark.parametrize("target", ["e", "--store"])
def test_trust_signs_an_experiment_with_its_checkpoints(
    elsewhere: Catalog, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    assert main(["trust", target]) == 0
    assert "Signed 4 checkpoints and 1 experiment as your own" in capsys.readouterr().out
    assert main(["trust", target]) == 0
    assert "Nothing to sign" in capsys.readouterr().out
    assert ends(elsewhere.open("e").resume()) == DONE


def test_trust_signs_one_trial_or_one_checkpoint(
    elsewhere: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trust", "e/t0@2"]) == 0
    assert "Signed 1 checkpoint as your own: e/t0@2." in capsys.readouterr().out
    assert main(["trust", "e/t0"]) == 0
    assert "Signed 1 checkpoint as your own: e/t0@1." in capsys.readouterr().out
    trial, record = elsewhere.checkpoint("e/t0@2")
    trial.checkpoints.check(record)
    assert nbckpt.Checkpoint.from_directory(trial.checkpoints.path(record)).to_dict() == {"done": 2}


def test_a_damaged_checkpoint_is_not_signed(elsewhere: Catalog) -> None:
    trial, record = elsewhere.checkpoint("e/t0@2")
    (pack,) = (trial.folder / record.name).rglob("checkpoint.json")
    pack.write_bytes(pack.read_bytes() + b" ")
    with pytest.raises(nbckpt.errors.CorruptError, match="is not what was saved"):
        elsewhere.trust("e/t0@2", nbckpt.Tracker().history.signer)


def test_a_pull_finds_what_a_run_syncs_to_the_same_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = (tmp_path / "there").as_uri()
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "one"))
    ran(train, name="e", sync_config=nbckpt.SyncConfig(upload_dir=url))
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "two"))
    assert main(["pull", url]) == 0
    trial, record = Catalog(tmp_path / "two" / "experiments").checkpoint("e/t0@4")
    assert trial.iteration == 4
    trial.checkpoints.check(record)
    assert main(["pull", url]) == 0


def test_a_run_continues_an_experiment_that_a_push_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = (tmp_path / "there").as_uri()
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "one"))
    ran(train, name="e")
    assert main(["push", url]) == 0
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "two"))
    again = ran(train, name="e", resume="must", sync_config=nbckpt.SyncConfig(upload_dir=url))
    (trial,) = again.trials
    assert (trial.attempts, trial.iteration) == (1, 4)


def train_once(config: dict[str, int]) -> None:
    nbckpt.report(loss=1, checkpoint={"i": 1})


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return an experiment elsewhere."""
    if os.name == "nt":
        pytest.skip("needs POSIX")
    assert nbckpt.run(train_once, name="e", executor="inline", folder=tmp_path / "theirs").wait(60)
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
        nbckpt.run(train_once, name="e", executor="inline", folder=mine)
    assert contents(outside) == before


@pytest.mark.parametrize("name", ["t0", "t0/events.jsonl", "t0/params.json"])
def test_a_linked_trial_is_a_damaged_row(tmp_path: Path, outside: Path, name: str) -> None:
    place = copied(outside, tmp_path) / name
    place.rename(tmp_path / "away")
    place.symlink_to(outside / name)
    (trial,) = Catalog(tmp_path / "mine").open("e").trials
    assert trial.status == Status.DAMAGED
    assert trial.damage == f"{name} is not read: it is a link that leads outside"


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX")
@pytest.mark.parametrize("target", ["events.jsonl", "nowhere"])
def test_a_journal_that_links_nowhere_harms_no_other_trial(tmp_path: Path, target: str) -> None:
    nbckpt.run(train_once, name="e", executor="inline", folder=tmp_path, num_samples=2).wait(60)
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
            nbckpt.run(train_once, name="new", executor="inline")
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
