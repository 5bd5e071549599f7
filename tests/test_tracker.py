"""A tracker puts variables and states back, and takes that back."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pytest

import nbckpt


class Interrupting(nbckpt.State):
    """A state whose loading a user interrupts."""

    def save(self, fileobj: IO[bytes]) -> None:
        fileobj.write(b"1")

    def load(self, fileobj: IO[bytes]) -> None:
        raise KeyboardInterrupt


def test_a_restore_that_was_interrupted_while_states_were_loaded_can_be_taken_back(tmp_path: Path) -> None:
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
