"""%ckpt auto beside what else goes on: threads, trials, a push, a pull, gc, removals, a reload, a reset."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbckpt.store import LocalStore
from nbckpt.tracker import Tracker
from notebook.conftest import AUTO_ON, Notebook, notes

TRIAL = """
import time
from pathlib import Path
import nbckpt
def train(config):
    while not Path("go").exists():
        time.sleep(0.01)
    nbckpt.report(loss=1.0)
"""


def test_cells_beside_a_running_trial_are_undone(watched: Notebook) -> None:
    watched.run(TRIAL, "experiment = nbckpt.run(train, name='beside', executor='thread')")
    assert watched.after("a = [1]; alias = a", "alias.append(2)", "%ckpt undo")["a"] == [1]
    assert watched.after("%ckpt redo")["a"] == [1, 2]
    assert "1 done" in str(watched.run("Path('go').touch(); experiment.wait()", "%ckpt trials beside"))


POPULATION = """
import time
from pathlib import Path
import nbckpt
def train(config):
    saved = nbckpt.get_checkpoint()
    total = saved.to_dict()["total"] if saved else 0.0
    while True:
        while not Path("go").exists():
            time.sleep(0.01)
        total += config["x"]
        asked = nbckpt.should_checkpoint()
        nbckpt.report(total=total, checkpoint={"total": total} if asked else None)
"""


def test_a_population_trains_beside_cells_that_are_undone(watched: Notebook) -> None:
    watched.run(POPULATION, "pbt = nbckpt.trials.PBT(2, max_t=6, metric='total', mode='max')")
    watched.run("space = {'x': nbckpt.grid_search([1.0, 8.0])}")
    watched.run(
        "experiment = nbckpt.run(train, space, scheduler=pbt, name='beside', seed=1, max_concurrent=1)"
    )
    watched.run("a = [1]; alias = a", "alias.append(2)", "%ckpt undo")
    assert watched.after("Path('go').touch(); experiment.wait()", "%ckpt redo")["a"] == [1, 2]
    trials = watched.names["experiment"].trials
    steps = [[result["training_iteration"] for result in trial.results] for trial in trials]
    assert steps == [[*range(1, 7)]] * 2
    assert any("donor" in (trial.folder / "events.jsonl").read_text() for trial in trials)


def test_a_save_is_pushed_without_points_and_undone_elsewhere(
    watched: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.run("a = [1]; h = {'a': a}", "a.append(2)", "%ckpt save second")
    watched.run(f"%ckpt push {tmp_path / 'copy'}")
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "there"))
    watched.run("del a, h", "%reload_ext nbckpt", f"{AUTO_ON} --keep 3", "b = 1")
    assert watched.after(f"%ckpt pull {tmp_path / 'copy'}", "b = 2", "%ckpt checkout second")["a"] == [1, 2]
    assert watched.names["h"]["a"] is watched.names["a"]
    assert "b" not in watched.names
    first = next(point for point in watched.run("%ckpt history").points if "b" in point.changed)
    watched.run(f"%ckpt checkout {first.id[:8]}")
    assert (watched.names.get("a"), watched.names["b"]) == (None, 2)


@pytest.mark.slow
@pytest.mark.usefixtures("gc_at_once")
def test_gc_and_a_push_between_cells_take_nothing_away(watched: Notebook, tmp_path: Path) -> None:
    watched.run(f"{AUTO_ON} --keep 3", "import random")
    for number in range(8):
        watched.run(f"a = random.Random({number}).randbytes(100_000)", "%ckpt gc")
        watched.run(f"%ckpt push {tmp_path / 'copy'}")
    values = [watched.names["a"]]
    for _ in range(2):
        watched.run("%ckpt undo")
        values.append(watched.names["a"])
    assert len(set(values)) == 3
    assert "Everything verified" in str(watched.run("%ckpt verify"))


def test_a_store_that_was_deleted_is_made_again(watched: Notebook, tmp_path: Path) -> None:
    watched.run("a = [1]")
    watched.run("%ckpt auto")  # waits for the point in the background
    shutil.rmtree(tmp_path / ".nbckpt")
    watched.printed("a.append(2)", "a.append(3)", "%ckpt auto")  # it may be said, but the cell is not lost
    assert watched.names["a"] == [1, 2, 3]
    names: dict[str, object] = {}
    Tracker(LocalStore(tmp_path / ".nbckpt")).restore("latest", names)
    assert names["a"] == [1, 2, 3]


def test_a_reload_says_that_auto_is_off(watched: Notebook) -> None:
    assert "auto is off" in watched.printed("%reload_ext nbckpt").stderr
    assert "auto" not in watched.printed("%reload_ext nbckpt").stderr


def test_a_reset_of_the_namespace_is_undone(watched: Notebook) -> None:
    assert "a" not in watched.after("a = [1]; h = {'a': a}", "%reset -f")
    assert watched.after("%ckpt undo")["a"] == [1]
    assert watched.names["h"]["a"] is watched.names["a"]


def test_a_stranger_s_state_is_not_offered(
    watched: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.run("a = [1]")
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "other" / "secret"))
    watched.run("%ckpt auto off", "%reset -f")
    assert "State of" not in watched.printed("%reload_ext nbckpt").stdout


CELL = "%%ckpt cell made\nprint('it runs')\nmade = [k, k]"


def test_a_kept_cell_comes_back_from_a_copy_after_gc(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for k in (1, 2):
        notebook.run(f"k = {k}", CELL)
    notebook.run("%ckpt gc", f"%ckpt push {tmp_path / 'copy'}")
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "there"))
    notebook.run("%reload_ext nbckpt", f"%ckpt pull {tmp_path / 'copy'}", "%ckpt gc")
    for k in (1, 2):
        shown = notebook.printed(f"k = {k}; made = None", CELL)
        assert "Restored made of cell made" in str(shown.outputs[0].data) + shown.stdout
        assert notebook.names["made"] == [k, k]


def test_a_restored_cell_is_undone_and_redone(watched: Notebook) -> None:
    assert watched.after("k = 1", CELL, "made = None", CELL)["made"] == [1, 1]
    assert watched.after("%ckpt undo")["made"] is None
    assert watched.after("%ckpt redo")["made"] == [1, 1]


BUSY = """
import threading, queue
log, end = [], threading.Event()
asked, ticked = threading.Semaphore(0), threading.Semaphore(0)
def tick(log=log, end=end, asked=asked, ticked=ticked):
    while asked.acquire(timeout=60) and not end.is_set():
        log.append(1)
        ticked.release()
