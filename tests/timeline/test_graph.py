"""The graph that the laws compare: it sees each difference that a cell can make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from timeline.graph import graph

LONG = 1500

COLUMN = "f = pd.DataFrame(np.zeros((3, 2))); v = f[1].array._ndarray"
FRAME, WIDE = f"f = pd.DataFrame({{'p': np.zeros({LONG})}})", f"f = pd.DataFrame([[0] * {LONG}])"

DIFFERENCES = {
    "attribute of a class": ("class C:\n    size = §", "1", "2"),
    "list of a class": ("class C:\n    parts = [§]", "1", "2"),
    "class shares": ("a = [1]\nclass C:\n    parts = §", "a", "[*a]"),
    "method": ("class C:\n    def f(self): return §", "1", "2"),
    "class of an instance": ("class C:\n    n = §\no = C()\ndel C", "1", "2"),
    "default": ("def f(part=§): pass", "1", "2"),
    "default by name": ("def f(*, part=§): pass", "1", "2"),
    "default shares": ("a = [1]\ndef f(part=§): pass", "a", "[1]"),
    "cell of a closure": ("f = (lambda a: lambda: a)(§)", "1", "2"),
    "variable of a function": ("def f(): §.append(1)", "a", "b"),
    "dtype": ("f = pd.DataFrame({'p': [1, 2]}, dtype=§)", "None", "'int32'"),
    "dtype of a series": ("f = pd.Series([1, 2], dtype=§)", "None", "'int32'"),
    "dtype of a long frame": (f"{FRAME}.astype(§)", "'float64'", "'float32'"),
    "column of a long frame": (f"{FRAME}; f.columns = [§]", "'p'", "'q'"),
    "value in a long frame": (f"{FRAME}; f.loc[1400, 'p'] = §", "0", "1"),
    "wide frame": (f"{WIDE}; f.loc[0, 1400] = §", "0", "1"),
    "index": ("f = pd.DataFrame({'p': [1]}, index=§)", "None", "[5]"),
    "object in a frame": ("f = pd.DataFrame({'p': [[§]]})", "1", "2"),
    "frame shares an object": ("a = [1]; f = pd.DataFrame({'p': [§]})", "a", "[1]"),
    "frame shares memory": ("a = np.zeros((3, 2)); f = pd.DataFrame(a, copy=§)", "False", "True"),
    "array shares the memory of a frame": (f"{COLUMN}§", "", ".copy()"),
    "another column": ("f = pd.DataFrame(np.zeros((3, 2))); v = f[§].array._ndarray", "0", "1"),
    "view": ("a = np.zeros(9); v = a[§:§ + 2]", "1", "2"),
    "number of NumPy": ("a = np.§(1)", "int64", "int32"),
    "type of a number": ("a = §", "1", "True"),
}
"""Programs, and two texts for the place of §."""


def made(source: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__", "np": np, "pd": pd}
    exec(source, namespace)
    return graph(namespace)


def test_a_difference_is_seen(subtests: pytest.Subtests) -> None:
    for case, (source, *texts) in DIFFERENCES.items():
        with subtests.test(case):
            one, again, other = (made(source.replace("§", text)) for text in (texts[0], *texts))
            assert one == again
            assert one != other


def test_nan_is_no_difference() -> None:
    source = "a = float('nan'); b = np.array([a]); f = pd.DataFrame({'p': [a], 'q': [[a]]})"
    assert made(source) == made(source)
