"""Changes that no cell's code shows: a save finds and names them, and undo does not lose them."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from notebook.conftest import Notebook, notes

MODULE = """
import ctypes
kept, hooks = [], []
def keep(value): kept.append(value)
def append(): kept[0].append(1)
def put(): kept[0][0] = 9
def fire(): hooks[0](1)
def write(): ctypes.c_double.from_address(kept[0]).value = 9
"""
ARRAY = "array([9., 0.])"
WAYS = {
    "a module's global": ("y = [0]\nways.keep(y)", "ways.append()", "[0, 1]"),
    "a view that a module holds": ("y = np.zeros(2)\nways.keep(y[:1])", "ways.put()", ARRAY),
    "a callback": ("y = [0]\nways.hooks.append(y.append)", "ways.fire()", "[0, 1]"),
    "an address": ("y = np.zeros(2)\nways.keep(y.ctypes.data)", "ways.write()", ARRAY),
    "a class": ("class C:\n    parts = [0]\ny = C.parts\nways.keep(y)", "ways.append()", "[0, 1]"),
}
SETUP = "import ways_that_nobody_sees as ways; import numpy as np"


@pytest.fixture(autouse=True)
def ways(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("ways_that_nobody_sees")
    exec(MODULE, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_save_names_what_changed_unseen(way: str, watched: Notebook) -> None:
    setup, change, after = WAYS[way]
    watched.run(setup)
    before = repr(watched.names["y"])
    watched.run(f"{change}; z = 1")
    cell = watched.count
    saved = watched.run("%ckpt save kept")
    assert f"the automatic point of cell [{cell}] does not hold" in notes(saved)
    assert saved.warns
    assert "did not name" not in notes(watched.run("%ckpt save kept")), "the next point holds it"
    done = watched.run("%ckpt undo")
    assert (repr(watched.names["y"]), watched.names["z"]) == (before, 1)
    assert done.arrived.unseen == ()
    watched.run("%ckpt redo")
    assert repr(watched.names["y"]) == after
    watched.run("%ckpt undo 2")
    assert repr(watched.names["y"]) == before
    assert "z" not in watched.names


def test_undo_of_an_unseen_change_says_so_and_redo_has_it(watched: Notebook) -> None:
    done = watched.run("y = [0]; ways.keep(y)", "z = 1", "ways.append()", "%ckpt undo")
    assert "y had changed since the last point" in notes(done)
    assert watched.names["z"] == 1
    assert watched.after("%ckpt redo")["y"] == [0, 1]


def test_a_change_of_the_same_cell_is_not_reported(watched: Notebook) -> None:
    saved = watched.run("y = [0]; h = {'y': y}", "h['y'].append(1)\n%ckpt save kept")
    assert notes(saved) == ""


def test_code_that_can_touch_everything_is_not_reported(watched: Notebook) -> None:
    watched.run("y = [0]")
    assert notes(watched.run("exec('y.append(1)')\n%ckpt save kept")) == ""


def test_a_save_without_auto_reports_nothing(notebook: Notebook) -> None:
    notebook.run("y = [0]")
    notebook.names["y"].append(1)
    assert notes(notebook.run("%ckpt save kept")) == ""


def test_a_save_of_a_few_variables_reports_only_those(watched: Notebook) -> None:
    watched.run("y = [0]; z = [0]")
    watched.names["y"].append(1)
    watched.names["z"].append(1)
    assert "z changed" in notes(watched.run("%ckpt save kept z"))
    assert "y changed" in notes(watched.run("%ckpt save kept y"))


def test_a_save_keeps_the_cells_of_what_it_cannot_hold(watched: Notebook) -> None:
    watched.run("g = (part for part in [1, 2]); n = 0", "%ckpt save kept", "n = next(g)")
    done = watched.run("%ckpt checkout kept --rerun")
    assert [cell.source for cell in done.rerun.cells] == ["g = (part for part in [1, 2]); n = 0"]
    assert list(watched.names["g"]) == [1, 2]
