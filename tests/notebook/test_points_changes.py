"""Which changes leave a point: those of objects with caches and orders, and those that no code shows."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from notebook.conftest import Notebook, notes

ROWS = {
    "set": ("s = {'a', 'b', 'c'}", "s.add('z'); s.discard('z'); sorted(s)", "s.add('q')", "sorted(s)"),
    "order of a dict": ("d = {'a': 1, 'b': 2}", "list(d)", "d['a'] = d.pop('a')", "list(d)"),
    "ordered dict": ("d = collections.OrderedDict(a=1, b=2)", "d['a']", "d.move_to_end('a')", "list(d)"),
    "regular expression": ("r = re.compile('a+b')", "r.match('aab')", "r = re.compile('c')", "r.pattern"),
    "index of a frame": (
        "f = pd.DataFrame({'x': np.arange(50.)}, index=[f'k{i}' for i in range(50)])",
        "f.loc['k3']; f.index.get_loc('k4'); f.index.is_unique; f.sort_index(); f.describe()",
        *("f.loc['k0', 'x'] = 9", "float(f.loc['k0', 'x'])"),
    ),
    "dates": (
        "f = pd.DataFrame({'x': np.arange(4.)}, index=pd.date_range('2020', periods=4))",
        "f.loc['2020-01-02']; f.index.values; f.resample('D').mean()",
        *("f.iloc[0, 0] = 9", "float(f.iloc[0, 0])"),
    ),
    "durations": (
        *("t = pd.Series(pd.to_timedelta(['1s', '2s']))", "t.dt.total_seconds(); t.sum()"),
        *("t.iloc[0] = pd.Timedelta('9s')", "t.dt.total_seconds().tolist()"),
    ),
    "protocol": (
        "import typing\n@typing.runtime_checkable\nclass P(typing.Protocol):\n    def go(self): ...",
        *("isinstance(3, P); P.__annotations__", "P.size = 2", "getattr(P, 'size', 0)"),
    ),
    "abstract class": (
        "import abc\nclass A(abc.ABC): pass\nclass B(A): pass\nb = B()",
        *("isinstance(b, A); issubclass(int, A)", "b.x = 1", "getattr(b, 'x', 0)"),
    ),
    "cache": ("@functools.lru_cache\ndef f(x): return x * 2", "f(3)", "def f(x): return x * 3", "f(3)"),
    "generator of NumPy": (
        *("g = np.random.default_rng(0)", "g.bit_generator.state"),
        *("g.random()", "g.bit_generator.state['state']['state']"),
    ),
    "generator of random": ("r = random.Random(1)", "r.getstate()", "r.random()", "hash(r.getstate())"),
    "counter": ("c = itertools.count()", "repr(c)", "next(c)", "repr(c)"),
    "iterator of a dict": ("d = {'a': 1, 'b': 2}; c = iter(d)", "repr(c)", "next(c)", "list(copy.copy(c))"),
    "iterator of a range": ("c = iter(range(5))", "repr(c)", "next(c)", "list(copy.copy(c))"),
    "reversed": ("c = reversed([1, 2])", "repr(c)", "next(c)", "list(copy.copy(c))"),
    "position in a buffer": ("b = io.BytesIO(b'abc')", "b.getvalue()", "b.read(1)", "b.tell()"),
    "deque": ("q = collections.deque([1, 2, 3], 5)", "q[0]", "q.rotate(1)", "list(q)"),
    "default dict": ("d = collections.defaultdict(list)", "len(d)", "d['x'].append(1)", "dict(d)"),
    "flag": ("a = np.arange(9.)", "a.sum(); memoryview(a)", "a.flags.writeable = False", "a.flags.writeable"),
    "path": ("p = pathlib.Path('a') / 'b'", "p.name; hash(p); p.parts", "p = p / 'c'", "p.as_posix()"),
}
"""A value, a cell that only reads it, a cell that changes it, and what the change shows in."""


SETUP = """
import collections, copy, functools, io, itertools, pathlib, random, re
import numpy as np
import pandas as pd
import ways_that_nobody_sees as ways
"""


@pytest.mark.slow
def test_reading_is_no_change_and_a_change_is_undone(watched: Notebook, subtests: pytest.Subtests) -> None:
    for case, (setup, read, change, value) in ROWS.items():
        with subtests.test(case):
            expression = f"repr({value})"
            points = len(watched.run(setup, "%ckpt save kept", "%ckpt history").points)
            assert len(watched.run(read, "%ckpt history").points) == points
            compared = watched.run("%ckpt diff kept").compared
            assert {difference.change for difference in compared.differences} <= {"same"}
            before = watched.run(expression)
            after = watched.run(change, expression)
            assert after != before
            assert watched.run("%ckpt undo", expression) == before
            assert watched.run("%ckpt redo", expression) == after
            assert watched.run("%ckpt checkout kept", expression) == before


def test_an_undo_sets_back_the_position_of_a_file(watched: Notebook) -> None:
    pathlib = watched.names["pathlib"]
    pathlib.Path("notes").write_text("abc")
    watched.run("file = open('notes')")
    former = watched.after("first = file.read(1)")["file"]
    again = watched.after("%ckpt undo")["file"]
    assert (former.tell(), again.tell()) == (1, 0)
    former.close()
    again.close()


UNWILLING = {
    "a proxy out of its context": "class Proxy:\n"
    "    def __getattribute__(self, name): raise RuntimeError('no context')\nv = Proxy()",
    "says that it is a dict": "from unittest import mock\nv = mock.Mock(spec=dict)",
    "a class that cannot be hashed": (
        "class Kind(type):\n    def __eq__(self, other): return self is other\n"
        "class Own(metaclass=Kind): pass\nv = Own()"
    ),
    "a class of no module": "v = type('Own', (), {'__module__': None, '__reduce__': None})()",
}


@pytest.mark.slow
@pytest.mark.parametrize("case", UNWILLING)
def test_a_value_whose_own_code_fails_stops_nothing_else(case: str, watched: Notebook) -> None:
    pytest.importorskip("matplotlib.figure")
    watched.run("x = 1", UNWILLING[case])
    assert "v" in [skipped.name for skipped in watched.run("%ckpt save odd").saved.manifest.skipped]
    assert watched.after("x = 2; w = [v]", "%ckpt diff odd", "%ckpt restore odd")["x"] == 1
    assert "y" not in watched.after("%%ckpt cell own\ny = [x, v]", "%ckpt undo")
    assert watched.after("%ckpt undo")["x"] == 2


def test_a_key_that_is_not_a_name_is_no_variable(watched: Notebook) -> None:
    watched.run("globals()[1] = globals()[None] = [2]\nx = 1", "%reload_ext nbckpt")
    assert {value.name for value in watched.run("%ckpt save kept").saved.manifest.values} >= {"x", "np"}
    watched.run("x = 2", "%ckpt restore kept")
    assert (watched.names["x"], watched.names[1]) == (1, [2])
    watched.run("%%ckpt cell own\ny = [x]", "%unload_ext nbckpt\n%load_ext nbckpt")


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


@pytest.fixture(autouse=True)
def ways(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("ways_that_nobody_sees")
    # nbckpt reads the functions of the user's own modules, so this one counts as installed.
    module.__file__ = "site-packages/ways_that_nobody_sees.py"
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
    assert notes(watched.run("y = [0]", "exec('y.append(1)')\n%ckpt save kept")) == ""


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
