"""The part that cannot be saved is named by its path, without many tries to pickle."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from nbckpt import Tracker
from nbckpt.store import MemoryStore

FRAME = sys._getframe()


class Counted:
    """Counts how often it is pickled."""

    calls = 0

    def __reduce__(self) -> Any:
        Counted.calls += 1
        return Counted, ()


class Hidden:
    """Has a part that is in its pickle alone."""

    def __init__(self) -> None:
        self.fine = [1]

    def __getstate__(self) -> Any:
        return {"fine": self.fine, "made": [sys._getframe()]}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"k": [1, sys._getframe()]}, "bad['k'][1]: frame"),
        ([Hidden()], f"bad[0]: {__name__}.Hidden"),
        (lambda frame=FRAME: frame, "bad.__defaults__[0]: frame"),
        ([*range(10_000), sys._getframe()], "bad[10000]: frame"),
    ],
)
def test_the_part_that_cannot_be_saved_is_named(value: Any, path: str) -> None:
    manifest = Tracker(MemoryStore()).save({"bad": value, "n": 1}, "a").manifest
    assert [skip.path for skip in manifest.skipped] == [path]


def test_parts_before_the_named_part_are_pickled_once() -> None:
    Counted.calls = 0
    values = {"bad": [*(Counted() for _ in range(100)), sys._getframe()], "n": 1}
    manifest = Tracker(MemoryStore()).save(values, "a").manifest
    assert [skip.path for skip in manifest.skipped] == ["bad[100]: frame"]
    assert Counted.calls == 100
