"""Restoring: trials start from a given checkpoint, and the newest whole one replaces a damaged one."""

from __future__ import annotations

import logging
import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from trials.conftest import SECONDS, ran

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import CorruptError, NotFoundError
from nbckpt.mirror import AutoMirror
from nbckpt.store import LocalStore
from nbckpt.trials import DurableTrainable, Experiment, RetentionPolicy, Status, Trainable
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.checkpoints.origin import origin_of
from nbckpt.trials.model import journal
from nbckpt.trials.verify import verify_trials

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as the functions of a notebook

each_executor = pytest.mark.parametrize(
    "executor", ["thread", "inline", pytest.param("process", marks=pytest.mark.slow)]
)


def count(config: dict[str, Any]) -> None:
    """Count on from the checkpoint, three times; report what it was and save every second count."""
    start = nbckpt.get_checkpoint()
    first = start.to_dict()["n"] if start else 0
    for n in range(first + 1, first + 4):
        nbckpt.report(n=n, first=first, checkpoint={"n": n} if n % 2 == 0 else None)
        if n == config.get("fails_at"):
            raise ValueError("once")


class Counter(nbckpt.trials.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.n = 0

    def step(self) -> dict[str, Any]:
        self.n += 1
        return {"n": self.n, "done": self.n % 3 == 0}

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        if self.config.get("file"):
            (file := Path(checkpoint_dir) / "n").write_text(str(self.n))
            return file
        return {"n": self.n}

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.n = int(Path(checkpoint).read_text()) if isinstance(checkpoint, str) else checkpoint["n"]


def starts(experiment: Experiment, trial: str = "t0") -> list[tuple[Any, Any, Any]]:
    """Return from where each attempt of a trial started: own checkpoint, iteration, origin."""
    events = journal.read(experiment.folder / trial / journal.FILE)
    begins = [event for event in events if event["event"] == "start"]
    return [(event["from"], event["iteration"], event.get("origin")) for event in begins]


def test_trials_start_from_a_checkpoint_in_any_form(
    tmp_path: Path, store: Path, subtests: pytest.Subtests
) -> None:
    made = nbckpt.Checkpoint.from_dict({"n": 10})
    for form, restore in {
        "a checkpoint": made,
        "a folder": Path(made.to_directory(tmp_path / "made")),
        "a path": made.to_directory(tmp_path / "other"),
        "a URL": made.to_uri("memory://restore/made", overwrite=True),
        "a name": made.to_store(str(store), "ten") and "ten",
    }.items():
        for trial in ran(count, restore=restore, num_samples=2).trials:
            with subtests.test(form, trial=trial.id):
                results = [(result["n"], result["first"]) for result in trial.results]
                assert results == [(11, 10), (12, 10), (13, 10)]
                assert [result["training_iteration"] for result in trial.results] == [1, 2, 3]
                assert trial.origin
                assert f"It started from {trial.origin}." in trial.page().notes


@each_executor
def test_a_trial_starts_from_a_checkpoint_of_another_trial(executor: str) -> None:
    before = ran(count, name="before")
    after = ran(count, restore="before/t0@2", executor=executor, name="after")
    (trial,) = after.trials
    assert [result["n"] for result in trial.results] == [3, 4, 5]
    assert trial.origin == "before/t0@2"
    assert starts(after) == [(None, 0, "before/t0@2")]
    assert [result["n"] for result in before.trials[0].results] == [1, 2, 3]


@each_executor
@pytest.mark.parametrize("file", [False, True], ids=["dict", "file"])
def test_a_trainable_loads_what_another_one_saved(executor: str, file: bool) -> None:
    ran(Counter, {"file": file}, name="before", checkpoint_every=2)
    after = ran(Counter, {"file": file}, restore="before/t0@2", executor=executor, checkpoint_every=1)
    (trial,) = after.trials
    assert [(result["n"], result["training_iteration"]) for result in trial.results] == [(3, 1)]
    path = trial.checkpoints.path(trial.checkpoints.records()[-1])
    again = ran(Counter, {"file": file}, restore=path, executor=executor)
    assert [result["n"] for result in again.trials[0].results] == [4, 5, 6]


@each_executor
def test_a_failed_trial_continues_from_its_own_checkpoint(executor: str) -> None:
    """Without one of its own, it starts from the given one again."""
    given = nbckpt.Checkpoint.from_dict({"n": 10})
    config = {"fails_at": nbckpt.grid_search([11, 12])}
    experiment = ran(count, config, restore=given, max_failures=1, executor=executor)
    early, late = experiment.trials
    assert starts(experiment, early.id) == [(None, 0, repr(given)), (None, 0, repr(given))]
    assert starts(experiment, late.id) == [(None, 0, repr(given)), ("checkpoint_000002", 2, None)]
    assert [result["n"] for result in late.results] == [11, 12, 13, 14, 15]
    assert late.origin == repr(given)


def test_a_resumed_experiment_keeps_its_checkpoint(tmp_path: Path) -> None:
    """Also after the original is gone, and for trials that a later run adds."""
    folder = nbckpt.Checkpoint.from_dict({"n": 10}).to_directory(tmp_path / "made")
    ran(count, {"x": nbckpt.grid_search([1])}, restore=folder, name="kept")
    shutil.rmtree(folder)
    again = ran(count, {"x": nbckpt.grid_search([1, 2])}, name="kept")
    assert [trial.results[-1]["n"] for trial in again.trials] == [13, 13]
    assert Experiment.read(again.folder).spec.origin == folder


def test_a_function_may_write_into_what_it_got(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made/n").write_text("1")

    def train(config: dict[str, Any], checkpoint_dir: str | None = None) -> None:
        assert checkpoint_dir
        file = Path(checkpoint_dir) / "n"
        nbckpt.report(n=int(file.read_text()))
        file.write_text("changed")

    experiment = ran(train, restore=tmp_path / "made", num_samples=3)
    assert [trial.results[0]["n"] for trial in experiment.trials] == [1, 1, 1]
    assert (tmp_path / "made/n").read_text() == "1"
    origin_of(experiment.folder).check(origin_of(experiment.folder).records()[0])


@each_executor
def test_retention_never_removes_what_a_trial_starts_from(executor: str) -> None:
    before = ran(count, name="before", keep_checkpoints=1)
    options = {"executor": executor, "keep_checkpoints": RetentionPolicy(1), "num_samples": 2}
    after = ran(count, restore="before/t0", **options)
    assert [trial.results[-1]["n"] for trial in after.trials] == [5, 5]
    assert len(after.trials[0].checkpoints.records()) == 1
    Catalog(before.folder.parent).remove("before")
    assert ran(count, name=after.name, num_samples=3).trials[2].results[-1]["n"] == 5


def test_a_trial_paused_before_its_own_checkpoint_starts_again() -> None:
    class PausesOnce(nbckpt.trials.Callback):
        def setup(self, experiment: Any) -> None:
            self.experiment = experiment

        def on_trial_result(self, trial: Any, result: Any) -> None:
            if trial.attempts == 1:
                self.experiment.pause()

    given = nbckpt.Checkpoint.from_dict({"n": 10})
    experiment = ran(count, restore=given, callbacks=[PausesOnce()])
    (trial,) = experiment.trials
    assert (trial.status, trial.results[-1]["n"]) == (Status.PAUSED, 11)
    experiment.resume()
    assert experiment.wait(SECONDS)
    assert [result["n"] for result in trial.results] == [11, 12, 13]
    assert starts(experiment) == [(None, 0, repr(given))] * 2


def test_states_come_from_the_given_checkpoint() -> None:
    def train(config: dict[str, Any]) -> None:
        seen: list[int] = []
        state = nbckpt.State.of("seen", seen)
        nbckpt.load_state(state)
        seen.append(len(seen))
        nbckpt.report(n=len(seen))

    ran(train, name="before", checkpoint_every=1)
    assert ran(train, restore="before/t0@1").trials[0].results[0]["n"] == 2


def test_another_machine_gets_the_checkpoint_by_sync(tmp_path: Path, monkeypatch: Any) -> None:
    config = nbckpt.SyncConfig(upload_dir=(tmp_path / "there").as_uri())
    ran(count, restore=nbckpt.Checkpoint.from_dict({"n": 10}), name="far", sync_config=config)
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "other"))
    again = ran(count, name="far", sync_config=config, num_samples=2)
    assert str(tmp_path / "other") in str(again.folder)
    assert [trial.results[-1]["n"] for trial in again.trials] == [13, 13]


