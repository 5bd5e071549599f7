"""What must be right about a notebook's variables: rows of setup, change and expression.

Run as a program with a folder, this is a kernel: with `save` it runs every row, saves before and after
the change, and restores both in the same process; with `load` it restores both in another one. It
prints what the expression gave each time.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

IMPORTS = """
import copy, random, threading
import matplotlib
matplotlib.use("agg")
import numpy as np
import pandas as pd
"""


@dataclass(frozen=True)
class Row:
    """Setup, save, change, save: then each restore gives the expression its value of that time.

    Attributes:
        warning: For values that cannot be kept: a word of the warning at the save. Nothing else is tested.
    """

    case: str
    setup: str
    change: str
    expression: str
    warning: str = ""


ROWS = [
    Row("ndarray in place", "a = np.zeros(1000)", "a[0] = 9", "float(a[0])"),
    Row("write through a view", "a = np.zeros(1000); v = a[:10]", "v[0] = 9", "(float(a[0]), float(v[0]))"),
    Row(
        "view still shares memory",
        "a = np.zeros(1000); v = a[:10]; q = 0",
        "a[0] = 9",
        "(bool(np.shares_memory(a, v)), float(v[0]))",
    ),
    Row("list alias in a dict", "l = [1]; h = {'l': l}", "h['l'].append(2)", "(l, h['l'] is l)"),
    Row("global read-modify-write", "c = 0\ndef f():\n    global c\n    c += 1", "f()", "c"),
    Row("global only stored", "c = 0\ndef f():\n    global c\n    c = 5", "f()", "c"),
    Row("globals()[name] = value", "c = 0", "globals()['c'] = 7", "c"),
    Row("exec of code", "c = [0]", "exec('c[0] = 7')", "c"),
    Row(
        "instance by its method",
        "class C:\n    def __init__(s): s.n = 0\n    def go(s): s.n += 1\no = C()",
        "o.go()",
        "(o.n, type(o) is C)",
    ),
    Row("list in place", "l = [1, 2, 3]", "l.sort(reverse=True)", "l"),
    Row("nested dict of lists", "d = {'k': [[1]]}", "d['k'][0].append(2)", "d"),
    Row("set", "s = {1}", "s.add(2)", "sorted(s)"),
    Row(
        "DataFrame .loc in place",
        "df = pd.DataFrame({'x': np.zeros(100), 's': ['a'] * 100})",
        "df.loc[0, 'x'] = 9",
        "(float(df.loc[0, 'x']), df.s[3])",
    ),
    Row("DataFrame new column", "df = pd.DataFrame({'x': np.zeros(100)})", "df['y'] = 1", "list(df.columns)"),
    Row("Series in place", "s = pd.Series(np.zeros(100))", "s.iloc[0] = 9", "float(s.iloc[0])"),
    Row(
        "sklearn model refit",
        "from sklearn.linear_model import LinearRegression as LR; X = np.arange(20.).reshape(10, 2); "
        "m = LR().fit(X, X[:, 0])",
        "m.fit(X, X[:, 0] * 3 + 1)",
        "[round(float(x), 6) for x in m.coef_] + [round(float(m.intercept_), 6)]",
    ),
    Row("iterator advanced", "it = iter([1, 2, 3, 4])", "next(it)", "list(copy.copy(it))"),
    Row(
        "generator advanced",
        "g = (i for i in range(10)); _ = next(g)",
        "_ = next(g)",
        "g.gi_frame.f_locals['i']",
        warning="generator",
    ),
    Row("numpy's random state", "np.random.seed(0)", "np.random.rand()", "int(np.random.get_state()[2])"),
    Row("random's state", "random.seed(0)", "random.random()", "random.getstate()[1][-1]"),
    Row(
        "pyplot's state machine",
        "import matplotlib.pyplot as plt; plt.close('all'); fig, ax = plt.subplots()",
        "plt.title('new')",
        "ax.get_title()",
    ),
    Row(
        "fig and ax stay linked",
        "import matplotlib.pyplot as plt; plt.close('all'); fig, ax = plt.subplots()",
        "ax.set_title('new')",
        "(fig.axes[0] is ax, fig.axes[0].get_title())",
    ),
    Row(
        "changed by a background thread",
        "buf = []; ev = threading.Event(); "
        "t = threading.Thread(target=lambda b=buf: (ev.wait(5), b.append(1)), daemon=True); t.start()",
        "ev.set(); t.join()",
        "len(buf)",
    ),
    Row("function redefined", "def f(): return 1", "def f(): return 2", "f()"),
    Row("lock beside other variables", "lk = threading.Lock(); x = 1", "x = 2", "(x, type(lk).__name__)"),
    Row(
        "pickling that loses data",
        "class W:\n    def __init__(s): s.v = [1]\n    def __reduce__(s): return (W, ())\nw = W()",
        "w.v.append(2)",
        "w.v",
        warning="W",
    ),
    Row("deleted name", "x = 1; y = 2", "del x", "'x' in globals()"),
    Row(
        "module setting",
        "np.set_printoptions(precision=8)",
        "np.set_printoptions(precision=3)",
        "np.get_printoptions()['precision']",
    ),
    # Beyond the table.
    Row("two names, one object", "a = []; b = a; s = t = 'x' * 50", "b.append(1)", "(a, a is b, s is t)"),
    Row(
        "names given to one function",
        "def f(): return 1\ng = f",
        "f.tag = 5",
        "(f is g, getattr(g, 'tag', None))",
    ),
    Row(
        "overlapping views without their base",
        "base = np.arange(100.); a, b = base[0:60], base[40:100]; del base",
        "a[50] = -1",
        "(b.ctypes.data - a.ctypes.data, float(b[10]))",
    ),
    Row(
        "strided view",
        "m = np.arange(12.).reshape(3, 4); c = m[:, 1]",
        "c[2] = -1",
        "(float(m[2, 1]), c.strides)",
    ),
    Row(
        "reversed view",
        "a = np.arange(5.); r = a[::-1]",
        "a[0] = 7",
        "(float(r[4]), bool(np.shares_memory(a, r)))",
    ),
    Row(
        "view inside a container",
        "h = {'a': np.zeros(50)}; h['v'] = h['a'][5:]",
        "h['v'][0] = 3",
        "float(h['a'][5])",
    ),
    Row(
        "read-only array",
        "a = np.arange(3); a.flags.writeable = False",
        "a = a + 1",
        "(a.tolist(), a.flags.writeable)",
    ),
    Row(
        "function reads the live namespace",
        "n = 1\ndef f(): return n",
        "n = 2",
        "(f(), f.__globals__ is globals())",
    ),
    Row(
        "closure with shared cell",
        "def counter():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n"
        "    def now(): return n\n    return up, now\nup, now = counter()\npair = [up, now]",
        "pair[0]()",
        "pair[1]()",
    ),
    Row("recursive function", "def f(n): return 1 if n < 2 else n * f(n - 1)", "pass", "f(5)"),
    Row(
        "recursive closure",
        "def make():\n    def f(n): return 1 if n < 2 else n * f(n - 1)\n    return f\nf = make()",
        "pass",
        "f(5)",
    ),
    Row(
        "lambda with default",
        "k = [1]; f = lambda x, k=k: (x, k)",
        "k.append(2)",
        "(f(0), f.__defaults__[0] is k)",
    ),
    Row(
        "class redefined",
        "class C:\n    tag = 1\no = C()",
        "class C:\n    tag = 2\np = C()",
        "(C.tag, o.tag, type(o) is C)",
    ),
    Row(
        "inheritance and super",
        "class A:\n    def hi(s): return 'A'\nclass B(A):\n    def hi(s): return super().hi() + 'B'\no = B()",
        "o.x = 1",
        "(o.hi(), isinstance(o, A), hasattr(o, 'x'))",
    ),
    Row("object that holds itself", "l = [1]; l.append(l)", "l.append(2)", "(len(l), l[1] is l)"),
    Row(
        "object arrays of strings",
        "s = np.array([f's{i}' for i in range(3000)], object)",
        "s[5] = None",
        "s[4:7].tolist()",
    ),
    Row(
        "strings with holes and zeros",
        "s = pd.Series([f's{i}' for i in range(3000)], dtype=object)",
        "s[7] = 'a\\0b'; s[8] = float('nan')",
        "[str(x) for x in s[6:9]]",
    ),
    Row(
        "datetimes",
        "d = pd.date_range('2024-01-01', periods=3).to_series()",
        "d.iloc[0] = pd.NaT",
        "[str(x) for x in d]",
    ),
    Row(
        "categories", "c = pd.Series(['a', 'b'] * 50, dtype='category')", "c[0] = 'b'", "(c[0], str(c.dtype))"
    ),
    Row(
        "random generator object",
        "rng = np.random.default_rng(1)",
        "rng.random()",
        "copy.deepcopy(rng).random()",
    ),
    Row("module alias", "import numpy as npx", "import math as npx", "npx.__name__"),
    Row(
        "lock inside an object",
        "class S:\n    def __init__(s): s.lock = threading.RLock(); s.n = 0\no = S()",
        "o.n = 1",
        "(o.n, o.lock.acquire(blocking=False), o.lock.release())",
    ),
    Row(
        "memoryview of an array",
        "a = np.zeros(3); mv = memoryview(a)",
        "a[1] = 9",
        "(mv.tolist(), mv.format)",
    ),
    Row("held lock", "lk = threading.Lock(); _ = lk.acquire()", "pass", "1", warning="lk: _thread.lock"),
]


def answer(row: Row, namespace: dict[str, Any]) -> str:
    """Return what the row's expression gives, as text."""
    return repr(eval(row.expression, namespace))


