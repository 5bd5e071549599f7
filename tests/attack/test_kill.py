"""Kills: a process that works on one store dies at any moment, and all that it was told is still true."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attack import share
from attack.dying import FIRST
from attack.limits import run_child
from attack.promised import WORDS, Promised, check_store
from attack.promises import READING
from attack.working import OFTEN, SELDOM
from nbckpt.commands import TABLE
from nbckpt.core.gc import collect
from nbckpt.mirror import Mirror
from nbckpt.store import LocalStore
from nbckpt.tracker import Tracker

KILLS = share.of(40, 4)
WORKING = Path(__file__).with_name("working.py")

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")


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


def test_every_writing_command_is_in_a_kill_loop() -> None:
    of_points = {"auto", "checkout", "redo"}  # the kernels of dying.py
    done = {command for commands in (OFTEN | SELDOM).values() for command in commands}
    assert done | of_points == TABLE.keys() - READING.keys()


@pytest.mark.slow
def test_all_that_a_process_was_told_is_true_at_its_end(tmp_path: Path) -> None:
    promised = Promised()
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(WORKING), str(tmp_path), "1", "once"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        promised.hear(line)
    promised.check(tmp_path)
    assert promised.words >= WORDS


@pytest.mark.slow
def test_all_that_was_told_survives_kill_9(tmp_path: Path) -> None:
    draw, promised, known = random.Random(11), Promised(), set[str]()
    for number in range(KILLS):
        for line in killed(tmp_path, number, draw.random() * 1.5):
            if line.endswith("\n"):
                promised.hear(line)
        promised.check(tmp_path, known)
        known |= promised.saved
    collect(Tracker(tmp_path / "store").history, wait=lambda _: None)
    promised.check(tmp_path)
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
