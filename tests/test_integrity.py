"""What the commands say about data that changed or is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nbckpt
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import CorruptError, NotFoundError, UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.render.text import text
from nbckpt.store import Data, LocalStore
from nbckpt.store.base import parts_of
from nbckpt.tracker import Tracker
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record


class Busy(LocalStore):
    """A store that writes to an array while it puts a pack of it."""

    array: np.ndarray

    def put(self, key: str, data: Data) -> None:
        if key.startswith("packs/"):
            self.array[0] += 1
        super().put(key, parts_of(data))


def said(session: Session, *words: str) -> str:
    return text(parse(TABLE, list(words), "%ckpt").run(session).page())


@pytest.fixture
def session(tmp_path: Path) -> Session:
    store = LocalStore(tmp_path / "store")
    namespace: dict[str, Any] = {"array": np.random.default_rng(0).random(100_000), "still": 1}
    return Session(Tracker(store), AutoMirror(store, in_background=False), namespace)


def damage(store: LocalStore) -> None:
    (file,) = store.folder.glob("packs/*/*.pack")
    data = bytearray(file.read_bytes())
    data[-9] ^= 1
    file.write_bytes(data)


def trained(session: Session) -> Path:
    """Run two trials with two checkpoints each, in the store's experiment `e`."""

    def train(config: dict[str, Any]) -> None:
        for step in (1, 2):
            nbckpt.report(loss=config["lr"] / step, checkpoint={"step": step})

    space = {"lr": nbckpt.grid_search([1, 2])}
    experiment = nbckpt.run(train, space, name="e", folder=session.library.folder, executor="inline")
    assert not experiment.running
    return experiment.folder


def test_save_show_and_restore_name_arrays_that_changed(tmp_path: Path) -> None:
    store = Busy(tmp_path / "store")
    namespace: dict[str, Any] = {"array": np.random.default_rng(0).random(100_000), "still": 1}
    store.array = namespace["array"]
    session = Session(Tracker(store), AutoMirror(store, in_background=False), namespace)
    for words in (("save", "x"), ("show", "x"), ("restore", "x"), ("restore", "x", "array")):
        assert "Changed during the save" in said(session, *words), words
    assert "Changed during the save" not in said(session, "restore", "x", "still")


def test_verify_repairs_from_the_sync_target(session: Session, tmp_path: Path) -> None:
    session.auto.start(str(tmp_path / "copy"))
    said(session, "save", "x")
    session.auto.push()
    damage(session.tracker.store)  # type: ignore[arg-type]
    assert "verify --repair" in said(session, "verify")
    assert "Repaired from" in said(session, "verify", "--repair")
    assert "damage" not in said(session, "verify").replace("no damage", "")
    session.auto.stop()


def test_repair_needs_a_copy_to_repair_from(session: Session) -> None:
    with pytest.raises(UsageError, match="not synced"):
        said(session, "verify", "--repair")


def test_a_push_names_the_checkpoints_that_it_leaves_out(session: Session, tmp_path: Path) -> None:
    said(session, "save", "x")
    damage(session.tracker.store)  # type: ignore[arg-type]
    assert "Not copied from" in said(session, "push", str(tmp_path / "copy"))


def test_verify_reads_the_checkpoints_of_trials(session: Session) -> None:
    folder = trained(session)
    assert "0 checkpoints and 4 of trials, no damage" in said(session, "verify")
    assert "1 of trials, no damage" in said(session, "verify", "e/t0@1")
    file = next(path for path in (folder / "t1" / "checkpoint_000002").rglob("*") if path.is_file())
    file.write_bytes(b"\0" + file.read_bytes()[1:])
    (folder / "t0" / "params.json").write_bytes(b"")
    report = said(session, "verify")
    assert "Found 2 damages" in report
    assert "All other data is undamaged" in report
    assert "e/t1@2" in report
    assert "params.json" in report
    assert parse(TABLE, ["verify"], "%ckpt").run(session).exit_status == 2
    assert "no damage" in said(session, "verify", "e/t1@1")
    assert "e/t1@2" in said(session, "verify", "e/t1")
    with pytest.raises(NotFoundError, match="no checkpoint 'f'"):
        said(session, "verify", "f")


def test_verify_skips_a_checkpoint_that_is_removed_meanwhile(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = trained(session)

    def gone(checkpoints: CheckpointFolder, record: Record) -> None:
        checkpoints.delete(record)
        raise CorruptError("its files are gone")

    monkeypatch.setattr(CheckpointFolder, "check", gone)
    assert "no damage" in said(session, "verify")
    assert not list(folder.glob("*/checkpoint_*"))