def test_verify_and_trust_know_what_trials_start_from() -> None:
    experiment = ran(count, restore=nbckpt.Checkpoint.from_dict({"n": 10}), name="v")
    catalog = Catalog(experiment.folder.parent)
    assert not verify_trials(catalog, ["v"]).damages
    (record,) = origin_of(experiment.folder).records()
    file = origin_of(experiment.folder).folder / record.name / next(iter(record.files))
    data = file.read_bytes()
    file.write_bytes(bytes(len(data)))
    assert [name for name, _ in verify_trials(catalog, ["v"]).damages] == ["v/origin@0"]
    again = ran(count, name="v", num_samples=2)
    assert again.trials[1].status == Status.ERROR
    assert "is not what was saved" in again.trials[1].error


def test_a_link_that_leads_outside_is_not_followed(tmp_path: Path) -> None:
    experiment = ran(count, restore=nbckpt.Checkpoint.from_dict({"n": 10}), name="v")
    (experiment.folder / "origin").rename(tmp_path / "outside")
    (experiment.folder / "origin").symlink_to(tmp_path / "outside")
    again = ran(count, name="v", num_samples=2)
    assert "leads outside" in again.trials[1].error
    assert verify_trials(Catalog(experiment.folder.parent), ["v"]).damages


def test_a_checkpoint_that_is_not_there_or_damaged_is_refused(store: Path, subtests: pytest.Subtests) -> None:
    ran(count, name="before")
    nbckpt.Checkpoint.from_dict({"n": 10}).to_store(str(store), "name")
    for restore, message in [
        ("before/t0@7", "no checkpoint of step 7"),
        ("gone/t0", "no experiment 'gone'"),
        ("nowhere/at/all", "no checkpoint at 'nowhere/at/all'"),
        ("nmae", "no checkpoint matches"),
        (7, "restore=7 is not a checkpoint"),
        ("memory://restore/nothing", "memory://restore/nothing"),
    ]:
        with subtests.test(restore=restore):
            with pytest.raises(nbckpt.NbckptError, match=message):
                nbckpt.run(count, restore=restore, name="new")
            assert Catalog(store / "experiments").names() == ["before"]
    file = next((store / "experiments/before/t0/checkpoint_000002").rglob("checkpoint.json"))
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(nbckpt.errors.CorruptError, match="is not what was saved"):
        nbckpt.run(count, restore="before/t0@2", name="new")


