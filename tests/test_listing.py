"""The list of checkpoints: those of variables, of states and of trials, by page and by what they say."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from loud import Loud

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.commands.browsing import Listing
from nbckpt.core.history import History
from nbckpt.errors import CorruptError, UsageError
from nbckpt.listing import Row
from nbckpt.mirror import AutoMirror
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.model.trial import Trial

HOSTILE = "<img src=x onerror=alert(1)>"

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs a command on a store of the test's own; nothing was loaded yet."""
    monkeypatch.setattr(Loud, "loaded", 0)
    tracker = nbckpt.Tracker(tmp_path / "store")
    session = Session(tracker, AutoMirror(tracker.store), namespace={"x": 1})
    return lambda *words: parse(TABLE, words, "%ckpt").run(session)


def trained(tmp_path: Path, name: str = "net", steps: int = 2, **options: Any) -> nbckpt.trials.Experiment:
    """Return an experiment with one trial that made a checkpoint with each result."""

    def train(config: dict[str, Any]) -> None:
        for step in range(1, steps + 1):
            nbckpt.report(loss=1 / step, acc=step, checkpoint={"weights": [step], "loud": Loud()})

    folder = tmp_path / "store" / "experiments"
    return nbckpt.run(train, {}, executor="inline", folder=folder, name=name, **options)


def with_folder(tmp_path: Path, file: str, content: bytes, result: dict[str, Any]) -> None:
    """Run a trial whose checkpoint is a folder with a file."""

    def train(config: dict[str, Any]) -> None:
        with nbckpt.trials.checkpoint_dir(step=7) as folder:
            Path(folder, file).write_bytes(content)
        nbckpt.report(**result)

    nbckpt.run(train, {}, executor="inline", folder=tmp_path / "store" / "experiments", name="net")


def age(experiment: Any, seconds: float) -> None:
    """Make the checkpoints of an experiment older by so much, the later ones less."""
    for at, record in enumerate(sorted(experiment.folder.glob("t*/checkpoint_*.json"))):
        moment = time.time() - seconds + at
        os.utime(record, (moment, moment))


def labels(listing: Listing) -> list[str]:
    return [row.label for row in listing.rows]


def test_trial_and_notebook_checkpoints_are_listed_newest_first(run: Run, tmp_path: Path) -> None:
    age(trained(tmp_path, "old"), 1000)
    run("save", "mine")
    age(trained(tmp_path, "late"), -1000)
    assert labels(run("ls", "--all")) == ["late/t0@2", "late/t0@1", "mine@1", "old/t0@2", "old/t0@1"]
    assert labels(run("ls")) == ["mine@1"]


def test_a_trial_checkpoint_shows_its_metric_fields_and_size(run: Run, tmp_path: Path) -> None:
    (trial,) = trained(tmp_path, metric="acc", mode="max").trials
    newest = run("ls", "--all").rows[0]
    assert newest.ref == "net/t0@2"
    assert newest.manifest.message == "acc 2"
    assert newest.variables == ["loud", "weights"]
    assert newest.manifest.files == {}
    assert newest.trusted
    assert newest.size == trial.checkpoints.records()[-1].size
    page = run("ls", "--all")._repr_mimebundle_()["text/html"]
    assert all(text in page for text in (">net/t0@2<", ">acc 2<", ">loud, weights<", "and its trials"))
    assert Loud.loaded == 0


def test_without_a_set_metric_the_first_reported_one_is_shown(run: Run, tmp_path: Path) -> None:
    trained(tmp_path)
    assert [row.manifest.message for row in run("ls", "--all").rows] == ["loss 0.5", "loss 1"]


def test_a_checkpoint_folder_of_a_trial_lists_its_files(run: Run, tmp_path: Path) -> None:
    with_folder(tmp_path, f"{HOSTILE[:4]}.bin", b"x" * 1234, {HOSTILE: 0.5})
    listing = run("ls", "--all")
    assert listing.rows[0].ref == "net/t0@7"
    assert list(listing.rows[0].manifest.files) == ["<img.bin"]
    page = listing._repr_mimebundle_()["text/html"]
    assert all(text in page for text in ("1 file", 'title="&lt;img.bin"', "1.23 kB"))
    assert f"&lt;{HOSTILE[1:-1]}&gt; 0.5" in page
    assert "<img" not in page


