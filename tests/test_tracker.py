"""A tracker puts variables and states back, and takes that back."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import IO

import numpy as np
import pytest

import nbckpt


class Interrupting(nbckpt.State):
    """A state whose loading a user interrupts."""

    def save(self, fileobj: IO[bytes]) -> None:
        fileobj.write(b"1")

    def load(self, fileobj: IO[bytes]) -> None:
        raise KeyboardInterrupt


def test_a_restore_interrupted_while_loading_states_is_undoable(tmp_path: Path) -> None:
    tracker, namespace = nbckpt.Tracker(tmp_path), {"x": "saved"}
    state = Interrupting("slow")
    tracker.save(namespace, "n", states=True)
    namespace["x"] = "mine"
    with pytest.raises(KeyboardInterrupt):
        tracker.restore("n", namespace)
    assert namespace["x"] == "saved"
    state.close()
    tracker.undo(namespace)
    assert namespace["x"] == "mine"


def test_a_random_state_that_a_library_refuses_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = nbckpt.Tracker(tmp_path)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(random, "getstate", lambda: "of another version")
        tracker.save({"x": 1}, "n")
    namespace: dict[str, object] = {}
    restored = tracker.restore("n", namespace)
    assert namespace == {"x": 1}
    assert [failure.names for failure in restored.failed] == [("random.state",)]
    tracker.undo(namespace)
    assert namespace == {}


def test_the_preview_of_a_masked_array_gives_no_warning(tmp_path: Path) -> None:
    masked = np.ma.array([1.5, 2.0], mask=[False, True])
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        saved = nbckpt.Tracker(tmp_path).save({"masked": masked}, "n")
    assert saved.manifest.values[0].preview["text"] == "[1.5 --]"
    assert given == []
