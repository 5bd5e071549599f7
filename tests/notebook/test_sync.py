"""Sync as one types it: %ckpt sync, push, pull, and what is told of a failure."""

from __future__ import annotations

import threading
from dataclasses import fields
from pathlib import Path

import pytest

import nbckpt
from nbckpt import SyncConfig
from notebook.conftest import Notebook
from waiting import until


def test_push_and_pull_report_the_transferred_files(notebook: Notebook, tmp_path: Path) -> None:
    there = tmp_path / "there"
    pushed = str(notebook.run("x = 1\n%ckpt save one", f"%ckpt push {there}"))
    assert f"to {there}" in pushed
    assert pushed.startswith("Pushed 3 files")
    assert str(notebook.run(f"%ckpt push {there}")) == f"Nothing new for {there}: 3 files there already"
    pulled = str(notebook.run(f"%ckpt --store {tmp_path / 'other'} pull {there}"))
    assert pulled.startswith("Pulled 3 files")
    assert notebook.after("x = 2", f"%ckpt --store {tmp_path / 'other'} restore one")["x"] == 1


def test_a_pull_says_which_checkpoints_others_signed(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, other = tmp_path / "there", tmp_path / "other"
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "colleague"))
    newest = notebook.run("x = 1\n%ckpt save one\nx = 2", "%ckpt save two").saved.manifest.id[:8]
    notebook.run(f"%ckpt push {there}")
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "mine"))
    note = f"2 checkpoints are not signed by you. Look at one before you trust it: %ckpt show {newest}"
    assert note in str(notebook.run(f"%ckpt --store {other} pull {there}"))
    assert "not signed" not in str(notebook.run(f"%ckpt --store {other} pull {there}"))


def test_a_pull_says_which_versions_have_other_numbers_now(notebook: Notebook, tmp_path: Path) -> None:
    there = tmp_path / "there"
    for store in ("", f"--store {there}"):
        for value in (1, 2, 3):
            notebook.run(f"x, where = {value}, {store!r}\n%ckpt {store} save n")
    notebook.run("%ckpt tag n@1 n")
    before, pulled, after = refs_here(), notebook.run(f"%ckpt pull {there}"), refs_here()
    moved = [f"{name} is now {after[key]}" for key, name in before.items() if after[key] != name]
    assert moved
    assert pulled.warns
    assert f"had the same version numbers, so {', '.join(moved)}." in str(pulled)
    assert "same version" not in str(notebook.run(f"%ckpt pull {there}"))
    values = {"n@1": 1, "n@2": 2, "n@3": 3, "n@4": 1}  # the last one is a second number of the first
    for key, name in before.items():
        notebook.run(f"%ckpt restore {after[key]}")
        assert (notebook.names["x"], notebook.names["where"]) == (values[name], "")


def test_a_pull_names_no_version_that_was_not_there(notebook: Notebook, tmp_path: Path) -> None:
    for name in "ab":
        notebook.run(f"x = {name!r}\n%ckpt --store {tmp_path / name} save n")
    refs = [(*nbckpt.Tracker(tmp_path / name).history.refs(), name) for name in "ab"]
    (_, here), (later, there) = sorted(refs, key=lambda pair: pair[0].id)
    nbckpt.Tracker(tmp_path / here).store.put(later.key, b"")  # a pull that died before the checkpoint
    pulled = notebook.run(f"%ckpt --store {tmp_path / here} pull {tmp_path / there}")
    assert "Pulled" in str(pulled)
    assert "same version" not in str(pulled)


def refs_here() -> dict[str, str]:
    """Return the name and version of each key of a name."""
    return {ref.key: str(ref) for ref in nbckpt.Tracker().history.refs()}


