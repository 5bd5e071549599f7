"""`restore(fallback_to_latest=True)`: the newest whole checkpoint in place of a missing or damaged one."""

from __future__ import annotations

import logging
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import ran

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import CorruptError, NotFoundError
from nbckpt.mirror import AutoMirror
from nbckpt.store import LocalStore
from nbckpt.trials import DurableTrainable, Trainable
from nbckpt.trials.catalog import Catalog


class Counter(Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.n = 0

    def step(self) -> dict[str, Any]:
        self.n += 1
        return {"n": self.n}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        (Path(checkpoint_dir) / "n").write_text(str(self.n))

    def load_checkpoint(self, checkpoint: str) -> None:
        self.n = int((Path(checkpoint) / "n").read_text())


class DurableCounter(DurableTrainable, Counter):
    pass


def saved(trainable: Trainable, steps: int = 3) -> list[str]:
    """Save after each step; return the paths."""
    paths = []
    for _ in range(steps):
        trainable.train()
        paths.append(trainable.save())
    return paths


def test_a_missing_checkpoint_is_replaced_by_the_newest(tmp_path: Path, caplog: Any) -> None:
    trainable = Counter(logdir=tmp_path)
    saved(trainable)
    with pytest.raises(NotFoundError):
        trainable.restore(tmp_path / "checkpoint_000009")
    trainable.restore(tmp_path / "checkpoint_000009", fallback_to_latest=True)
    assert (trainable.n, trainable.iteration) == (3, 3)
    assert "checkpoint_000003 is restored, the newest whole one" in caplog.text


def test_a_damaged_checkpoint_is_replaced_by_a_whole_one(tmp_path: Path, caplog: Any) -> None:
    trainable = Counter(logdir=tmp_path)
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
    trainable = Counter(logdir=tmp_path)
    first = saved(trainable)[0]
    trainable.restore(first, fallback_to_latest=True)
    assert (trainable.n, caplog.text) == (1, "")


def test_without_any_whole_checkpoint_the_first_error_remains(tmp_path: Path) -> None:
    trainable = Counter(logdir=tmp_path)
    with pytest.raises(NotFoundError, match="is in no checkpoint"):
        trainable.restore(tmp_path / "checkpoint_000001", fallback_to_latest=True)
    assert trainable.n == 0


def test_a_fallback_stays_in_the_folder_of_the_path(tmp_path: Path) -> None:
    other, trainable = Counter(logdir=tmp_path / "other"), Counter(logdir=tmp_path / "own")
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
