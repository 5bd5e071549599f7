"""Signals and the end of a process: a way happens as a whole or not at all, and what changed is saved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from nbckpt.core.interrupts import uninterrupted
from nbckpt.core.values import classes
from nbckpt.errors import StoreError
from nbckpt.store import LocalStore
from nbckpt.timeline import arrival, timeline
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker
from nbckpt.tracker.binding import Binder
from tests.timeline.test_timeline import Kernel

SHELL = """
import sys, threading
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
def run(cell):
    shell.run_cell(cell, store_history=True).raise_error()
run("%load_ext nbckpt")
run("import numpy as np, sys, time")
run("%ckpt auto on --budget 0.0001%;")
run("a = [1]; big = np.zeros(1_000_000)")
"""
# Not readline: Python can begin to read just before it handles a signal, if another thread wants to run too.
WAIT = "import select\\nwhile not select.select([sys.stdin], [], [], 0.1)[0]: pass"
RUNNING = f"run('a.append(2); big[0] = 7\\nprint(\"ready\", flush=True)\\n{WAIT}')"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to handle")


def shell(folder: Path, last: str) -> subprocess.Popen[str]:
    pipe: Any = subprocess.PIPE
    code = SHELL + last
    return subprocess.Popen([sys.executable, "-c", code], cwd=folder, stdin=pipe, stdout=pipe, text=True)


def state_of(folder: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    Tracker(LocalStore(folder / ".nbckpt")).restore("latest", names)
    return names


def wait_for_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert any("ready" in line for line in process.stdout)


@pytest.mark.slow
def test_sigterm_in_the_middle_of_a_cell_saves_what_changed(tmp_path: Path) -> None:
    with shell(tmp_path, RUNNING) as process:
        wait_for_ready(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    state = state_of(tmp_path)
    assert (state["a"], float(state["big"][0])) == ([1, 2], 7.0)


@pytest.mark.slow
def test_the_end_of_a_kernel_saves_what_no_point_holds(tmp_path: Path) -> None:
    cells = "run('%ckpt auto on --budget 0.0001%;')\nfor n in range(9):\n    run(f'a = [{n}]')"
    process = shell(tmp_path, cells)
    process.communicate(timeout=60)
    assert state_of(tmp_path)["a"] == [8]


@pytest.mark.slow
def test_a_kill_leaves_the_last_whole_point(tmp_path: Path) -> None:
    with shell(tmp_path, "run('%ckpt auto on;')\n" + RUNNING) as process:
        wait_for_ready(process)
        process.kill()
    assert state_of(tmp_path)["a"] == [1]


@pytest.mark.slow
def test_auto_off_and_a_reload_give_the_former_handler_back(tmp_path: Path) -> None:
    ends = """
import signal
for end in ("%ckpt auto off;", "%reload_ext nbckpt"):
    run("%ckpt auto on;")
    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    run(end)
    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""
    with shell(tmp_path, ends) as process:
        assert process.communicate(timeout=60)[0].split() == ["False", "True"] * 2


@pytest.mark.slow
def test_a_fork_that_is_ended_saves_nothing(tmp_path: Path) -> None:
    fork = """
    import os, signal
    child = os.fork()
    if not child:
        a.append("of the fork")
        signal.raise_signal(signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    with shell(tmp_path, f"import textwrap\nrun(textwrap.dedent({fork!r}))") as process:
        assert "-15" in process.communicate(timeout=60)[0]
    assert state_of(tmp_path)["a"] == [1]


HANGS = """
import os, sys, threading
from nbckpt.cells.analysis import Touched
from nbckpt.store import MemoryStore
from nbckpt.timeline import auto, pending, rescue
from nbckpt.timeline.retention import Limits
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker
class Hangs(MemoryStore):
    waits = None
    def put(self, key, data):
        if self.waits is not None:
            self.waits.set()
            threading.Event().wait()
        super().put(key, data)
pending._AT_END_S = auto._AT_END_S = 0.0
# Python aborts if it ends while a thread is in foreign code, so what is hashed has time to come to the store.
rescue._AT_MOST_S = 1.0
names, store = {"__name__": "__main__", "a": b""}, Hangs()
points = auto.Auto(Timeline(Tracker(store), names, frozenset, patience_s=0.0))
points.turn_on(Limits(budget=1e9), {})
store.waits = threading.Event()
points.before_cell(Touched(frozenset("a")))
names["a"] = eval(sys.argv[1])
points.after_cell(1.0, Touched(frozenset("a")), {})
store.waits.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize("value", ["b'small'", "os.urandom(1 << 20)"], ids=["its manifest", "its pack"])
def test_the_process_ends_if_the_store_never_answers(value: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS, value], capture_output=True, text=True, timeout=120, check=True
    )
    assert "nbckpt: the last state is not saved: the store did not answer" in done.stderr


