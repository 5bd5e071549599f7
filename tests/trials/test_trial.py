"""A trial is read-only but for notes and tags, which are durable, from any process, and harmless text."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas
import pytest
from trials.conftest import ran

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import CorruptError, NotFoundError, StoreError, UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.store.locks import file_lock
from nbckpt.trials import Experiment
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model import annotation
from nbckpt.trials.model.recorder import TrialRecorder

ATTRIBUTES = [name for name, member in inspect.getmembers(nbckpt.Trial) if isinstance(member, property)]


def train(config: dict[str, Any]) -> None:
    print("training", config["lr"])
    for step in range(3):
        nbckpt.report(loss=config["lr"] / (step + 1), checkpoint={"step": step} if step == 1 else None)


@pytest.fixture
def trial(tmp_path: Path) -> nbckpt.Trial:
    return ran(train, {"lr": 0.5}, name="e", folder=tmp_path, executor="inline").trial("t0")


def test_an_attribute_of_a_trial_cannot_be_assigned(trial: nbckpt.Trial, subtests: pytest.Subtests) -> None:
    for name in ATTRIBUTES:
        with subtests.test(name):
            before = getattr(trial, name)
            with pytest.raises(AttributeError, match=name):
                setattr(trial, name, before)


def test_changing_what_a_trial_returned_does_not_change_it(trial: nbckpt.Trial) -> None:
    trial.config["lr"] = 2
    trial.metrics["loss"] = 2
    trial.results.clear()
    assert (trial.config, trial.metrics["loss"]) == ({"lr": 0.5}, 0.5 / 3)
    assert trial.iteration == len(trial.results) == 3
    assert (trial.status, trial.error, trial.log()) == ("TERMINATED", "", ["training 0.5"])


def test_metrics_are_the_last_result_and_history_has_all(
    trial: nbckpt.Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trial.metrics == trial.results[-1]
    assert isinstance(trial.history, pandas.DataFrame)
    assert list(trial.history["loss"]) == [0.5, 0.25, 0.5 / 3]
    assert list(trial.history["training_iteration"]) == [1, 2, 3]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(nbckpt.UsageError, match="history needs pandas: pip install pandas"):
        _ = trial.history


def test_a_trial_without_results_is_empty(tmp_path: Path) -> None:
    trial = nbckpt.Trial(tmp_path / "t0", {})
    assert trial.metrics == {}
    assert trial.history.empty
    assert trial.checkpoint is None
    record = trial.checkpoints.publish(None, Record("checkpoint_000001", "null", 1))
    with TrialRecorder(trial) as recorder:
        recorder.result({"training_iteration": 1})
        recorder.saved(record)
    assert (trial.checkpoint_name, trial.checkpoint) == ("checkpoint_000001", None)


def test_a_trial_has_a_checkpoint_until_it_is_deleted(trial: nbckpt.Trial) -> None:
    assert isinstance(trial.checkpoint, nbckpt.Checkpoint)
    assert trial.checkpoint.to_dict() == {"step": 1}
    assert (trial.checkpoint_name, trial.checkpoint_iteration) == ("checkpoint_000002", 2)
    for record in trial.checkpoints.records():
        trial.checkpoints.delete(record)
    with pytest.raises(NotFoundError, match="there is no checkpoint 'checkpoint_000002'"):
        _ = trial.checkpoint


HOSTILE = "<script>alert(1)</script> \x1b[31mred\x1b[0m \x07 {{ 7*7 }} %s \u202eevil"


@pytest.fixture
def session(store: Path) -> Session:
    """Return a session over an experiment `e` with two trials."""
    tracker = nbckpt.Tracker(store)
    ran(lambda config: nbckpt.report(loss=1), name="e", num_samples=2, executor="inline")
    return Session(tracker, AutoMirror(tracker.store, in_background=False), {})


def run(session: Session, *words: str) -> Any:
    return parse(TABLE, words, "%ckpt").run(session)


def folder(session: Session, trial: str = "t0") -> Path:
    return Path(session.library.folder) / "e" / trial


def test_a_note_and_tags_are_kept_and_shown(session: Session) -> None:
    assert "Note: better edges" in run(session, "note", "t0", "better", "edges").page().notes
    run(session, "tag", "e/t0", "good")
    run(session, "tag", "t0", "night")
    assert run(session, "note", "t0").tags == ("good", "night")
    page = run(session, "show", "e/t0").page()
    assert {"Tags: good, night", "Note: better edges"} <= set(page.notes)
    table = run(session, "trials", "e").page().tables[0]
    assert [column.name for column in table.columns][-2:] == ["tags", "note"]
    data = run(session, "trials", "e").for_json().trials
    assert (data[0].user_note, data[0].tags, data[1].tags) == ("better edges", ("good", "night"), ())
    again = Experiment.read(folder(session).parent).trial("t0").annotation
    assert repr(again) == "Annotation('better edges', tags='good, night')"
    run(session, "untag", "t0", "good", "night")
    assert run(session, "note", "t0", "--clear").page().notes == ("It has neither a note nor tags.",)
    assert not (folder(session) / annotation.FILE).exists()


def test_what_cannot_be_is_refused(session: Session) -> None:
    run(session, "tag", "t0", "good")
    for words, message in {
        ("untag", "t0", "bad"): "t0 has no tag 'bad': there are good",
        ("untag", "t0"): "which tag",
        ("tag", "t0", "two words"): "is not a tag",
        ("tag", "t0", "x" * 101): "is not a tag",
        ("note", "t0", "text", "--clear"): "leave out the text",
        ("note", "t9", "text"): "no trial 't9'",
        ("note", "t0", "x" * 1_000_000): "at most 10,000 characters: this one has 1,000,000",
    }.items():
        with pytest.raises(UsageError, match=message):
            run(session, *words)
    assert run(session, "note", "t0").tags == ("good",)
    with pytest.raises(UsageError, match="at most 100 tags"):
        annotation.change(folder(session), add=[f"tag{number}" for number in range(100)])


def test_a_hostile_note_is_text_everywhere(session: Session) -> None:
    annotation.change(folder(session), note=HOSTILE, add=["good"])
    trials = ("trials", "e")
    for words in (("note", "t0"), ("show", "e/t0"), trials, (*trials, "--where", "note != ''")):
        bundle = run(session, *words)._repr_mimebundle_(None, None)
        assert "<script>" not in bundle["text/html"]
        assert "\x1b" not in bundle["text/plain"] + bundle["text/html"]
        assert "\u202e" not in bundle["text/plain"]


def test_a_damaged_file_is_named_and_harms_nothing(session: Session, subtests: pytest.Subtests) -> None:
    for content in [
        b"",
        b"{",
        b"[]",
        b'{"format":2,"note":1,"tags":[],"checksum":""}',
        b'{"format":99}',
        b"[" * 100_000,
        b'{"note":"' + b"x" * (2 << 20),
    ]:
        with subtests.test(content=content):
            (folder(session) / annotation.FILE).write_bytes(content)
            assert annotation.FILE in annotation.read(folder(session)).damage
            assert any(annotation.FILE in note for note in run(session, "show", "e/t0").page().notes)
            assert len(run(session, "trials", "e").page().tables[0].rows) == 2
            with pytest.raises(nbckpt.NbckptError):
                run(session, "note", "t0", "text")
            assert (folder(session) / annotation.FILE).read_bytes() == content


def test_a_link_that_leads_outside_is_not_followed(session: Session, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    (folder(session) / annotation.FILE).symlink_to(tmp_path / "secret")
    assert "leads outside" in annotation.read(folder(session)).damage
    with pytest.raises(CorruptError):
        annotation.change(folder(session), note="text")
    assert (tmp_path / "secret").read_text() == "mine"


def test_a_failed_write_changes_nothing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    annotation.change(folder(session), note="before")

    def fails(*_: Any, **__: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("nbckpt.trials.model.annotation.write_file", fails)
    with pytest.raises(StoreError):
        annotation.change(folder(session), note="after")
    assert annotation.read(folder(session)).note == "before"


def test_a_lock_that_cannot_be_had_is_our_error(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = folder(session).parents[1] / ".e.notes.lock"
    monkeypatch.setattr(annotation, "LOCK_S", 0.01)
    lock.mkdir()
    with pytest.raises(StoreError, match=r"cannot lock .*\.e\.notes\.lock"):
        run(session, "note", "t0", "x")
    lock.rmdir()
    with file_lock(lock), pytest.raises(StoreError, match="another process changes the notes of 'e'"):
        run(session, "note", "t0", "x")
    run(session, "note", "t0", "y")
    assert annotation.read(folder(session)).note == "y"


def test_tags_of_many_threads_are_all_kept(session: Session) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: annotation.change(folder(session), add=[f"tag{number}"]), range(8)))
    assert len(annotation.read(folder(session)).tags) == 8


@pytest.mark.slow
def test_another_process_notes_a_running_trial(session: Session) -> None:
    seen: list[str] = []

    def train(config: dict[str, Any]) -> None:
        place = nbckpt.get_context().folder
        code = f"from nbckpt.cli import main; main(['note', 'live/t0', 'from', 'afar', '--store', {store!r}])"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        seen.append(annotation.read(place).note)
        nbckpt.report(loss=1)

    store = str(folder(session).parents[2])
    experiment = nbckpt.run(train, name="live", executor="inline")
    assert seen == ["from afar"]
    assert experiment.trials[0].annotation.note == "from afar"


def test_notes_travel_with_push_pull_and_sync(session: Session, tmp_path: Path) -> None:
    annotation.change(folder(session), note="here", add=["good"])
    run(session, "push", (tmp_path / "copy").as_uri())
    tracker = nbckpt.Tracker(tmp_path / "other")
    other = Session(tracker, AutoMirror(tracker.store, in_background=False), {})
    run(other, "pull", (tmp_path / "copy").as_uri())
    assert run(other, "note", "e/t0").tags == ("good",)

    def train(config: dict[str, Any]) -> None:
        annotation.change(nbckpt.get_context().folder, note="synced")
        nbckpt.report(loss=1)

    config = nbckpt.SyncConfig(upload_dir=(tmp_path / "up").as_uri(), sync_artifacts=False)
    nbckpt.run(train, name="s", executor="inline", sync_config=config)
    assert json.loads((tmp_path / "up/s/t0" / annotation.FILE).read_text())["note"] == "synced"
