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
from nbckpt.errors import NbckptError, NotFoundError, UsageError
from nbckpt.mirror import Mirror
from nbckpt.store import LocalStore, MemoryStore
from nbckpt.sync.transfer import TransferOptions
from nbckpt.tracker import Tracker

STEP = share.of(1, 9)
KINDS = share.of({name: [error] for name, error in ERRORS.items()}, {"in turn": [*ERRORS.values()]})
"""The errors of one test, which the calls fail with in turn."""
MOST_CALLS = 3000

Act = Callable[[Tracker, Path], object]
ACTS: dict[str, Act] = COMMANDS | {
    "push": lambda tracker, file: mirror(tracker, file).push(TransferOptions(backoff_s=0)),
    "pull": lambda tracker, file: mirror(tracker, file).pull(TransferOptions(backoff_s=0)),
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


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ACTS)
def test_a_system_call_that_fails_loses_nothing(command: str, kind: str, tmp_path: Path) -> None:
    whole, errors = fill(tmp_path / "whole"), KINDS[kind]
    untouched, before = files(whole), contents(LocalStore(whole / "store"))
    done = shutil.copytree(whole, tmp_path / "done")
    ACTS[command](Tracker(done / "store"), done / "x.ckpt")
    after = contents(LocalStore(done / "store"))
    for at in range(1 + len(command) % STEP, MOST_CALLS, STEP):
        folder = shutil.copytree(whole, tmp_path / str(at))
        fault = Faults(at, errors[at % len(errors)])
        with suppress(NbckptError), fault:
            ACTS[command](Tracker(folder / "store"), folder / "x.ckpt")
        if files(folder) != untouched:  # otherwise the next try is as the one that was done
            check(command, folder, before, after, at)
        shutil.rmtree(folder)
        if not fault.reached:
            return
    raise AssertionError(f"{command} makes more than {MOST_CALLS} calls")


def check(command: str, folder: Path, before: list[object], after: list[object], at: int) -> None:
    """Check that a failed command left the old or the new store, and that its next try works."""
    left = contents(LocalStore(folder / "store"))
    assert left in (before, after), at
    # What is removed cannot be removed again, nor brought back if it is back.
    with suppress(*[NotFoundError, UsageError] if left == after else []):
        ACTS[command](Tracker(folder / "store"), folder / "x.ckpt")
    assert len(contents(LocalStore(folder / "store"))) in {len(after), len(after) + 1}, at