REMOVES = """
import atexit, os, signal, sys, threading
from nbckpt.cells.analysis import Touched
from nbckpt.store import MemoryStore
from nbckpt.timeline import auto
from nbckpt.timeline.retention import Limits
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker
class Hangs(MemoryStore):
    waits = threading.Event()
    def delete(self, key):
        if key.startswith("points/"):
            self.waits.set()
            threading.Event().wait()
        super().delete(key)
names, store = {"__name__": "__main__", "a": 0}, Hangs()
def tell(*_):
    found = {}
    Tracker(store).restore("latest", found)
    print(found["a"], flush=True)
if sys.argv[1] == "exit":
    atexit.register(tell)
else:
    signal.signal(signal.SIGTERM, tell)
points = auto.Auto(Timeline(Tracker(store), names, frozenset))
points.turn_on(Limits(budget=1e9, keep=1), {})
for number in (1, 2):
    points.before_cell(Touched(frozenset("a")))
    names["a"] = number
    points.after_cell(1.0, Touched(frozenset("a")), {})
store.waits.wait()
points.before_cell(Touched(frozenset("a")))
names["a"] = 3
if sys.argv[1] == "SIGTERM":
    signal.raise_signal(signal.SIGTERM)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["exit", "SIGTERM"])
def test_the_end_saves_the_rest_during_a_removal_that_hangs(end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REMOVES, end], capture_output=True, text=True, timeout=120, check=True
    )
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_what_holds_large_values_is_not_in_the_way_of_small(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    kernel.run("a = [1]; old = {'x': np.zeros(1 << 18)}; beside = [old]")
    kernel.names["a"].append(2)
    kernel.names["old"]["x"][5] = 7
    kernel.names["new"] = [SimpleNamespace(x=np.zeros(1 << 18))]
    monkeypatch.setattr(kernel.timeline, "record", lambda *_, **__: None)  # the process ends before it
    kernel.timeline.rescue({})
    names: dict[str, Any] = {}
    kernel.tracker.restore("latest", names)
    assert names == {"a": [1, 2]}


@pytest.fixture
def kernel() -> Kernel:
    """A kernel with a point of each of two states."""
    kernel = Kernel()
    kernel.run("a = [1]", "a.append(2)")
    return kernel


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    ("owner", "step"),
    [(arrival, "apply"), (Binder, "bind"), (arrival, "_held"), (Timeline, "_count_from_here")],
)
def test_an_undo_that_is_interrupted_is_done(kernel: Kernel, owner: Any, step: str) -> None:
    work = getattr(owner, step)

    def interrupted(*given: Any, **named: Any) -> Any:
        interrupt()
        return work(*given, **named)

    with patch.object(owner, step, interrupted), pytest.raises(KeyboardInterrupt):
        kernel.undo()
    assert kernel.names["a"] == [1]
    assert kernel.redone()["a"] == [1, 2]


def test_an_interrupt_as_a_class_goes_back_comes_afterwards(kernel: Kernel) -> None:
    kernel.run("class C:\n    v = 1", "C.v = 2; a.append(3)")
    with patch.object(classes, "intern_texts", lambda _: interrupt()), pytest.raises(KeyboardInterrupt):
        kernel.undo()
    assert (kernel.names["C"].v, kernel.names["a"]) == (1, [1, 2])
    kernel.redo()
    assert (kernel.names["C"].v, kernel.names["a"]) == (2, [1, 2, 3])


def test_an_undo_that_fails_leaves_the_way_back(kernel: Kernel) -> None:
    here = kernel.timeline.here
    assert here is not None
    kernel.timeline.checkout(here.manifest.parent, {})

    failing = StoreError("the store does not answer")
    with patch.object(timeline, "arrive", side_effect=failing), pytest.raises(StoreError):
        kernel.undo()
    assert kernel.names["a"] == [1]
    assert kernel.undone()["a"] == [1, 2]


def test_a_second_interrupt_does_not_wait() -> None:
    done = []

    @uninterrupted()
    def work() -> None:
        interrupt()
        done.append(1)
        interrupt()
        done.append(2)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_have_no_interrupts_to_hold_off() -> None:
    handlers = []

    def look() -> None:
        with uninterrupted():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
