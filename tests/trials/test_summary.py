"""Summaries of trials: a cache of what rows need, used only while it is good, and never trusted."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trials.conftest import ran

import nbckpt
from nbckpt.errors import CorruptError
from nbckpt.media import Text
from nbckpt.mirror import Mirror
from nbckpt.store import LocalStore, MemoryStore
from nbckpt.store.base import CACHE
from nbckpt.trials import Catalog
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model import annotation, journal, listing, params, reading, summary_file
from nbckpt.trials.model.annotation import Annotation
from nbckpt.trials.model.journal import Journal
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.state import Status
from nbckpt.trials.model.summary import VERSION, Summary
from nbckpt.trials.model.trial import Trial, state_of
from nbckpt.trials.views.data import trial_data
from nbckpt.trials.views.fields import fields, own_fields


def make(folder: Path, *losses: float, lr: float = 0.1) -> Trial:
    """Make a trial that has ended."""
    trial = Trial(folder, {"lr": lr})
    params.write({folder: trial.config})
    with TrialRecorder(trial) as recorder:
        recorder.start("thread", None, provenance=False)
        for step, loss in enumerate(losses, 1):
            recorder.result({"loss": loss, "training_iteration": step})
        recorder.end("done")
    return trial


def summary_of(trial: Trial) -> Any:
    return repr(Summary(trial, trial.annotation).to_json())


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return make(tmp_path / "e" / "t0", 3.0, 1.0, 2.0)


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the trials whose journals are read from now on."""
    names: list[str] = []
    read = journal.read

    def reads(file: Path, *given: Any) -> Any:
        names.append(file.parent.name)
        return read(file, *given)

    monkeypatch.setattr(journal, "read", reads)
    return names


def changed(data: bytes, **fields: Any) -> bytes:
    """Return another summary, with a checksum that fits."""
    document = json.loads(data) | fields
    del document["crc32"]
    return journal.line_of(document)


def listed(trial: Trial) -> Trial:
    (read,) = listing.read_trials(trial.folder.parent, {}, summaries=True)
    return read


values = st.none() | st.text() | st.integers() | st.floats(allow_nan=False)
events = st.one_of(
    st.tuples(st.just("result"), st.dictionaries(st.sampled_from("abc"), values, max_size=3)),
    st.tuples(st.just("start"), st.integers(0, 9)),
    st.tuples(st.sampled_from(["pause", "end"]), st.text(max_size=3)),
    st.tuples(st.just("fail"), st.booleans()),
    st.sampled_from([("load", 1.0), ("saved", None)]),
)


