"""%ckpt auto beside what else goes on: trials, a push, a pull, gc, removals, a reload, a reset."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nbckpt.store import LocalStore
from nbckpt.tracker import Tracker
from notebook.conftest import AUTO_ON, Notebook

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
    assert [[result["training_iteration"] for result in trial.results] for trial in trials] == [
        [*range(1, 7)]
    ] * 2
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
        notebook.run(f"k = {k}; made = None")
        shown = notebook.printed(CELL)
        assert "Restored made of cell made" in str(shown.outputs[0].data) + shown.stdout
        assert notebook.names["made"] == [k, k]


def test_a_restored_cell_is_undone_and_redone(watched: Notebook) -> None:
    assert watched.after("k = 1", CELL, "made = None", CELL)["made"] == [1, 1]
    assert watched.after("%ckpt undo")["made"] is None
    assert watched.after("%ckpt redo")["made"] == [1, 1]
