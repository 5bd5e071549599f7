"""%ckpt checkout --rerun: variables that no point can hold are made again by the cells that made them."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbckpt.timeline.cells import Spent
from notebook.conftest import AUTO_ON, Notebook, notes

# From Python 3.13 on, a connection that an undo takes away warns.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")


@pytest.fixture(autouse=True, scope="module")
def no_connection_left() -> Iterator[None]:
    """Let the connections end in these tests, which allow their warnings."""
    yield
    gc.collect()


SETUP = "import pathlib, random, sqlite3, threading"


@pytest.fixture
def watched(watched: Notebook) -> Iterator[Notebook]:
    yield watched
    for value in watched.names.values():
        if isinstance(value, sqlite3.Connection):
            value.close()


DATABASE = "db = sqlite3.connect(path); _ = db.execute('create temp table mine (x)')"  # cannot be saved
TABLE = "_ = db.execute('create table t (a)')"


def tables(notebook: Notebook) -> int:
    """The number of tables, asked without a cell: a cell that uses the connection would be a step."""
    return notebook.names["db"].execute("select count(*) from sqlite_master").fetchone()[0]


def test_a_used_connection_is_named_with_the_cells_that_make_it(watched: Notebook) -> None:
    watched.run("path = ':memory:'", DATABASE)
    made = watched.count
    done = watched.run(TABLE, "%ckpt undo")
    assert f"db could not be kept and stays as it is now: cell [{made}] makes it." in notes(done)
    assert f"%ckpt checkout {done.arrived.manifest.id[:8]} --rerun runs that cell again" in notes(done)
    assert done.warns
    assert tables(watched) == 1


def test_rerun_makes_a_connection_as_it_was(watched: Notebook) -> None:
    done = watched.run("path = ':memory:'", DATABASE, "seen = 1", TABLE, "%ckpt undo --rerun")
    assert tables(watched) == 0
    assert watched.names["seen"] == 1
    assert DATABASE.partition(";")[0] in notes(done)
    assert not done.warns
    watched.run("%ckpt redo --rerun")
    assert tables(watched) == 1


def test_rerun_runs_only_what_is_needed_and_in_order(watched: Notebook) -> None:
    watched.run("path = ':memory:'", DATABASE)
    first = watched.count
    watched.run("other = 5", TABLE)
    second = watched.count
    point = watched.run("%ckpt history").points[0].id[:8]
    done = watched.run("del db; path = ''", f"%ckpt checkout {point} --rerun")
    assert [cell.number for cell in done.rerun.cells] == [first, second]
    assert tables(watched) == 1


def test_a_cell_runs_again_with_the_values_of_its_time(watched: Notebook) -> None:
    watched.run("start = 3", "numbers = (part for part in range(start))", "start = 100")
    assert watched.after("first = next(numbers)", "%ckpt undo --rerun")["start"] == 100
    assert list(watched.names["numbers"]) == [0, 1, 2]


def test_what_else_a_cell_binds_or_changes_is_put_back(watched: Notebook) -> None:
    watched.run("log = []; held = log", "log.append(len(log)); extra = 1; g = (part for part in [1, 2])")
    watched.run("extra = 2; log.append('later')", "random.seed(0); x = random.random()", "_ = next(g)")
    state = random_state(watched)
    watched.run("%ckpt undo --rerun")
    assert list(watched.names["g"]) == [1, 2]
    assert watched.names["log"] == [0, "later"]
    assert watched.names["held"] is watched.names["log"]
    assert watched.names["extra"] == 2
    assert random_state(watched) == state


def random_state(notebook: Notebook) -> Any:
    return notebook.run("random.getstate()")


def test_the_first_error_stops_and_leaves_the_point(watched: Notebook) -> None:
    Path("gone").write_text("text")
    watched.run("limit = [1]", "g = (part for part in [1])")
    watched.run("limit.append(len(limit)); file = open('gone', 'r+')")
    failing = watched.count
    watched.run("later = [file.read(1), next(g)]")
    Path("gone").unlink()
    file, g = watched.names["file"], watched.names["g"]
    done = watched.run("%ckpt undo --rerun")
    assert [cell.number for cell in done.rerun.cells] == [failing - 1, failing]
    assert "The last of these failed: FileNotFoundError" in notes(done)
    assert watched.names["limit"] == [1, 1]
    assert "later" not in watched.names
    assert (watched.names["file"], watched.names["g"]) == (file, g), "nothing is half made"
    assert done.warns
    assert watched.run("%ckpt redo").warns is False
    assert watched.names["later"] == ["t", 1]
    file.close()


def test_checkout_keeps_what_no_point_can_hold(watched: Notebook) -> None:
    """Nothing could bring it back later: it is named, with the command that gives it up."""
    watched.run("a = 1; h = 7", "%ckpt save first;")
    watched.run("g = (part for part in [1, 2]); h = (part for part in [3]); b = 2")
    g, h = watched.names["g"], watched.names["h"]
    done = watched.run("%ckpt checkout first")
    assert (watched.names["g"], watched.names["h"], "b" in watched.names) == (g, h, False)
    assert "g stays as it is: no point can hold it. del g gives it up." in notes(done)
    way = f"%ckpt restore {done.arrived.manifest.id[:8]} h"
    assert f"h stays as it is: no point can hold it. {way} gives it up." in notes(done)
    watched.run("c = 3", "%ckpt undo")
    assert (watched.names["g"], watched.names["h"], "c" in watched.names) == (g, h, False)
    watched.run("%ckpt redo")
    assert (watched.names["g"], watched.names["c"]) == (g, 3)
    watched.run("%ckpt undo 2")
    assert (watched.names["g"], watched.names["b"], "c" in watched.names) == (g, 2, False)
    assert watched.after("%ckpt redo")["g"] is g
    assert watched.after(way)["h"] == 7


def test_rerun_keeps_what_no_point_can_hold(watched: Notebook) -> None:
    watched.run("g = (part for part in [1, 2])", "%ckpt save first;")
    later = watched.after("later = (part for part in [3]); _ = next(g)")["later"]
    watched.run("%ckpt checkout first --rerun;")
    assert (list(watched.names["g"]), watched.names["later"]) == ([1, 2], later)


LOSSY = """
class Lossy:
    def __init__(self): self.parts = [1]
    def __reduce__(self): return (Lossy, ())