@settings(max_examples=40)
@given(st.lists(events, max_size=20))
@example([("result", {}), ("start", 0), ("start", 1)])
def test_a_summary_is_equal_to_a_fold(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    trial = Trial(tmp_path_factory.mktemp("fold") / "e" / "t0", {"lr": 0.1})
    params.write({trial.folder: trial.config})
    with TrialRecorder(trial) as recorder:
        for kind, value in steps:
            write(recorder, kind, value)
        state_of(trial).note = "a note that only this process knows"
    written = summary_file.read(trial.folder)
    assert summary_of(written) == summary_of(Trial.read(trial.folder))
    reading.complete(state_of(written))
    assert written.loads == Trial.read(trial.folder).loads


def write(recorder: TrialRecorder, kind: str, value: Any) -> None:
    trial = recorder.trial
    if kind == "result":
        recorder.result({**value, "training_iteration": trial.iteration + 1})
    elif kind == "start":
        record = Record("checkpoint_000000", "fields", min(value, trial.iteration))
        recorder.start("thread", record, provenance=False)
    elif kind == "fail":
        recorder.fail(ValueError("no"), retry=value)
    elif kind == "load":
        recorder.load({"cpu_percent": value})
    elif kind == "saved":
        recorder.saved(Record("checkpoint_000001", "fields", trial.iteration))
    else:
        getattr(recorder, kind)(value)


def test_a_good_summary_is_read_instead_of_the_journal(trial: Trial, folds: list[str]) -> None:
    again = listed(trial)
    assert folds == []
    assert (again.status, again.metrics["loss"], again.config) == ("TERMINATED", 2.0, {"lr": 0.1})
    assert again.metric("loss") == [3.0, 1.0, 2.0]


def appended(trial: Trial) -> None:
    events = Journal(trial.folder / journal.FILE)
    events.append({"event": "result", "result": {"loss": 9.0, "training_iteration": 4}})
    events.close()


def test_a_journal_that_grew_is_read_again(trial: Trial, folds: list[str]) -> None:
    appended(trial)
    assert (listed(trial).metrics["loss"], folds) == (9.0, ["t0"])


def test_a_file_with_another_time_is_read_again(
    trial: Trial, folds: list[str], subtests: pytest.Subtests
) -> None:
    """The clock may step in both directions."""
    for name in (journal.FILE, params.FILE):
        for moved_s in (-3600, 1e-9, 3600):
            summary_file.write(Trial.read(trial.folder))
            folds.clear()
            file = trial.folder / name
            at = file.stat().st_mtime_ns + int(moved_s * 1e9)
            os.utime(file, ns=(at, at))
            with subtests.test(name=name, moved_s=moved_s):
                assert (listed(trial).metrics["loss"], folds) == (2.0, ["t0"])


@pytest.mark.parametrize("name", [journal.FILE, params.FILE])
def test_a_summary_of_a_file_that_is_gone_is_not_shown(trial: Trial, name: str) -> None:
    (trial.folder / name).unlink()
    assert summary_file.read(trial.folder) is None
    assert listed(trial).status == ("DAMAGED" if name == params.FILE else "PENDING")


def test_notes_are_those_of_their_file(
    trial: Trial, folds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    annotation.change(trial.folder, note="first", add=["good"])
    summary_file.write(trial)
    annotation.change(trial.folder, note="other")
    again = listed(trial)
    assert (again.annotation.note, again.annotation.tags, folds) == ("other", ("good",), [])
    (trial.folder / annotation.FILE).unlink()
    assert again.annotation == annotation.Annotation()
    annotation.change(trial.folder, note="first")
    summary_file.write(trial)
    again = listed(trial)
    monkeypatch.setattr(annotation, "read", None)
    assert again.annotation.note == "first"


def test_a_damaged_or_foreign_summary_is_not_used(
    trial: Trial, folds: list[str], subtests: pytest.Subtests
) -> None:
    file = trial.folder / summary_file.FILE
    data = file.read_bytes()
    for name, damaged in {
        "empty": b"",
        "torn": data[: len(data) // 2],
        "changed": data.replace(b"2.0", b"0.1"),
        "deep": b"[" * 100_000,
        "long": data + b" " * (1 << 20),
        "later": changed(data, version=VERSION + 1),
        "without": changed(data, summary={}),
        "notes": changed(data, notes=[1]),
        "owner": changed(data, trial="t1"),
        "other": journal.line_of({}),
    }.items():
        file.write_bytes(damaged)
        folds.clear()
        with subtests.test(name):
            assert (listed(trial).metrics["loss"], folds) == (2.0, ["t0"])


@pytest.mark.parametrize("name", [summary_file.FILE, journal.FILE, params.FILE])
def test_a_link_is_never_followed_for_a_summary(trial: Trial, tmp_path: Path, name: str) -> None:
    (trial.folder / name).rename(tmp_path / "outside")
    (trial.folder / name).symlink_to(tmp_path / "outside")
    assert summary_file.read(trial.folder) is None


def test_a_trial_that_is_a_link_has_no_summary(trial: Trial, tmp_path: Path) -> None:
    link = tmp_path / "other" / "t0"
    link.parent.mkdir()
    link.symlink_to(trial.folder)
    assert summary_file.read(link) is None
    (trial.folder / summary_file.FILE).unlink()
    summary_file.write(Trial.read(link))
    assert not (trial.folder / summary_file.FILE).exists()


def test_a_summary_that_cannot_be_written_is_no_error(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (trial.folder / summary_file.FILE).unlink()
    monkeypatch.setattr(summary_file, "write_cache", full)
    summary_file.write(trial)
    assert listed(trial).metrics["loss"] == 2.0
    (trial.folder / summary_file.FILE).mkdir()
    monkeypatch.undo()
    summary_file.write(trial)
    assert [entry.name for entry in trial.folder.iterdir() if CACHE in entry.name] == [summary_file.FILE]
    assert listed(trial).metrics["loss"] == 2.0


def test_a_write_removes_what_is_left_and_makes_no_folder(trial: Trial) -> None:
    (trial.folder / f"{summary_file.FILE}-0123456789ab").write_bytes(b"half")
    summary_file.write(trial)
    assert [file.name for file in trial.folder.iterdir() if CACHE in file.name] == [summary_file.FILE]
    trial.folder.rename(trial.folder.parent / "elsewhere")
    summary_file.write(trial)
    assert not trial.folder.exists()


def test_an_interrupt_before_the_fold_leaves_no_summary(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with TrialRecorder(trial) as recorder:
        monkeypatch.setattr(type(state_of(trial)), "fold", interrupted)
        with pytest.raises(KeyboardInterrupt):
            recorder.result({"loss": 7.0, "training_iteration": 4})
        monkeypatch.undo()
        recorder.pause()
    assert summary_file.read(trial.folder) is None
    assert listed(trial).metrics["loss"] == 7.0


@pytest.fixture
def experiment() -> Experiment:
    def train(config: dict[str, Any]) -> None:
        for step in range(3):
            nbckpt.report(loss=config["lr"] + step, checkpoint={"step": step})

    return ran(train, {"lr": nbckpt.grid_search([1.0, 2.0])}, name="e")


def opened(experiment: Experiment) -> Experiment:
    """Open an experiment as a kernel does that has never seen it."""
    return Experiment(experiment.folder, experiment.spec)


def test_the_owner_or_a_reader_writes_the_summaries(experiment: Experiment, folds: list[str]) -> None:
    again = opened(experiment)
    again.refresh()
    assert (folds, [trial.metrics["loss"] for trial in again.trials]) == ([], [3.0, 4.0])
    assert again.best("loss", "min", scope="best").id == "t0"
    assert folds == []
    for trial in experiment.trials:
        (trial.folder / summary_file.FILE).unlink()
    opened(experiment).refresh()
    assert folds == ["t0", "t1"]
    opened(experiment).refresh()
    assert folds == ["t0", "t1"]


def test_a_kernel_sees_what_another_kernel_reports(experiment: Experiment) -> None:
    here = opened(experiment)
    here.refresh()
    with TrialRecorder(Trial.read(experiment.trials[0].folder)) as elsewhere:
        elsewhere.start("thread", Record("checkpoint_000001", "fields", 1), provenance=False)
        elsewhere.result({"loss": -1.0, "training_iteration": 2})
        here.refresh()
        assert (here.trials[0].metrics["loss"], here.trials[0].iteration) == (-1.0, 2)
        assert here.trials[0].metric("loss") == [1.0, -1.0]


def test_a_trial_resumes_from_what_its_journal_says(experiment: Experiment) -> None:
    trial = experiment.trials[0]
    file = trial.folder / summary_file.FILE
    wrong = {"checkpoint": "checkpoint_000001", "checkpoint_iteration": 1, "iteration": 99}
    file.write_bytes(changed(file.read_bytes(), summary=json.loads(file.read_bytes())["summary"] | wrong))
    again = opened(experiment)
    again.refresh()
    assert again.trials[0].iteration == 99
    again.resume("t0")
    again.wait()
    starts = [event for event in journal.read(trial.folder / journal.FILE) if event["event"] == "start"]  # type: ignore[index]
    assert starts[-1]["iteration"] == 3  # type: ignore[index]


def test_a_copy_elsewhere_has_no_summary(experiment: Experiment) -> None:
    target = MemoryStore()
    Mirror(LocalStore(experiment.folder.parents[1]), experiment.folder.parent, target).push()
    keys = list(target.keys())
    assert [key for key in keys if journal.FILE in key] != []
    assert [key for key in keys if summary_file.FILE in key] == []


KERNEL = """
import sys, nbckpt
run = nbckpt.track("e", lr=0.1)
for step in range(50):
    run.report(loss=float(step))
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_killed_kernel_leaves_a_journal_that_is_read(tmp_path: Path) -> None:
    environment = os.environ | {"NBCKPT_STORE": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", KERNEL], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout.readline().strip() == b"ready"
        os.kill(process.pid, signal.SIGKILL)
    catalog = Catalog(tmp_path / "experiments")
    folder = catalog.folder / "e" / "t0"
    assert summary_file.read(folder) is None
    assert catalog.open("e").trials[0].metrics["loss"] == 49.0
    known = summary_file.read(folder)
    assert (known.status, known.iteration) == ("RUNNING", 50)


nothing = Annotation()


@pytest.fixture
def failed() -> Trial:
    def train(config: dict[str, Any]) -> None:
        for step in range(40):
            nbckpt.report(loss=1 / (step + 1), deep={"acc": step}, samples=Text("x" * 9), word="good")
        raise ValueError("no")

    return nbckpt.run(train, {"lr": nbckpt.grid_search([0.1])}, name="e", executor="inline").trials[0]


def read_again(failed: Trial, annotation: Annotation = nothing) -> Summary:
    document = json.loads(json.dumps(Summary(failed, annotation).to_json()))
    return Summary.from_json(document, failed.folder)


def shown(failed: Trial) -> Any:
    annotation = Annotation("a note", ("good",))
    row = fields(failed, own_fields(failed, "failed", annotation), ["metrics/loss"])
    return repr(row), trial_data(failed, "failed"), state_of(failed).condensed.curves, failed.metric_names


def test_a_summary_has_what_a_row_needs_and_reads_the_rest(failed: Trial) -> None:
    summary = read_again(failed, Annotation("a note", ("good",)))
    assert summary.annotation == Annotation("a note", ("good",))
    assert shown(summary.trial) == shown(failed)
    again = read_again(failed).trial
    assert again.results == failed.results
    assert again.traceback == failed.traceback != ""
    assert again.media == failed.media != []
    assert str(again.page()) == str(failed.page())
    assert state_of(again).condensed == state_of(failed).condensed


def test_a_summary_that_nbckpt_would_not_write_is_refused(failed: Trial, subtests: pytest.Subtests) -> None:
    document = Summary(failed, nothing).to_json()
    for change in [
        {"status": "DAMAGED"},
        {"status": "FINE"},
        {"iteration": -1},
        {"iteration": 1.5},
        {"iteration": 1 << 70},
        {"config": []},
        {"result": {"training_iteration": -1}},
        {"curves": [["a", [1, 1, 1.0, None, None, []]]]},
        {"curves": [["a"]]},
        {"curves": [[f"m{at}", [1, 1, 1.0, None, None, [1.0]]] for at in range(1_001)]},
        {"media": [{"name": "a"}]},
        {"media": [{"name": "a", "step": 1, "count": 1, "steps": []}] * 201},
        {"load": {"cpu": "much"}},
        {"tags": ["x"] * 101},
        {"user_note": "x" * 10_001},
        {"error": None},
    ]:
        with subtests.test(change=change), pytest.raises(CorruptError):
            Summary.from_json({**document, **change}, failed.folder)
    with pytest.raises(CorruptError):
        Summary.from_json([], failed.folder)


def test_every_status_is_kept_and_no_path_of_media(failed: Trial) -> None:
    document = Summary(failed, nothing).to_json()
    hostile = {"type": "file", "digest": "../" * 8, "size": 1, "ending": "../x"}
    document["media"] = [{"name": "a", "step": 1, "count": 1, "steps": [], **hostile}]
    assert state_of(Summary.from_json(document, failed.folder).trial).media == {}
    for status in set(Status) - {Status.DAMAGED}:
        state_of(failed).status = status
        assert read_again(failed).trial.status == status