def test_a_checkpoint_of_somebody_else_needs_trust(tmp_path: Path, monkeypatch: Any) -> None:
    folder = nbckpt.Checkpoint.from_dict({"n": 10}).to_directory(tmp_path / "made")
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    refused = ran(count, restore=folder)
    assert "trust=True" in refused.trials[0].error
    trusted = ran(count, restore=nbckpt.Checkpoint.from_directory(folder, trust=True))
    assert trusted.trials[0].results[-1]["n"] == 13


class FileCounter(Counter):
    def save_checkpoint(self, checkpoint_dir: str) -> None:
        (Path(checkpoint_dir) / "n").write_text(str(self.n))

    def load_checkpoint(self, checkpoint: str) -> None:
        self.n = int((Path(checkpoint) / "n").read_text())


class DurableCounter(DurableTrainable, FileCounter):
    pass


def saved(trainable: Trainable, steps: int = 3) -> list[str]:
    """Save after each step; return the paths."""
    paths = []
    for _ in range(steps):
        trainable.train()
        paths.append(trainable.save())
    return paths


def test_a_missing_checkpoint_is_replaced_by_the_newest(tmp_path: Path, caplog: Any) -> None:
    trainable = FileCounter(logdir=tmp_path)
    saved(trainable)
    with pytest.raises(NotFoundError):
        trainable.restore(tmp_path / "checkpoint_000009")
    trainable.restore(tmp_path / "checkpoint_000009", fallback_to_latest=True)
    assert (trainable.n, trainable.iteration) == (3, 3)
    assert "checkpoint_000003 is restored, the newest whole one" in caplog.text


