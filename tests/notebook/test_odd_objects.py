"""Objects with caches, orders and positions: what only reads them leaves no point, what changes them does."""

from __future__ import annotations

import pytest

from notebook.conftest import Notebook

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
"""


@pytest.mark.slow
def test_reading_is_no_change_and_a_change_is_undone(watched: Notebook, subtests: pytest.Subtests) -> None:
    for case, (setup, read, change, value) in ROWS.items():
        with subtests.test(case):
            expression = f"repr({value})"
            watched.run(setup, "%ckpt save kept")
            points = len(watched.run("%ckpt history").points)
            watched.run(read)
            assert len(watched.run("%ckpt history").points) == points
            compared = watched.run("%ckpt diff kept").compared
            assert {difference.change for difference in compared.differences} <= {"same"}
            before = watched.run(expression)
            after = watched.run(change, expression)
            assert after != before
            assert watched.run("%ckpt undo", expression) == before
            assert watched.run("%ckpt redo", expression) == after
            assert watched.run("%ckpt checkout kept", expression) == before


def test_an_open_file_is_not_saved_as_its_text(watched: Notebook) -> None:
    pathlib = watched.names["pathlib"]
    pathlib.Path("notes").write_text("abc")
    saved = watched.run("file = open('notes')", "%ckpt save kept")
    assert [skipped.reason for skipped in saved.saved.manifest.skipped] == ["an open file cannot be saved"]
    former = watched.after("first = file.read(1)")["file"]
    again = watched.after("%ckpt undo --rerun")["file"]
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
