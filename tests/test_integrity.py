"""What the commands say about data that changed or is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.render.text import text
from nbckpt.store import Data, LocalStore
from nbckpt.store.base import parts_of
from nbckpt.tracker import Tracker


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