def test_a_damaged_checkpoint_is_replaced_by_a_whole_one(tmp_path: Path, caplog: Any) -> None:
    trainable = FileCounter(logdir=tmp_path)
    first, second, third = saved(trainable)
    for path in (first, third):
        (Path(path) / "n").write_text("9")
    with pytest.raises(CorruptError):
        trainable.restore(first)
    trainable.restore(first, fallback_to_latest=True)
    assert (trainable.n, trainable.iteration) == (2, 2)
    assert f"{second} is restored" in caplog.text


def test_a_whole_checkpoint_is_restored_itself(tmp_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.WARNING)
    trainable = FileCounter(logdir=tmp_path)
    first = saved(trainable)[0]
    trainable.restore(first, fallback_to_latest=True)
    assert (trainable.n, caplog.text) == (1, "")


def test_without_any_whole_checkpoint_the_first_error_remains(tmp_path: Path) -> None:
    trainable = FileCounter(logdir=tmp_path)
    with pytest.raises(NotFoundError, match="is in no checkpoint"):
        trainable.restore(tmp_path / "checkpoint_000001", fallback_to_latest=True)
    assert trainable.n == 0


def test_a_fallback_stays_in_the_folder_of_the_path(tmp_path: Path) -> None:
    other, trainable = FileCounter(logdir=tmp_path / "other"), FileCounter(logdir=tmp_path / "own")
    saved(other, 2)
    saved(trainable, 1)
    trainable.restore(tmp_path / "other/checkpoint_000007/n", fallback_to_latest=True)
    assert trainable.n == 2


def test_a_durable_trainable_falls_back_to_the_remote_storage(tmp_path: Path) -> None:
    trainable = DurableCounter(str(tmp_path / "remote"), {}, tmp_path / "own")
    _, second, third = saved(trainable)
    shutil.rmtree(tmp_path / "own")
    (tmp_path / "remote/checkpoint_000003/n").write_text("9")
    again = DurableCounter(str(tmp_path / "remote"), {}, tmp_path / "own")
    with pytest.raises(CorruptError):
        again.restore(third)
    again.restore(third, fallback_to_latest=True)
    assert (again.n, Path(second, "n").read_text()) == (2, "2")


def tracked(folder: Path) -> nbckpt.Tracker:
    """Return a tracker whose store holds three versions of `raw` and a newer `other`."""
    tracker = nbckpt.Tracker(folder)
    for version in (1, 2, 3):
        tracker.save({"x": [version] * 1000}, "raw")
    tracker.save({"y": "other"}, "other")
    return tracker


def spoil(folder: Path, ref: str) -> None:
    """Change the bytes of a checkpoint of variables."""
    store = LocalStore(folder)
    entry = nbckpt.Tracker(folder).find(ref)
    store.put(entry.key, bytes(len(store.get(entry.key))))


