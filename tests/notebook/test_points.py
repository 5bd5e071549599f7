"""%ckpt auto in a real shell: a point after each cell, the ways between points, limits, and interrupts."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import ExecutionInfo
from IPython.display import display
from lines import at_line

from nbckpt.core.history import History
from nbckpt.errors import StoreError
from nbckpt.notebook import magic, points
from nbckpt.notebook.magic import CheckpointMagics
from nbckpt.timeline import auto, recorder
from nbckpt.timeline.retention import Limits
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker import Tracker
from notebook.conftest import AUTO_ON, Notebook

SETUP = "import numpy as np"


def test_a_failed_cell_can_be_undone(watched: Notebook) -> None:
    watched.run("a = [1]")
    watched.error("a.append(2); 1 / 0")
    assert watched.after("%ckpt undo")["a"] == [1]


def test_a_cell_that_only_steps_back_is_not_looked_at_again(
    watched: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.run("a = [1]; b = [2]", "a.append(2)")
    begun: list[object] = []
    begin = Timeline.begin
    monkeypatch.setattr(Timeline, "begin", lambda *given, **named: begun.append(begin(*given, **named)))
    assert (watched.after("%ckpt undo")["a"], len(begun)) == ([1], 0)
    assert (watched.after("%ckpt redo\nb.append(3)")["a"], len(begun)) == ([1, 2], 1)
    watched.run("%ckpt undo 2")
    assert (watched.names["a"], watched.names["b"], len(begun)) == ([1], [2], 1)


def test_undo_of_a_restore_steps_back(watched: Notebook) -> None:
    assert watched.after("a = [1]", "%ckpt save first", "a = [2]; b = 3", "%ckpt restore first")["a"] == [1]
    watched.run("%ckpt undo")
    assert (watched.names["a"], watched.names["b"]) == ([2], 3)


def test_undo_of_a_checkout_steps_back(watched: Notebook) -> None:
    watched.run("a = [1]", "%ckpt save first", "a = [2]; b = 3", "%ckpt checkout first", "%ckpt undo")
    assert (watched.names["a"], watched.names["b"]) == ([2], 3)
    watched.run("%ckpt redo")
    assert (watched.names["a"], "b" in watched.names) == ([1], False)
    watched.run("a = [4]", "%ckpt undo 2")
    assert (watched.names["a"], watched.names["b"]) == ([2], 3)
    watched.run("%ckpt redo 2", "%ckpt undo 3")
    assert (watched.names["a"], "b" in watched.names) == ([1], False)


@pytest.mark.slow
def test_undo_closes_the_figures_that_it_takes_away(watched: Notebook) -> None:
    pytest.importorskip("matplotlib").use("agg")
    watched.run("import matplotlib.pyplot as plt", "fig, ax = plt.subplots()", "ax.set_title('new')")
    for way, title in (("undo", ""), ("redo", "new"), ("undo", "")):
        watched.run(f"%ckpt {way}")
        assert watched.run("(len(plt.get_fignums()), plt.gcf() is fig, ax.get_title())") == (1, True, title)
    assert watched.run("%ckpt undo", "plt.get_fignums()") == []


def test_undo_of_a_removal_stays_an_act_on_the_store(watched: Notebook) -> None:
    assert watched.after("a = [1]", "%ckpt save first", "a = [2]", "%ckpt rm first", "%ckpt undo")["a"] == [2]
    assert watched.after("%ckpt show first", "%ckpt undo")["a"] == [1]


def test_undo_takes_back_cells_and_a_removal_in_their_order(watched: Notebook) -> None:
    watched.run("a = [1]", "%ckpt save first", "a = [2]", "%ckpt rm first", "a = [3]", "%ckpt undo")
    assert watched.names["a"] == [2]
    assert "no checkpoint 'first'" in watched.error("%ckpt show first")
    assert watched.after("%ckpt undo")["a"] == [2]
    assert watched.after("%ckpt show first", "%ckpt undo")["a"] == [1]


def test_points_are_hidden_from_ls_and_completion(watched: Notebook) -> None:
    assert watched.run("a = 1", "%ckpt save first", "%ckpt ls").total == 1
    assert watched.run("%ckpt ls --auto").total > 1
    points = watched.run("%ckpt history").points
    with provisionalcompleter():
        letters = {point.id[0] for point in points}
        lines = [f"%ckpt show {letter}" for letter in letters]
        offered = {
            entry.text for line in lines for entry in watched.shell.Completer.completions(line, len(line))
        }
    assert not {point.id[:8] for point in points} & offered


def test_a_point_in_a_new_kernel_can_be_restored(watched: Notebook) -> None:
    watched.run("a = [1]; h = {'a': a}")
    watched.run("%ckpt auto")  # waits for the point in the background
    names: dict[str, Any] = {}
    CheckpointMagics(watched.shell).tracker.restore("latest", names)
    assert names["h"]["a"] is names["a"]
    assert names["a"] == [1]


def test_off_makes_no_more_points_and_keeps_those_made(watched: Notebook) -> None:
    points = watched.run("a = 1", "%ckpt auto off", "%ckpt auto").points
    assert watched.run("a = 2", "%ckpt auto").points == points
    assert "only while auto is on" in watched.error("%ckpt undo 2")


def test_nothing_to_undo_says_so(watched: Notebook) -> None:
    assert "the first point that is kept" in watched.error("%ckpt undo")
    assert "nothing to redo" in watched.error("%ckpt redo")


REFUSED = {
    "auto on --budget 0%": "write it as in",
    "auto on --budget x": "write it as in",
    "auto on --max 3apples": "write it as in",
    "auto on --keep 0": "give a number",
    "undo 0": "give a number",
    "undo -1": "give a number",
    "history -n -1": "give a number",
}


def test_a_number_that_makes_no_sense_is_refused(watched: Notebook, subtests: pytest.Subtests) -> None:
    watched.run("a = 1")
    for words, said in REFUSED.items():
        with subtests.test(words):
            assert said in watched.error(f"%ckpt {words}")


def test_a_full_disk_is_said_and_the_cell_is_not_lost(watched: Notebook) -> None:
    watched.run("a = [1]")
    watched.run("%ckpt auto")  # waits for the point in the background
    full = patch.object(History, "publish", side_effect=StoreError("no space left on device"))
    with full:
        shown = watched.printed("a.append(2)", "b = 1", "c = 1", "%ckpt auto off")
    assert shown.stderr.count("there is no point of the cell before") == 1
    assert shown.stderr.count("no space left on device") == 1
    assert watched.after(AUTO_ON, "d = 1", "%ckpt undo 2")["a"] == [1]


@pytest.mark.slow
def test_a_used_up_budget_is_said_once(watched: Notebook) -> None:
    watched.run("%ckpt auto on --budget 0.0001%")
    shown = watched.printed(*(f"a = np.full(300_000, {at})" for at in range(60)))
    assert shown.stderr.count("fewer") <= 1
    assert watched.run("%ckpt auto").limits is not None


def test_a_point_is_shown_like_any_checkpoint(watched: Notebook) -> None:
    point = watched.run("a = [1]", "%ckpt history").points[0]
    display(watched.run(f"%ckpt show {point.id[:8]}"))
    assert watched.run(f"%ckpt diff {point.id[:8]}") is not None


def test_a_checkout_of_a_misspelt_name_changes_nothing(watched: Notebook) -> None:
    watched.run("a = [1]", "%ckpt save first")
    assert "Did you mean 'first'?" in watched.error("%ckpt checkout firtt")
    assert watched.names["a"] == [1]


def test_a_class_that_was_changed_in_place_is_set_back(watched: Notebook) -> None:
    kind = watched.after("class C:\n    v = 1\no = C()")["C"]
    assert watched.after("C.v = 2\nC.w = 3\nC.__len__ = lambda self: 4", "%ckpt undo")["C"] is kind
    assert (kind.v, hasattr(kind, "w"), hasattr(kind, "__len__")) == (1, False, False)
    assert isinstance(watched.names["o"], kind)
    watched.run("%ckpt redo")
    assert (kind.v, kind.w, len(watched.names["o"])) == (2, 3, 4)


def told_of(watched: Notebook) -> str:
    """Return the id in the line for a kernel that is empty."""
    line = watched.printed("%reset -f", "%reload_ext nbckpt").stdout
    assert "variables: %ckpt restore " in line
    return str(line.split()[-1])


@pytest.mark.slow
def test_an_empty_kernel_is_told_of_its_own_newest_state(
    watched: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = watched.run("a = 1; b = 2", "%ckpt history").points[0]
    watched.run("%ckpt save part a")
    assert watched.printed("%reload_ext nbckpt").stdout == "", "the kernel is not empty"
    newest = told_of(watched)
    assert point.id.startswith(newest)  # the save holds less
    watched.run(AUTO_ON, f"%ckpt restore {newest}")
    assert (watched.names["a"], watched.names["b"]) == (1, 2)
    saved = watched.run("%ckpt save everything")
    monkeypatch.setenv("JPY_SESSION_NAME", "/other.ipynb")
    watched.run("%reload_ext nbckpt", "%ckpt save of_another_notebook")
    monkeypatch.delenv("JPY_SESSION_NAME")
    assert saved.saved.manifest.id.startswith(told_of(watched))


def test_a_branch_hangs_at_the_checkpoint_that_it_goes_on_from(watched: Notebook) -> None:
    watched.run("a = 1", "%ckpt save first", "a = 2", "%ckpt checkout first")
    assert "redo" not in str(watched.run("%ckpt checkout first"))
    rows = str(watched.run("a = 3", "%ckpt history")).splitlines()
    branches = [row.split("  ")[0] for row in rows if row[:1] in set("●○│")]
    assert branches[:3] == ["●", "│ ○", "○ │"]
    assert any("first@1" in row for row in rows)


def test_a_save_after_a_checkout_hangs_at_the_checkpoint(watched: Notebook) -> None:
    first = watched.run("a = 1", "%ckpt save first").saved.manifest
    assert watched.run("a = 2", "%ckpt checkout first", "%ckpt save second").saved.manifest.parent == first.id


def test_history_shows_the_points_of_this_notebook(
    watched: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.run("a = 1")
    monkeypatch.setenv("JPY_SESSION_NAME", "/other.ipynb")
    watched.run("%reload_ext nbckpt")
    assert "points of other notebooks: %ckpt ls --auto" in str(watched.run("%ckpt history"))
    watched.run(AUTO_ON, "b = 1")
    assert all(point.notebook == "/other.ipynb" for point in watched.run("%ckpt history").points)


def test_history_names_how_many_older_points_there_are(notebook: Notebook) -> None:
    every = notebook.run(AUTO_ON, *(f"x = {number}" for number in range(5)), "%ckpt history -n 0").points
    shown = notebook.run("%ckpt history -n 2")
    assert shown.points == every[:2]
    assert str(shown).startswith(f"Points, the newest 2; {len(every) - 2} older in the store")
    assert "Show all: %ckpt history -n 0" in str(shown)


def test_what_a_cell_did_before_its_undo_is_the_cells(watched: Notebook) -> None:
    watched.run("x = 1", "x = 2", "%ckpt undo", "result = 5\n%ckpt undo")
    assert (watched.names["x"], "result" in watched.names) == (1, False)
    assert watched.after("%ckpt redo")["result"] == 5
    watched.run("%ckpt undo", "other = 6\ntry:\n    %ckpt undo 99\nexcept BaseException: pass")
    assert "there is nothing to redo" in watched.error("%ckpt redo")
    assert watched.names["other"] == 6


def test_points_after_a_partial_checkpoint_hold_generators(watched: Notebook) -> None:
    watched.run("import random\nrandom.seed(3)\na = 1", "%ckpt save part a random", "%ckpt checkout part")
    first = watched.run("b = 1", "c = random.random(); c")
    assert watched.run("%ckpt undo", "c = random.random(); c") == first
    assert "holds a part" not in str(watched.run("%ckpt diff latest"))
    assert watched.after("%ckpt undo 2", "%ckpt redo")["b"] == 1


def test_points_are_made_in_the_notebooks_own_store_only(
    notebook: Notebook, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "own"))
    notebook.run("x = 1")
    assert "own store only" in notebook.error(f"{AUTO_ON} --store {tmp_path / 'other'}")
    assert "auto is off" in str(notebook.run(f"%ckpt auto --store {tmp_path / 'other'}"))
    notebook.run(f"%env NBCKPT_STORE={tmp_path / 'other'}\n%reload_ext nbckpt", AUTO_ON, "x = 2")
    assert notebook.after("%ckpt undo")["x"] == 1


def test_a_point_with_a_name_is_a_checkpoint(notebook: Notebook) -> None:
    notebook.run(f"{AUTO_ON} --keep 2", *(f"x = {number}" for number in range(3)))
    named = notebook.run("%ckpt history").points[1]
    notebook.run(f"%ckpt tag {named.id} second", *(f"x = {number}" for number in range(3, 8)))
    points = notebook.run("%ckpt history").points
    assert len({point.id for point in points}) == len(points)
    assert "second@1" in [row.label for row in notebook.run("%ckpt ls").rows]
    assert notebook.after("%ckpt checkout second")["x"] == 1


def test_history_names_cells_that_failed_and_changed_nothing(watched: Notebook) -> None:
    watched.run("a = 1")
    watched.attempt("%ckpt show nothing")  # a command that failed, and not a cell
    assert watched.run("%ckpt history").page().notes == ()
    watched.attempt("{}['w']")
    watched.attempt("unknown")
    for _ in range(2):  # the command is a cell too, and changes nothing
        history = watched.run("%ckpt history")
        (note,) = history.page().notes
        assert note.startswith("Stopped since the present point, and changed nothing: [")
        assert note.endswith("] with NameError.")
        assert "] with KeyError, [" in note
    assert all(point.error == "" for point in history.points)
    assert watched.run("a = 2", "%ckpt history").page().notes == ()
    watched.attempt("a = 3\nunknown")
    assert watched.run("%ckpt undo", "%ckpt history").page().notes == ()


def test_a_cell_is_transformed_once_where_ipython_tells(watched: Notebook) -> None:
    seen: list[str] = []

    def note(lines: list[str]) -> list[str]:
        seen.extend(lines)
        return lines

    watched.shell.input_transformers_cleanup.append(note)
    watched.run("transformed = 1")
    assert seen == ["transformed = 1\n"] * (1 if hasattr(ExecutionInfo, "transformed_cell") else 2)
    assert "transformed" not in watched.after("%ckpt undo")


WRITTEN = {
    "": Limits(0.05, 200),
    "--budget 5%": Limits(0.05, 200),
    "--budget 0.5%": Limits(0.005, 200),
    "--keep 200": Limits(0.05, 200),
    "--keep 5": Limits(0.05, 5),
    "--max 2GB": Limits(0.05, None, 2 * 10**9),
    "--budget 150% --max '1.5 MB'": Limits(1.5, None, 1_500_000),
}


def test_limits_are_as_they_are_written(notebook: Notebook, subtests: pytest.Subtests) -> None:
    for words, limits in WRITTEN.items():
        with subtests.test(words):
            assert notebook.run(f"%ckpt auto on {words}").limits == limits


@pytest.mark.parametrize("keep", [5, 200, 0])
def test_keep_and_max_together_are_refused(notebook: Notebook, keep: int) -> None:
    error = notebook.error(f"%ckpt auto on --keep {keep} --max 2GB")
    assert error.startswith(f"UsageError: --keep {keep} and --max 2GB exclude each other: give one")
    assert notebook.run("%ckpt auto").limits is None


@pytest.fixture
def listed(watched: Notebook) -> Notebook:
    """The shell with a list, and with short errors."""
    watched.run("%xmode Minimal\na = []")
    return watched


def stop() -> None:
    raise KeyboardInterrupt


def auto_of(notebook: Notebook) -> auto.Auto:
    made: auto.Auto = notebook.magics.stores.points[None]
    return made


def undone_at_once(notebook: Notebook) -> list[list[int]]:
    """Return the list after an undo, and after a redo."""
    undone = [*notebook.after("%ckpt undo 1;")["a"]]  # a copy: redo changes the list
    notebook.run("%ckpt redo 1;")
    return [undone, notebook.names["a"]]


def undone_later(notebook: Notebook) -> list[list[int]]:
    """Return the same, where another cell ran in between. Both cells may be undone together."""
    notebook.run("other = 1")
    undone, redone = undone_at_once(notebook)
    return [redone[:-1] if undone == redone else undone, redone]


def found_after_the_end(notebook: Notebook) -> list[list[int]]:
    """Return the list without its last item, and the list, as the next kernel finds it."""
    made = auto_of(notebook)
    made.save_the_rest()
    names: dict[str, Any] = {}
    Tracker(made.timeline.history.store).restore("latest", names)
    return [names["a"][:-1], names["a"]]


SEEN = (undone_at_once, undone_later, found_after_the_end)
DROPPED = "no point of the cell before"


@pytest.mark.slow
def test_stop_at_any_line_loses_nothing(listed: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    """Where Stop drops the point of the cell before, that is said, and both cells are undone together."""
    run_cell, lost = listed.shell.run_cell, []
    for at in itertools.count(1):
        run_cell(f"a[:] = [{at}]; other = None")
        capsys.readouterr()
        with at_line(at, stop, magic, points, auto, recorder) as line, suppress(KeyboardInterrupt):
            run_cell("a.append(0)")
        undone, redone = SEEN[at % 3](listed)
        if redone != [at, 0] or (undone != [at] and DROPPED not in capsys.readouterr().err):
            lost.append(f"{line.where}: {undone}, {redone}")
        if not line.where:
            break
    assert at > 200
    assert lost == []


def test_what_follows_auto_on_in_its_cell_counts(notebook: Notebook) -> None:
    assert notebook.after("a = [1]", f"{AUTO_ON}\na.append(2)", "b = 1", "%ckpt undo;")["a"] == [1, 2]
    assert notebook.after("%ckpt undo;")["a"] == [1]


def test_an_empty_cell_in_a_cell_ends_nothing(listed: Notebook) -> None:
    listed.run("run = get_ipython().run_cell; a.append(1); run(' '); run('a.append(2)'); a.append(3)")
    assert listed.after("%ckpt undo;")["a"] == []


def test_a_cell_that_stop_ended_first_is_no_error(
    listed: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    """IPython then tells that a cell ended, of which it never told that it began."""
    capsys.readouterr()
    listed.shell.events.trigger("post_run_cell", None)
    assert capsys.readouterr() == ("", "")


def test_undo_takes_back_only_the_cell_whose_point_failed(listed: Notebook) -> None:
    listed.run("a.append(1)")
    auto_of(listed).wait()
    with patch.object(History, "publish", side_effect=StoreError("no space")):
        listed.run("a.append(2)")
        auto_of(listed).wait()
    assert listed.after("%ckpt undo;")["a"] == [1]