def test_a_checkpoint_with_another_signature_is_not_loaded(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path)
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    fresh = Session(tracker := nbckpt.Tracker(tmp_path / "store"), AutoMirror(tracker.store))
    listing = parse(TABLE, ["ls", "--all"], "%ckpt").run(fresh)
    assert isinstance(listing, Listing)
    assert [row.trusted for row in listing.rows] == [False, False]
    assert Loud.loaded == 0


def test_other_files_are_not_listed_and_damage_is_shown(run: Run, tmp_path: Path) -> None:
    experiment = trained(tmp_path, steps=3)
    folder = experiment.folder / "t0"
    (folder / "checkpoint_000003.json").unlink()  # as after a crash
    (folder / "checkpoint_000002.json").write_text("{")
    (folder / "checkpoint_000009.json").write_text("{}")  # of nothing: there is no folder
    (folder / "checkpoint_best").mkdir()
    (folder / "checkpoint_best.json").write_text("mine")
    shutil.copytree(folder / "checkpoint_000001", folder / "checkpoint_tmp12345678_000001")
    shutil.copy(folder / "checkpoint_000001.json", folder / "checkpoint_tmp12345678_000001.json")
    rows = {row.ref: row.trouble for row in run("ls", "--all").rows}
    assert rows.keys() == {"net/t0@1", "net/t0@2"}
    assert "checkpoint_000002.json is damaged" in rows["net/t0@2"]
    assert rows["net/t0@1"] == ""


def test_a_damaged_experiment_file_does_not_prevent_the_list(run: Run, tmp_path: Path) -> None:
    experiment = trained(tmp_path)
    spec = experiment.folder / "experiment.json"
    spec.write_text(spec.read_text().replace('"metric": ""', '"metric": [1]'))
    assert "[1]" in spec.read_text()
    assert [row.manifest.message for row in run("ls", "--all").rows] == ["loss 0.5", "loss 1"]
    spec.write_text("{")
    assert [row.manifest.message for row in run("ls", "--all").rows] == ["loss 0.5", "loss 1"]


def test_a_list_reads_only_its_rows_and_no_journal(run: Run, tmp_path: Path) -> None:
    trained(tmp_path, steps=9)
    for _ in range(5):
        run("save", "mine")
    with (
        patch.object(CheckpointFolder, "read", autospec=True, side_effect=CheckpointFolder.read) as records,
        patch.object(History, "read", autospec=True, side_effect=History.read) as manifests,
        patch.object(Trial, "read", side_effect=AssertionError),
    ):
        listing = run("ls", "--all", "-n", "4", "--page", "2")
    assert listing.total == 14
    assert labels(listing) == ["mine@1", "net/t0@9", "net/t0@8", "net/t0@7"]
    assert (records.call_count, manifests.call_count) == (3, 1)


def test_pages_have_each_checkpoint_once_and_say_which_they_show(run: Run, tmp_path: Path) -> None:
    trained(tmp_path, steps=4)
    run("save", "mine")
    pages = [run("ls", "--all", "-n", "2", "--page", str(at)) for at in (1, 2, 3)]
    shown = [labels(page) for page in pages]
    assert shown == [["mine@1", "net/t0@4"], ["net/t0@3", "net/t0@2"], ["net/t0@1"]]
    first, second, third = map(str, pages)
    assert "5 checkpoints in" in first
    assert "; the newest 2 of them" in first
    assert "Next page: %ckpt ls --all -n 2 --page 2   Show all: %ckpt ls --all -n 0" in first
    assert "; 3 to 4 of them" in second
    assert "--page 3" in second
    assert "; 5 to 5 of them" in third
    assert "older" not in third
    assert len(run("ls", "--all", "-n", "0").rows) == 5