thread = threading.Thread(target=tick, daemon=True)
"""


@pytest.fixture
def watched(watched: Notebook) -> Iterator[Notebook]:
    yield watched
    if "asked" in watched.names:
        watched.names["end"].set()
        watched.names["asked"].release()
    for value in list(watched.names.values()):
        if isinstance(value, threading.Thread):
            value.join(60)


def appends(notebook: Notebook) -> None:
    """Let the thread change its list once more, without a cell."""
    names: dict[str, Any] = notebook.names
    names["asked"].release()
    assert names["ticked"].acquire(timeout=60)


def test_each_undo_goes_back_while_a_thread_changes_a_list(watched: Notebook) -> None:
    log = watched.after(BUSY, "thread.start()", *(f"x = {number}" for number in range(4)))["log"]
    for number in (2, 1, 0):
        appends(watched)
        done = watched.run("%ckpt undo")
        assert watched.names["x"] == number
        assert done.arrived.unseen == ()
    assert "x" not in watched.after("%ckpt undo")
    assert watched.names["log"] is log, "the thread goes on with the notebook's list"
    assert "log" in notes(done)
    for number in range(4):
        appends(watched)
        assert watched.after("%ckpt redo")["x"] == number
    assert watched.names["log"] is log


def test_undo_after_redo_leaves_the_list_of_a_thread(watched: Notebook) -> None:
    log = watched.after(BUSY, "thread.start()", "x = 1", "x = 2")["log"]
    for way, number in (("undo", 1), ("redo", 2), ("undo", 1), ("redo", 2), ("undo", 1)):
        appends(watched)
        assert watched.after(f"%ckpt {way}")["x"] == number
        assert watched.names["log"] is log


def test_a_cell_after_undo_does_not_hide_what_was_left(watched: Notebook) -> None:
    log = watched.after(BUSY, "thread.start()", "x = 1", "x = 2")["log"]
    appends(watched)
    assert watched.after("%ckpt undo", "x = 3", "%ckpt undo")["x"] == 1
    assert watched.names["log"] is log


def test_a_cell_that_reads_does_not_use_up_a_step_of_a_thread(watched: Notebook) -> None:
    watched.run(BUSY, "thread.start()", "x = 1", "x = 2")
    for _ in range(3):
        appends(watched)
        watched.run("print('looking', x)")
    assert watched.after("%ckpt undo")["x"] == 1


def test_a_cell_that_only_ends_sharing_is_a_step_of_its_own(watched: Notebook) -> None:
    watched.run(BUSY, "thread.start()", "a = [1]; h = {'a': a}", "x = 1")
    appends(watched)
    watched.run("a = a[:]", "x = 2", "%ckpt undo")
    assert watched.names["h"]["a"] is not watched.names["a"]
    watched.run("%ckpt undo")
    assert watched.names["h"]["a"] is watched.names["a"]
    assert watched.names["x"] == 1


def test_a_checkout_takes_back_what_a_thread_did(watched: Notebook) -> None:
    watched.run(BUSY, "first = watched = 1", "%ckpt save before", "thread.start()")
    appends(watched)
    assert watched.after("%ckpt checkout before")["log"] == []
    assert watched.after("%ckpt undo")["log"] != []


def test_history_tells_what_no_cell_changed(watched: Notebook) -> None:
    watched.run(BUSY, "thread.start()", "x = 1")
    appends(watched)
    watched.run("y = 1")
    appends(watched)
    assert "no cell" in str(watched.run("%ckpt undo", "%ckpt history"))


def test_a_change_without_a_cell_after_undo_is_no_step(watched: Notebook) -> None:
    watched.run("log = [0]; x = 0", "x = 1", "x = 2", "%ckpt undo")
    watched.names["log"].append(1)  # as the callback of a widget
    done = watched.run("%ckpt undo")
    assert (watched.names["x"], watched.names["log"]) == (0, [0])
    assert "log had changed without a cell" in notes(done)
    watched.names["log"].append(2)
    assert watched.after("%ckpt redo")["x"] == 1
    assert watched.after("%ckpt redo")["x"] == 2


def test_a_change_by_a_callback_alone_is_undone_first(watched: Notebook) -> None:
    watched.run("log = [0]", "x = 1")
    watched.names["log"].append(1)
    done = watched.run("%ckpt undo")
    assert (watched.names["x"], watched.names["log"]) == (1, [0])
    assert "log had changed since the last point" in notes(done)


WAITS = {
    "event": ("made = threading.Event()", "made.wait(60)", "made.set()"),
    "condition": ("made = threading.Condition()", "with made: made.wait_for(lambda: go, 60)", "made"),
    "queue": ("made = queue.Queue()", "made.get(timeout=60)", "made.put(1)"),
    "semaphore": ("made = threading.Semaphore(0)", "made.acquire(timeout=60)", "made.release()"),
    "lock": ("made = threading.Lock(); _ = made.acquire()", "made.acquire(timeout=60)", "made.release()"),
    "barrier": ("made = threading.Barrier(2)", "made.wait(60)", "made.wait(60)"),
    "simple queue": ("made = queue.SimpleQueue()", "made.get(timeout=60)", "made.put(1)"),
    "in a list": ("made = [threading.Event(), 0]", "made[0].wait(60)", "made[0].set()"),
}
WAIT = """
woken, go, begun = [], [], threading.Event()
def wait(made=made, woken=woken, go=go, begun=begun):
    begun.set()
    {wait}
    woken.append(1)
