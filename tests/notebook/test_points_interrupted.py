"""Stop, pressed while `%ckpt auto` notes a cell: nothing that the cell did is lost."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest
from lines import at_line

from nbckpt.core.history import History
from nbckpt.errors import StoreError
from nbckpt.notebook import magic, points
from nbckpt.timeline import auto, recorder
from nbckpt.tracker import Tracker
from notebook.conftest import AUTO_ON, Notebook

SETUP = "%xmode Minimal\na = []"


def stop() -> None:
    raise KeyboardInterrupt


def auto_of(notebook: Notebook) -> auto.Auto:
    made: auto.Auto = notebook.shell.magics_manager.registry["CheckpointMagics"].stores.points[None]
    return made


def undone_at_once(notebook: Notebook) -> list[list[int]]:
    """Return the list after an undo, and after a redo."""
    undone = notebook.after("%ckpt undo 1;")["a"]
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
def test_stop_at_any_line_loses_nothing(watched: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    """Where Stop drops the point of the cell before, that is said, and both cells are undone together."""
    run_cell, lost = watched.shell.run_cell, []
    for at in itertools.count(1):
        run_cell(f"a[:] = [{at}]; other = None")
        capsys.readouterr()
        with at_line(at, stop, magic, points, auto, recorder) as line, suppress(KeyboardInterrupt):
            run_cell("a.append(0)")
        undone, redone = SEEN[at % 3](watched)
        if redone != [at, 0] or (undone != [at] and DROPPED not in capsys.readouterr().err):
            lost.append(f"{line.where}: {undone}, {redone}")
        if not line.where:
            break
    assert at > 200
    assert lost == []


def test_what_follows_auto_on_in_its_cell_counts(notebook: Notebook) -> None:
    assert notebook.after("a = [1]", f"{AUTO_ON}\na.append(2)", "b = 1", "%ckpt undo;")["a"] == [1, 2]
    assert notebook.after("%ckpt undo;")["a"] == [1]


def test_an_empty_cell_in_a_cell_ends_nothing(watched: Notebook) -> None:
    watched.run("run = get_ipython().run_cell; a.append(1); run(' '); run('a.append(2)'); a.append(3)")
    assert watched.after("%ckpt undo;")["a"] == []


def test_a_cell_that_stop_ended_first_is_no_error(
    watched: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    """IPython then tells that a cell ended, of which it never told that it began."""
    capsys.readouterr()
    watched.shell.events.trigger("post_run_cell", None)
    assert capsys.readouterr() == ("", "")


def test_undo_takes_back_only_the_cell_whose_point_failed(watched: Notebook) -> None:
    watched.run("a.append(1)")
    auto_of(watched).wait()
    with patch.object(History, "publish", side_effect=StoreError("no space")):
        watched.run("a.append(2)")
        auto_of(watched).wait()
    assert watched.after("%ckpt undo;")["a"] == [1]