def fresh() -> dict[str, Any]:
    """Return a namespace as a new kernel has it."""
    return {"__name__": "__main__", "__builtins__": __builtins__}


def save(folder: Path) -> dict[str, Any]:
    """Run every row and save twice, then restore both here."""
    from nbckpt import Tracker

    answers = {}
    for at, row in enumerate(ROWS):
        namespace = fresh()
        exec(IMPORTS + row.setup, namespace)
        with Tracker(folder / str(at)) as tracker:
            warnings = []
            for name, code in (("before", "pass"), ("after", row.change)):
                exec(code, namespace)
                saved = tracker.save(namespace, name)
                answers[f"{row.case}/{name}"] = answer(row, namespace)
                warnings += [f"{skipped.name} {skipped.path}" for skipped in saved.manifest.skipped] + list(
                    saved.manifest.warnings
                )
            answers[f"{row.case}/warnings"] = " | ".join(warnings)
            for name in ("before", "after"):
                answers[f"{row.case}/{name}/live"] = restored(row, tracker, name, namespace)
    return answers


def load(folder: Path) -> dict[str, Any]:
    """Restore every row's two checkpoints in a process that never ran them."""
    from nbckpt import Tracker

    answers = {}
    for at, row in enumerate(ROWS):
        for name in ("before", "after"):
            with Tracker(folder / str(at)) as tracker:
                answers[f"{row.case}/{name}/new"] = restored(row, tracker, name, fresh())
    return answers


def restored(row: Row, tracker: Any, name: str, namespace: dict[str, Any]) -> str:
    """Return what the expression gives after a restore."""
    result = tracker.restore(name, namespace)
    try:
        return answer(row, namespace) if not result.failed else f"failed: {result.failed}"
    except Exception as error:
        return f"raised {error!r}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({"save": save, "load": load}[sys.argv[1]](Path(sys.argv[2]))))
