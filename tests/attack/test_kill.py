"""Kills: a process that works on one store dies at any moment, and all that it was told is still true."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attack import share
from attack.dying import FIRST
from attack.limits import run_child
from attack.working import STEPS, values
from nbckpt.core.gc import collect
from nbckpt.mirror import Mirror
from nbckpt.states.folder import StateFolder
from nbckpt.store import LocalStore
from nbckpt.tracker import Tracker
from nbckpt.trials import Catalog, Status

KILLS = share.of(40, 4)
WORKING = Path(__file__).with_name("working.py")

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")


@dataclass
class Promised:
    """What the killed processes were told.

    Attributes:
        saved: Checkpoints that are there.
        gone: Checkpoints that are not there any more.
        pushing: Checkpoints that the other place may have, so that `pull` may bring them back.
        pushed: Checkpoints that the other place has.
        ran: Experiments that ended.
        states: The number in the newest saved state.
    """

    saved: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    pushing: set[str] = field(default_factory=set)
    pushed: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)
    states: int = -1

    def hear(self, line: str) -> None:
        word, *rest = line.split()
        assert word != "error", line
        if word == "saved":
            self.saved |= set(rest)
            self.gone -= set(rest)
        elif word == "removing":  # from here on it may be there or not
            self.saved -= set(rest)
        elif word == "removed":
            self.gone |= set(rest)
        elif word == "undoing":
            self.gone -= set(rest)
        elif word == "pulling":
            self.gone -= self.pushing
        elif word == "pushing":
            self.pushing |= set(rest)
        elif word == "pushed":
            self.pushed |= set(rest)
        elif word == "ran":
            self.ran |= set(rest)
        elif word == "states":
            self.states = int(rest[0])


def killed(folder: Path, seed: int, after_s: float) -> Iterator[str]:
    """Start a process that works in *folder*, kill it, and yield what it said."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(WORKING), str(folder), str(seed)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline()
        time.sleep(after_s)
        assert process.poll() is None, process.stdout.read()
        process.kill()
        yield from process.stdout


def check_store(store: LocalStore, expected: set[str], gone: set[str], known: Container[str] = ()) -> None:
    """Check a store; restore all checkpoints but the *known* ones."""
    tracker = Tracker(store)
    assert tracker.verify().damages == []
    there = {entry.id for entry in tracker.entries()}
    assert expected <= there
    assert not gone & there
    for target in sorted(target for target in there if target not in known):
        namespace: dict[str, Any] = {}
        assert tracker.restore(target, namespace).failed == ()
        whole = values(namespace["number"])
        assert namespace.keys() == whole.keys()
        assert np.array_equal(namespace["array"], whole["array"])


def check_experiments(library: Catalog, ran: set[str]) -> None:
    names = set(library.names())
    assert ran <= names
    for name in sorted(names):
        experiment = library.open(name)
        for trial in experiment.trials:
            assert [result["step"] for result in trial.results] == list(range(1, trial.iteration + 1))
            if name in ran:
                assert (trial.status, trial.iteration) == (Status.TERMINATED, STEPS)


@pytest.mark.slow
def test_acknowledged_saves_and_removals_survive_kill_9(tmp_path: Path) -> None:
    draw, promised, known = random.Random(11), Promised(), set[str]()
    store = LocalStore(tmp_path / "store")
    for number in range(KILLS):
        for line in killed(tmp_path, number, draw.random() * 1.5):
            if line.endswith("\n"):
                promised.hear(line)
        check_store(store, promised.saved, promised.gone, known)
        known |= promised.saved
        check_experiments(Catalog(tmp_path / "store" / "experiments"), promised.ran)
        if promised.states >= 0:
            newest = StateFolder(tmp_path / "states").newest()
            assert newest is not None
    collect(Tracker(store).history, wait=lambda _: None)
    check_store(store, promised.saved, promised.gone)
    if promised.pushed:
        fresh = LocalStore(tmp_path / "fresh")
        Mirror(fresh, tmp_path / "fresh" / "experiments", tmp_path / "remote").pull()
        check_store(fresh, promised.pushed, set())


@pytest.mark.slow
def test_a_kill_at_any_call_leaves_a_whole_automatic_point(tmp_path: Path) -> None:
    states = list(map(int, run_child("attack.dying", tmp_path, str(share.of(1, 5)), seconds=600)))
    assert states == sorted(states)  # from one call on, the point of the cell is there
    assert {*states} == {FIRST - 1, FIRST}
    assert len(states) >= share.of(40, 8)


@pytest.mark.slow
def test_sigterm_at_any_line_after_a_cell_saves_it(tmp_path: Path) -> None:
    step = share.of(1, 7)
    cells = list(map(int, run_child("attack.ending", tmp_path / "store", str(step), seconds=600)))
    assert cells == list(range(1, len(cells) * step + 1, step))
    assert len(cells) * step > 150
