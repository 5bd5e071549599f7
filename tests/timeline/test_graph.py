"""The graph that the laws compare: it sees each difference that a cell can make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from timeline.graph import graph

LONG = 1500

PAIRS = {
    "attribute of a class": ("class C:\n    size = 1", "class C:\n    size = 2"),
    "list of a class": ("class C:\n    parts = [1]", "class C:\n    parts = [2]"),
    "class shares": ("a = [1]\nclass C:\n    parts = a", "a = [1]\nclass C:\n    parts = [*a]"),
    "method": ("class C:\n    def f(self): return 1", "class C:\n    def f(self): return 2"),
    "class of an instance": ("class C:\n    n = 1\no = C()\ndel C", "class C:\n    n = 2\no = C()\ndel C"),
    "default": ("def f(part=1): pass", "def f(part=2): pass"),
    "default by name": ("def f(*, part=1): pass", "def f(*, part=2): pass"),
    "default shares": ("a = [1]\ndef f(part=a): pass", "a = [1]\ndef f(part=[1]): pass"),
    "cell of a closure": ("f = (lambda a: lambda: a)(1)", "f = (lambda a: lambda: a)(2)"),
    "variable of a function": ("def f(): a.append(1)", "def f(): b.append(1)"),
    "dtype": ("f = pd.DataFrame({'p': [1, 2]})", "f = pd.DataFrame({'p': [1, 2]}, dtype='int32')"),
    "dtype of a series": ("f = pd.Series([1, 2])", "f = pd.Series([1, 2], dtype='int32')"),
    "dtype of a long frame": (
        f"f = pd.DataFrame({{'p': range({LONG})}})",
        f"f = pd.DataFrame({{'p': range({LONG})}}, dtype='int32')",
    ),
    "column of a long frame": (
        f"f = pd.DataFrame({{'p': range({LONG})}})",
        f"f = pd.DataFrame({{'q': range({LONG})}})",
    ),
    "value in a long frame": (
        f"f = pd.DataFrame({{'p': np.zeros({LONG})}})",
        f"f = pd.DataFrame({{'p': np.zeros({LONG})}}); f.loc[1400, 'p'] = 1",
    ),
    "wide frame": (
        f"f = pd.DataFrame([[0] * {LONG}])",
        f"f = pd.DataFrame([[0] * {LONG}]); f.loc[0, 1400] = 1",
    ),
    "index": ("f = pd.DataFrame({'p': [1]})", "f = pd.DataFrame({'p': [1]}, index=[5])"),
    "object in a frame": ("f = pd.DataFrame({'p': [[1]]})", "f = pd.DataFrame({'p': [[2]]})"),
    "frame shares an object": (
        "a = [1]; f = pd.DataFrame({'p': [a]})",
        "a = [1]; f = pd.DataFrame({'p': [[1]]})",
    ),
    "frame shares memory": (
        "a = np.zeros((3, 2)); f = pd.DataFrame(a, copy=False)",
        "a = np.zeros((3, 2)); f = pd.DataFrame(a, copy=True)",
    ),
    "array shares the memory of a frame": (
        "f = pd.DataFrame(np.zeros((3, 2))); v = f[1].array._ndarray",
        "f = pd.DataFrame(np.zeros((3, 2))); v = f[1].array._ndarray.copy()",
    ),
    "another column": (
        "f = pd.DataFrame(np.zeros((3, 2))); v = f[0].array._ndarray",
        "f = pd.DataFrame(np.zeros((3, 2))); v = f[1].array._ndarray",
    ),
    "view": ("a = np.zeros(9); v = a[1:3]", "a = np.zeros(9); v = a[2:4]"),
    "number of NumPy": ("a = np.int64(1)", "a = np.int32(1)"),
    "type of a number": ("a = 1", "a = True"),
}


def made(source: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__", "np": np, "pd": pd}
    exec(source, namespace)
    return graph(namespace)


def test_a_difference_is_seen(subtests: pytest.Subtests) -> None:
    for case, (one, other) in PAIRS.items():
        with subtests.test(case):
            assert made(one) == made(one)
            assert made(one) != made(other)


def test_nan_is_no_difference() -> None:
    source = "a = float('nan'); b = np.array([a]); f = pd.DataFrame({'p': [a], 'q': [[a]]})"
    assert made(source) == made(source)