def test_a_missing_page_is_refused(run: Run, subtests: pytest.Subtests) -> None:
    run("save", "mine")
    run("save", "mine")
    for line, said in {
        "--page 3": "there is no page 3: 2 checkpoints, 20 on a page, so the last page is 1",
        "-n 1 --page 3": "so the last page is 2",
        "-n 0 --page 2": "2 checkpoints, all on a page, so the last page is 1",
        "--page 0": "there is no page 0",
        "-n -3": "-n -3 is not valid",
        "--find nothing --page 2": "there is no page 2: 0 checkpoints",
        "mine --all": "Leave one of them out",
    }.items():
        with subtests.test(line), pytest.raises(UsageError, match=said):
            run("ls", *line.split())


def test_find_searches_names_ids_messages_values_and_files(run: Run, tmp_path: Path) -> None:
    """Values are the variables and the states."""
    trained(tmp_path, "Digits", steps=1)
    state = nbckpt.State.of("schedule", {"at": 1})
    saved = run("save", "cleaned", "-m", "After Lunch", "--states")
    checkpoint = nbckpt.Checkpoint.from_dict({nbckpt.Checkpoint.FILES: {"a/model.bin": b"x"}})
    checkpoint.to_store(tmp_path / "store", "whole")
    del state
    matches = {
        "DIGITS/": "Digits/t0@1",
        "loss 1": "Digits/t0@1",
        "weights": "Digits/t0@1",
        "after lunch": "cleaned@1",
        "leane": "cleaned@1",
        saved.saved.manifest.id[10:40]: "cleaned@1",
        "schedul": "cleaned@1",
        "model.BIN": "whole@1",
    }
    for text, label in matches.items():
        assert labels(run("ls", "--all", "--find", text)) == [label], text
    assert "No checkpoints with 'nowhere' in" in str(run("ls", "--find", "nowhere"))
    assert labels(run("ls", "cleaned", "--find", "whole")) == []


def test_search_results_have_pages(run: Run, tmp_path: Path) -> None:
    trained(tmp_path, "many", steps=3)
    run("save", "mine")
    listing = run("ls", "--all", "--find", "any/t0", "-n", "2")
    assert (listing.total, labels(listing)) == (3, ["many/t0@3", "many/t0@2"])
    assert "3 checkpoints with 'any/t0' in" in str(listing)
    assert "Next page: %ckpt ls --all --find any/t0 -n 2 --page 2" in str(listing)
    assert labels(run("ls", "--all", "--find", "any/t0", "-n", "2", "--page", "2")) == ["many/t0@1"]


def test_every_row_can_be_shown_and_restored_by_its_ref(run: Run, tmp_path: Path) -> None:
    trained(tmp_path, steps=1)
    run("save", "mine")
    rows: tuple[Row, ...] = run("ls", "--all").rows
    assert len({row.ref for row in rows}) == 2
    for row in rows:
        assert row.label in str(run("show", row.ref)) or row.label == "net/t0@1"
        assert "Restored" in str(run("restore", row.ref))


def test_a_trials_checkpoint_is_removed_and_brought_back(run: Run, tmp_path: Path) -> None:
    experiment = trained(tmp_path)
    run("save", "mine")
    said = str(run("rm", "net/t0@1", "mine", "--dry-run"))
    assert "Would remove mine@1, net/t0@1. The next gc would free up to" in said
    assert len(run("ls", "--all").rows) == 3
    assert "Removed mine@1, t0@1" in str(run("rm", "t0@1", "mine"))
    assert labels(run("ls", "--all")) == ["net/t0@2"]
    assert not (experiment.folder / "t0" / "checkpoint_000001").exists()
    run("undo")
    assert labels(run("ls", "--all")) == ["mine@1", "net/t0@2", "net/t0@1"]