w = Lossy()
"""


def test_a_change_that_no_pickle_shows_is_a_step_and_named(watched: Notebook) -> None:
    watched.run(LOSSY)
    made = watched.count
    done = watched.run("x = 1", "w.parts.append(2)", "%ckpt undo")
    assert watched.names["x"] == 1, "undo took only the cell that changed the object"
    assert f"w could not be kept wholly and stays as it is now: cell [{made}] makes it." in notes(done)
    assert done.warns
    redone = watched.run("%ckpt redo")
    assert (watched.names["w"].parts, redone.warns) == ([1, 2], False)
    watched.run("%ckpt undo --rerun")
    assert (watched.names["w"].parts, watched.names["x"]) == ([1], 1)


def test_a_lossy_object_comes_and_goes_as_itself(watched: Notebook) -> None:
    w = watched.after(LOSSY + "w.parts.append(2)")["w"]
    assert "w" not in watched.after("%ckpt undo")
    done = watched.run("%ckpt redo")
    assert (watched.names["w"], done.warns) == (w, False)
    done = watched.run("y = 1", "%ckpt undo")
    assert (watched.names["w"], "y" in watched.names, done.warns) == (w, False, False)


def test_a_lossy_object_is_loaded_where_it_is_gone(watched: Notebook) -> None:
    watched.run(LOSSY + "w.parts.append(2)", "%ckpt save first;", "del w", "y = 1")
    done = watched.run("%ckpt checkout first")
    assert watched.names["w"].parts == [1]
    assert "w could not be kept wholly: cell" in notes(done)


def test_an_untouched_object_stays_and_is_not_mentioned(watched: Notebook) -> None:
    g = watched.after("g = (part for part in [1, 2])", "a = 1")["g"]
    done = watched.run("%ckpt undo --rerun")
    assert watched.names["g"] is g
    assert not done.warns
    assert done.rerun.cells == ()
    assert "g" not in watched.after("%ckpt undo")
    done = watched.run("%ckpt redo")
    assert watched.names["g"] is g
    assert not done.warns


def test_a_generator_that_a_cell_advanced_is_a_step(watched: Notebook) -> None:
    watched.run("g = (part for part in range(9))", "a = 1", "_ = next(g)", "%ckpt undo")
    assert watched.names["a"] == 1, "undo took only the cell that advanced the generator"
    assert "a" not in watched.after("%ckpt undo")


def test_another_unsavable_object_is_a_step(watched: Notebook) -> None:
    watched.run("g = (part for part in [1])", "g = (part for part in [2])")
    assert "g could not be kept" in notes(watched.run("%ckpt undo"))
    watched.run("%ckpt redo", "%ckpt undo --rerun")
    assert list(watched.names["g"]) == [1]


def test_a_held_lock_is_made_again(watched: Notebook) -> None:
    watched.run("lock = threading.Lock()", "_ = lock.acquire()", "lock.release(); a = 1")
    assert watched.after("%ckpt undo --rerun")["lock"].locked()
    assert "a" not in watched.names


def test_a_new_kernel_makes_it_again(watched: Notebook) -> None:
    point = watched.run("path = ':memory:'", DATABASE, TABLE, "%ckpt history").points[0].id[:8]
    watched.run("%ckpt auto off", "%unload_ext nbckpt", "del db, path", "%load_ext nbckpt")
    done = watched.run(f"%ckpt checkout {point}")
    assert "db could not be kept: cells" in notes(done)
    watched.run(f"%ckpt checkout {point} --rerun")
    assert tables(watched) == 1
    assert watched.names["path"] == ":memory:"


def test_what_was_there_before_auto_has_no_cell(notebook: Notebook) -> None:
    notebook.run("g = (part for part in [1, 2])", AUTO_ON, "a = 1", "_ = next(g)")
    done = notebook.run("%ckpt undo --rerun")
    assert "g could not be kept and stays as it is now: it is not known which cell made it" in notes(done)
    assert done.rerun.cells == ()


def test_a_cell_with_a_password_is_not_run(watched: Notebook) -> None:
    watched.run("url = 'https://me:secret@host/db'; g = (part for part in url)", "_ = next(g)")
    done = watched.run("%ckpt undo --rerun")
    assert "contains a password, which is not kept" in notes(done)
    assert done.rerun.cells == ()
    assert "secret" not in notes(done)


def test_objects_that_one_cell_makes_are_made_together(watched: Notebook) -> None:
    watched.run("g = (part for part in range(9)); pair = [g]", "_ = next(g)", "%ckpt undo --rerun")
    assert watched.names["pair"][0] is watched.names["g"]
    assert next(watched.names["g"]) == 0


def test_an_alias_is_made_after_its_object(watched: Notebook) -> None:
    watched.run("g = (part for part in range(9))", "h = g", "_ = next(h)", "%ckpt undo --rerun")
    assert watched.names["h"] is watched.names["g"]
    assert next(watched.names["g"]) == 0


def test_cells_beyond_the_budget_run_again_together(watched: Notebook) -> None:
    run_without_points(watched, "start = 7", "g = (start + part for part in range(3))")
    watched.run("a = 1", "_ = next(g)", "%ckpt undo --rerun")
    assert list(watched.names["g"]) == [7, 8, 9]


def test_undo_says_how_many_cells_it_took_back(watched: Notebook) -> None:
    run_without_points(watched, "a = 1", "b = 2")
    undone = str(watched.run("c = 3", "_u = %ckpt undo\n_u"))
    assert "2 cells without a point were undone too: %ckpt auto on --budget" in undone
    assert not {"a", "b", "c"} & watched.names.keys()


def run_without_points(watched: Notebook, *cells: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Spent, "allows", lambda *_: False)
        watched.run(*cells)


def test_a_cell_that_travels_is_refused_while_it_runs_again(watched: Notebook) -> None:
    watched.run("a = 1")
    Path("go").touch()
    Path("go").unlink()
    watched.run("if pathlib.Path('go').exists():\n    %ckpt undo\ng = (part for part in [1, 2])")
    watched.run("_ = next(g)")
    Path("go").touch()
    done = watched.run("%ckpt undo --rerun")
    assert "cannot go to another point" in done.rerun.error
    assert list(watched.names["g"]) == [2]
    assert watched.names["a"] == 1


def test_rerun_without_auto_is_refused(notebook: Notebook) -> None:
    assert "undo takes --rerun only while auto is on" in notebook.error("%ckpt undo --rerun")


def test_checkout_keeps_the_object_that_is_bound(watched: Notebook) -> None:
    """Former objects of the variable are kept for redo, and do not come in its place."""
    g = watched.after("a = 1", "%ckpt save first;", "g = (part for part in [1])")["g"]
    watched.run("g = (part for part in [2])")
    watched.run("%ckpt undo")  # g is a step, and its second object stays
    now = watched.after("%ckpt undo", "%ckpt redo 2")["g"]
    assert watched.after("%ckpt checkout first;")["g"] is now
    assert now is not g