def test_variables_come_from_the_newest_whole_version(tmp_path: Path) -> None:
    tracker, namespace = tracked(tmp_path), dict[str, Any]()
    for ref, damaged in (("raw", "raw@3"), ("raw@1", "raw@1"), ("raw@9", "")):
        if damaged:
            spoil(tmp_path, damaged)
        with pytest.raises(nbckpt.NbckptError):
            tracker.restore(ref, {})
        restored = tracker.restore(ref, namespace, fallback_to_latest=True)
        assert namespace["x"][0] == 2
        assert f"Restored raw@2, the newest whole one, instead of {ref}." in restored.note
    assert tracker.restore("raw@2", {}, fallback_to_latest=True).note == ""


def test_a_checkpoint_with_a_damaged_value_is_not_whole(tmp_path: Path) -> None:
    tracker, namespace = nbckpt.Tracker(tmp_path), dict[str, Any]()
    before, after = random.Random(1).randbytes(100_000), random.Random(2).randbytes(100_000)
    tracker.save({"x": before}, "raw")
    known = set(tmp_path.glob("packs/*/*.pack"))
    tracker.save({"x": after, "y": 2}, "raw")
    for file in set(tmp_path.glob("packs/*/*.pack")) - known:
        file.write_bytes(bytes(file.stat().st_size))
    assert tracker.restore("raw", {}).failed
    restored = tracker.restore("raw", namespace, fallback_to_latest=True)
    assert (namespace["x"], restored.failed) == (before, ())
    assert "Restored raw@1" in restored.note


def test_a_kept_cell_falls_back_to_an_older_result(tmp_path: Path) -> None:
    tracker, namespace = tracked(tmp_path), dict[str, Any]()
    for version in (1, 2):
        result = replace(tracker.manifest(f"raw@{version}"), message="of a cell")
        tracker.history.publish(result, "cell:prep", kind="cells")
    spoil(tmp_path, "cell:prep@2")
    restored = tracker.restore("cell:prep", namespace, fallback_to_latest=True)
    assert namespace["x"][0] == 1
    assert "Restored cell:prep@1, the newest whole one, instead of cell:prep." in restored.note


def test_latest_and_an_id_fall_back_to_any_checkpoint(tmp_path: Path) -> None:
    tracker = tracked(tmp_path)
    spoil(tmp_path, "other")
    for ref in ("latest", tracker.find("other").id):
        namespace: dict[str, Any] = {}
        tracker.restore(ref, namespace, fallback_to_latest=True)
        assert namespace["x"][0] == 3


def test_a_name_that_does_not_exist_restores_nothing(tmp_path: Path) -> None:
    tracker, namespace = tracked(tmp_path), dict[str, Any]()
    with pytest.raises(NotFoundError, match="Did you mean 'raw'"):
        tracker.restore("rwa", namespace, fallback_to_latest=True)
    spoil(tmp_path, "other")
    with pytest.raises(CorruptError, match="no other version of it is whole"):
        tracker.restore("other", namespace, fallback_to_latest=True)
    assert namespace == {}


def test_the_command_says_what_it_restored_instead(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path))
    tracker = tracked(tmp_path)
    session = Session(tracker, AutoMirror(tracker.store, in_background=False), {})
    spoil(tmp_path, "raw@3")
    shown = str(parse(TABLE, ["restore", "raw", "--fallback-to-latest"], "%ckpt").run(session))
    assert "Restored raw@2, the newest whole one, instead of raw." in " ".join(shown.split())
    ran(lambda config: [nbckpt.report(n=n, checkpoint={"n": n}) for n in (1, 2, 3)] and None, name="e")
    trial = Catalog(tmp_path / "experiments").trial("e/t0")[1]
    next((trial.folder / "checkpoint_000003").rglob("checkpoint.json")).write_text("damaged")
    for ref in ("e/t0@3", "e/t0@9", "e/t0"):
        with pytest.raises(nbckpt.NbckptError):
            parse(TABLE, ["restore", ref], "%ckpt").run(session)
        shown = str(parse(TABLE, ["restore", ref, "--fallback-to-latest"], "%ckpt").run(session))
        assert f"Restored e/t0@2, the newest whole one, instead of {ref}." in " ".join(shown.split())
        assert session.namespace is not None
        assert session.namespace["n"] == 2
