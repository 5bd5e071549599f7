"""Single system calls that fail: one of our errors, nothing lost or half there, and the next try works."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from test_crash import COMMANDS, add_stranger, filled, view

from attack import share
from attack.syscalls import ERRORS, Faults
from nbckpt.errors import NbckptError, NotFoundError
from nbckpt.mirror import Mirror
from nbckpt.store import LocalStore, MemoryStore
from nbckpt.tracker import Tracker

STEP = share.of(1, 9)
KINDS = list(ERRORS.values())
MOST_CALLS = 3000

Act = Callable[[Tracker, Path], object]
ACTS: dict[str, Act] = {name: act for name, act in COMMANDS.items() if name != "undo"} | {
    "push": lambda tracker, file: mirror(tracker, file).push(),
    "pull": lambda tracker, file: mirror(tracker, file).pull(),
}


def mirror(tracker: Tracker, file: Path) -> Mirror:
    return Mirror(tracker.store, file.parent / "experiments", file.parent / "elsewhere")


def fill(folder: Path) -> Path:
    """Make a folder with a store, another one, and an exported checkpoint."""
    folder.mkdir()
    store, _ = filled()
    add_stranger(store, folder)
    local = LocalStore(folder / "store")
    for key in list(store.keys()):
        local.put(key, store.get(key))
    Tracker(folder / "elsewhere").save({"there": list(range(9000))}, "there", variables=["there"])
    there = Tracker(MemoryStore())
    there.save({"c": bytes(range(256)) * 800, "d": 1}, "imported", variables=["c", "d"])
    there.export("imported", folder / "x.ckpt")
    return folder


def contents(store: LocalStore) -> list[object]:
    """Return what a user sees of a store, without the numbers of versions, which a failure may skip."""
    return sorted((row[1:] for row in view(store)), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("command", ACTS)
def test_a_system_call_that_fails_loses_nothing(command: str, tmp_path: Path) -> None:
    whole = fill(tmp_path / "whole")
    store = LocalStore(whole / "store")
    before = contents(store)
    done = shutil.copytree(whole, tmp_path / "done")
    ACTS[command](Tracker(done / "store"), done / "x.ckpt")
    after = contents(LocalStore(done / "store"))
    for at in range(1 + len(command) % STEP, MOST_CALLS, STEP):
        folder = shutil.copytree(whole, tmp_path / str(at))
        tracker = Tracker(folder / "store")
        fault = Faults(at, KINDS[at % len(KINDS)])
        with suppress(NbckptError), fault:
            ACTS[command](tracker, folder / "x.ckpt")
        left = contents(LocalStore(folder / "store"))
        assert left in (before, after), at
        with suppress(*[NotFoundError] if left == after else []):  # what is removed cannot be removed again
            ACTS[command](Tracker(folder / "store"), folder / "x.ckpt")
        assert len(contents(LocalStore(folder / "store"))) in {len(after), len(after) + 1}, at
        shutil.rmtree(folder)
        if not fault.reached:
            return
    raise AssertionError(f"{command} makes more than {MOST_CALLS} calls")