def test_the_checkpoint_of_a_paused_trial_is_not_removed(run: Run, tmp_path: Path) -> None:
    """The command then removes none of the other named checkpoints either."""

    def train(config: dict[str, Any]) -> None:
        for step in range(2):
            nbckpt.report(loss=step, checkpoint={"step": step})
        known.wait(60)
        experiment.pause()
        nbckpt.report(loss=2, checkpoint={"step": 2})

    known = threading.Event()
    experiment = nbckpt.run(train, {}, folder=tmp_path / "store" / "experiments", name="later")
    known.set()
    experiment.wait()
    run("save", "mine")
    with pytest.raises(UsageError, match="a trial resumes from"):
        run("rm", "mine", "later/t0@3")
    assert "mine@1" in labels(run("ls", "--all"))
    run("rm", "later/t0@1")
    assert labels(run("ls", "--all")) == ["mine@1", "later/t0@3", "later/t0@2"]


def test_checkpoints_of_a_running_trial_are_not_removed(run: Run, tmp_path: Path) -> None:
    saved, go_on = threading.Event(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        for step in range(2):
            nbckpt.report(loss=step, checkpoint={"step": step})
        saved.set()
        go_on.wait(60)

    experiment = nbckpt.run(train, {}, folder=tmp_path / "store" / "experiments", name="net")
    assert saved.wait(60)
    with pytest.raises(UsageError, match=r"net/t0 is running\. Stop it first: %ckpt stop net/t0"):
        run("rm", "net/t0@1")
    go_on.set()
    experiment.wait()
    run("rm", "net/t0@1")
    assert labels(run("ls", "--all")) == ["net/t0@2"]


def test_a_trial_checkpoint_can_be_tagged_and_exported(run: Run, tmp_path: Path) -> None:
    trained(tmp_path, metric="loss", mode="min")
    assert "as best@1." in str(run("tag", "net/t0@2", "best"))
    assert labels(run("ls")) == ["best@1"]
    assert run("ls").rows[0].manifest.message == "net/t0@2, loss 0.5"
    run("restore", "best")
    run("export", "net/t0@1", str(tmp_path / "it.ckpt"))
    with pytest.raises(UsageError, match="exists"):
        run("export", "net/t0@1", str(tmp_path / "it.ckpt"))
    assert "Imported" in str(run("import", str(tmp_path / "it.ckpt")))
    imported = run("ls", "--find", "net/t0@1, loss 1").rows[0]
    assert imported.trusted
    assert imported.variables == ["loud", "weights"]


def test_a_checkpoint_folder_is_tagged_and_exported_with_files(run: Run, tmp_path: Path) -> None:
    with_folder(tmp_path, "model.bin", b"weights", {"loss": 1})
    run("tag", "t0@7", "best")
    run("export", "t0@7", str(tmp_path / "it.ckpt"))
    run("import", str(tmp_path / "it.ckpt"))
    ids = [row.ref for row in run("ls").rows]
    assert len(ids) == 2
    for name in ids:
        checkpoint = nbckpt.Checkpoint.from_store(str(tmp_path / "store"), name)
        assert checkpoint.to_dict()[nbckpt.Checkpoint.FILES]["model.bin"] == b"weights"


def test_a_damaged_trial_checkpoint_is_not_tagged_or_exported(run: Run, tmp_path: Path) -> None:
    folder = trained(tmp_path).folder / "t0" / "checkpoint_000002"
    damaged = next(path for path in folder.rglob("*") if path.is_file())
    damaged.write_bytes(b"other")
    for words in (("tag", "t0@2", "best"), ("export", "t0@2", str(tmp_path / "it.ckpt"))):
        with pytest.raises(CorruptError):
            run(*words)
    assert labels(run("ls")) == []
    assert not (tmp_path / "it.ckpt").exists()


def test_a_checkpoint_lists_its_states(run: Run) -> None:
    kept = [nbckpt.State.of(name, {"at": 1}) for name in ("model", "epoch")]
    run("save", "mine", "--states")
    assert "x; states: model, epoch" in str(run("ls"))
    del kept


def test_a_checkpoint_of_nothing_lists_neither_names_nor_files(run: Run, tmp_path: Path) -> None:
    nbckpt.Tracker(tmp_path / "store").save({}, "empty")
    (table,) = run("ls").page().tables
    column = [head.name for head in table.columns].index("variables")
    assert table.rows[0][column].text == "-"