thread = threading.Thread(target=wait, daemon=True)
thread.start()
_ = begun.wait(60)
"""


def test_a_waiting_thread_is_woken_after_undo_and_redo(watched: Notebook, subtests: pytest.Subtests) -> None:
    for kind, (make, wait, wake) in WAITS.items():
        with subtests.test(kind):
            thread, made, go = waiting(watched, make, "x = 1", wait)
            woken = watched.names["woken"]
            assert watched.after("x = 2", "x = 3", "%ckpt undo 2", "%ckpt redo")["made"] is made
            ends(thread, made, go, wake)
            assert woken == [1]


def test_undo_past_the_start_keeps_what_a_thread_waits_on(
    watched: Notebook, subtests: pytest.Subtests
) -> None:
    for kind, (make, wait, wake) in WAITS.items():
        with subtests.test(kind):
            thread, made, go = waiting(watched, make, "holder = [made, 0]; x = 1", wait)
            held = watched.after("holder[1] = 5", "%ckpt undo 2")["holder"][0]
            if isinstance(made, list):
                assert held[0] is made[0]
            else:
                assert held is made
            ends(thread, held, go, wake)


def waiting(watched: Notebook, make: str, then: str, wait: str) -> tuple[threading.Thread, Any, list[int]]:
    """Start a thread in an empty notebook. Return the thread, its event and the list that it reads."""
    watched.run("%ckpt auto off", "%reset -f", AUTO_ON, "import threading, queue", make, then)
    names = watched.after(WAIT.format(wait=wait))
    return names["thread"], names["made"], names["go"]


def ends(thread: threading.Thread, made: Any, go: list[int], wake: str) -> None:
    """Wake a thread, and hold that it ends."""
    if hasattr(made, "notify_all"):
        go.append(1)
        with made:
            made.notify_all()
    else:
        exec(wake, {"made": made})
    thread.join(60)
    assert not thread.is_alive()


def test_the_flag_of_an_event_goes_back_in_place(watched: Notebook) -> None:
    watched.run("import threading; stop = threading.Event(); held = {'stop': stop}", "stop.set()")
    stop = watched.names["stop"]
    watched.run("%ckpt undo")
    assert watched.names["stop"] is watched.names["held"]["stop"] is stop
    assert not stop.is_set()
    assert watched.after("%ckpt redo")["stop"] is stop
    assert stop.is_set()


def test_a_load_that_is_no_way_makes_new_locks(watched: Notebook) -> None:
    watched.run("import threading; stop = threading.Event(); lock = threading.Lock()", "%ckpt save kept")
    stop, lock = watched.names["stop"], watched.names["lock"]
    watched.run("stop.set()", "%ckpt restore kept")
    assert stop.is_set()
    assert watched.names["stop"] is not stop
    assert watched.names["lock"] is not lock
    assert not watched.names["stop"].is_set()


def test_a_lock_that_nobody_frees_is_not_used_again(watched: Notebook) -> None:
    watched.run("import threading; lock = threading.Lock(); holder = [lock, 0]", "holder[1] = 1")
    watched.run("holder[1] = 2; _ = lock.acquire()", "%ckpt undo 2")
    assert not watched.names["lock"].locked()
    assert watched.names["holder"][0] is watched.names["lock"]