def test_a_notebook_or_environment_variable_names_a_location(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERE", str(tmp_path / "one"))
    notebook.run("x, other = 1, 'two'\n%ckpt save one")
    assert f"to {tmp_path / 'one'} in" in str(notebook.run("%ckpt push $WHERE"))
    assert f"to {tmp_path / 'two'} in" in str(notebook.run("%ckpt push ${other}"))
    assert "1 checkpoint in" in str(notebook.run("%ckpt --store $other ls"))
    assert f"Synced to {tmp_path / 'two'}, " in str(notebook.run("%ckpt sync $other"))
    assert "1 checkpoint in" in str(notebook.run("%ckpt --store $WHERE ls"))
    notebook.run("%ckpt sync off")


def test_sync_keeps_the_target_up_to_date_until_off(notebook: Notebook, tmp_path: Path) -> None:
    there = tmp_path / "there"
    assert "not synced" in str(notebook.run("%ckpt sync"))
    started = str(notebook.run(f"%ckpt sync {there} --period 1000"))
    assert started.startswith(f"Synced to {there}, every 1000 s and after each save")
    notebook.run("x = 1\n%ckpt save one")
    until(lambda: any((there / "checkpoints").glob("*.json")))
    until(lambda: "Last push" in str(notebook.run("%ckpt sync --status")))
    assert "Nothing new" in str(notebook.run("%ckpt sync --now"))
    assert "Nothing new" in str(notebook.run("%ckpt push"))
    assert f"{there} is off" in str(notebook.run("%ckpt sync off"))
    assert not [thread for thread in threading.enumerate() if thread.name == "nbckpt-mirror"]


def test_pending_changes_are_shown_until_a_push_sends_them(notebook: Notebook, tmp_path: Path) -> None:
    there = tmp_path / "there"
    notebook.run(f"x = 0\n%ckpt save zero\n%ckpt sync {there} --period 1000")
    until(lambda: "Last push" in str(notebook.run("%ckpt sync")))
    there.rename(tmp_path / "away")
    there.write_text("a file where the folder was")
    notebook.run("x = 1\n%ckpt save one")
    notebook.run("def train(config): yield 1\n%ckpt run train --grid a=1,2 --name e --wait")
    until(lambda: "Not pushed yet: 1 checkpoint and changes of 2 trials" in str(notebook.run("%ckpt sync")))
    notebook.run("%ckpt sync --cancel")
    until(lambda: "The last push failed" in str(notebook.run("%ckpt sync")))
    there.unlink()
    (tmp_path / "away").rename(there)
    notebook.run("%ckpt sync --soon")
    until(lambda: "Not pushed yet:" not in str(notebook.run("%ckpt sync")))
    notebook.run("%ckpt sync off")


def test_sync_status_shows_settings_of_store_and_experiments(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run("import nbckpt\ndef train(config): yield 1")
    there = (tmp_path / "trials").as_uri()
    notebook.run(
        f"e = nbckpt.run(train, name='e', sync_config=nbckpt.SyncConfig('{there}', sync_timeout=60))"
    )
    notebook.run(f"e.wait()\n%ckpt sync {tmp_path / 'there'} --period 1000")
    rows = {row[0]: row[1:] for row in notebook.run("%ckpt sync --status").page().tables[0].rows}
    assert list(rows) == [field.name for field in fields(SyncConfig)]
    assert rows["upload_dir"] == (str(tmp_path / "there"), there)
    assert rows["sync_timeout"] == ("no limit", "60 s (1 min)")
    notebook.run("%ckpt sync off")
    assert list(notebook.run("%ckpt sync").experiments) == ["e"]


def test_sync_status_names_experiments_that_are_not_pushed(
    notebook: Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    for folder in (None, there / "experiments"):
        made = nbckpt.run(lambda config: nbckpt.report(loss=1.0), name="e", folder=folder, executor="inline")
        made.wait(60)
    notebook.run(f"%ckpt sync {there} --period 0 --no-saves")
    said = f"Not copied from experiment e: e: {there} has another experiment of this name"
    assert said in str(notebook.run("%ckpt sync --now"))
    trouble = f"{there} is not up to date: experiment e: {there} has another experiment of this name"
    assert trouble in capsys.readouterr().err
    assert said in str(notebook.run("%ckpt sync --status"))
    notebook.run("%ckpt sync --now")
    assert trouble not in capsys.readouterr().err  # once


def test_an_unreadable_experiment_does_not_hide_the_sync_status(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run("def train(config): yield 1\n%ckpt run train --name e --wait")
    (tmp_path / ".nbckpt" / "experiments" / "e" / "experiment.json").write_text("{")
    shown = str(notebook.run("%ckpt sync --status"))
    assert "This store is not synced." in shown
    assert "is damaged" in shown


def test_the_next_command_reports_a_background_failure_once(
    notebook: Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    notebook.run("x = 1", f"%ckpt sync {there} --period 1000")
    until(lambda: "Last push" in str(notebook.run("%ckpt sync")))
    there.mkdir()
    (there / "store.json").write_text('{"format": 99}')
    notebook.run("%ckpt save one")
    until(lambda: "The last push failed" in str(notebook.run("%ckpt sync")))
    err = capsys.readouterr().err
    assert err.count(f"nbckpt: {there} is not up to date: ") == 1
    assert "upgrade nbckpt" in err
    notebook.run("%ckpt sync off")


INVALID = [
    ("push", "name a location"),
    ("pull", "name a location"),
    ("sync --now", "this store is not synced"),
    ("sync --soon", "this store is not synced"),
    ("push s3x://bucket", "cannot reach 's3x://bucket'"),
    ("push .nbckpt", "is the store itself"),
    ("push $nowhere/x", "$nowhere/x: there is no variable 'nowhere'"),
    ("push $", "Write $$ for a dollar sign"),
    ("sync there --period -1", "or 0 for none"),
    ("sync now", "'now' is not a location. Options begin with --. A folder of that name: ./now"),
    ("pull empty", "push some there first"),
]


def test_an_invalid_sync_is_a_one_line_error(notebook: Notebook, subtests: pytest.Subtests) -> None:
    for line, said in INVALID:
        with subtests.test(line):
            assert said in notebook.error(f"%ckpt {line}")
            assert "not synced" in str(notebook.run("%ckpt sync"))


def test_unloading_the_extension_makes_a_last_push(notebook: Notebook, tmp_path: Path) -> None:
    there = tmp_path / "there"
    notebook.run(f"%ckpt sync {there} --period 1000")
    until(lambda: "Last push" in str(notebook.run("%ckpt sync")))
    notebook.run("x = 1\n%ckpt save one", "%unload_ext nbckpt")
    assert any((there / "checkpoints").glob("*.json"))
    notebook.run("%load_ext nbckpt\n%ckpt sync off")
