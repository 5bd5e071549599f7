"""A kept cell leaves what the plain cell leaves: the same values, shared in the same way."""

from __future__ import annotations

import itertools
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attack import share
from notebook.conftest import Notebook, new_shell

SETUP = """
a = [{n}]
b = [a, a]
d = {{'k': a, 'n': {n}}}
n = {n}
def f():⏎    global n⏎    n += 1⏎    return n
def g(x): x.append(n)
class C:⏎    k = {n}⏎    def __init__(self): self.v = [{n}]⏎    def go(self): self.v.append(n); return self.v
import dataclasses⏎@dataclasses.dataclass⏎class P:⏎    v: list⏎    k: int = {n}
o, q, p = C(), C(), P(a, {n})
other = o
x = np.arange({n} + 5)
y = x[:3]
t = (a, o)
d['me'] = d
r = [[1], [2]]
u = r[0]
class D(C):⏎    def more(self): C.go(self); return self
w = D()
h = lambda: a
def made():⏎    z = [{n}]⏎    def more(): z.append(1); return z⏎    return more
more = made()
o.back = o
""".strip().split("\n")
BODY = """
a.append(5)
b = a
n = n + 1
f()
g(a)
o.go()
o = C()
p.k += 1
p.v = r
del b
x[0] = 9
y[1] = 7
z = [a, x]
d['new'] = a
a = []
if n > 1: b = 7
for i in range(n): a.append(i)
try: del d⏎except NameError: pass
try: later = missing⏎except NameError: later = 0
o.v = a
e = {'o': o, 'same': o}
def same(): return a
v = o.go()
r[0].append(3)
u = r[1]
w.more()
h().append(8)
v = more()
q.v = o.v
x = x + 1
x += 1
t = t + (r,)
class E(C): pass
C = D
C.k += 1
g = f
del u, r
while n < 4: n += 1
o.__class__ = D
""".strip().split("\n")

NUMBERS = itertools.count()


def graph(namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the user's variables, with a number for each object that can be shared."""
    numbers: dict[int, int] = {}

    def of(value: Any) -> Any:
        if isinstance(value, (int, float, str, type(None), types.ModuleType)):
            return repr(value)
        if value is object or value is type:
            return value.__name__
        if type(value) is tuple:
            return tuple(map(of, value))
        if id(value) in numbers:
            return "again", numbers[id(value)]
        number = numbers[id(value)] = len(numbers)
        return type(value).__name__, number, inside(value)

    def inside(value: Any) -> Any:
        if isinstance(value, list):
            return [*map(of, value)]
        if isinstance(value, dict):
            return [(key, of(item)) for key, item in value.items()]
        if isinstance(value, np.ndarray):
            return value.tolist()
        if isinstance(value, types.FunctionType):
            cells = [of(cell.cell_contents) for cell in value.__closure__ or ()]
            return value.__code__.co_code, value.__globals__ is namespace, cells
        if isinstance(value, type):
            return value.__name__, [*map(of, value.__bases__)], getattr(value, "k", None)
        return of(type(value)), of(vars(value))

    names = sorted(name for name in namespace if name[0] != "_" and name not in namespace["hidden"])
    values = {name: of(namespace[name]) for name in names}
    arrays = [name for name in names if isinstance(namespace[name], np.ndarray)]
    pairs = itertools.combinations(arrays, 2)
    return values | {"shared": [pair for pair in pairs if np.shares_memory(*map(namespace.get, pair))]}


def after(cells: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Run cells in a new kernel. Return what is there then, and the error of the last one."""
    with new_shell() as shell:
        notebook = Notebook(shell)
        notebook.run("%load_ext nbckpt\nimport numpy as np")
        shell.user_ns["hidden"] = {*shell.user_ns, "hidden"}
        *before, last = [cell.replace("⏎", "\n") for cell in cells]
        for cell in before:
            notebook.attempt(cell)
        error = notebook.attempt(last).error_in_exec
        return graph(shell.user_ns), type(error).__name__


@pytest.mark.slow
@pytest.mark.usefixtures("notebook")
@settings(max_examples=share.of(300, 30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sets(st.sampled_from(SETUP), max_size=4),
    st.integers(1, 3),
    st.lists(st.sampled_from(BODY), min_size=1, max_size=4, unique=True),
    st.sampled_from([*SETUP, *[""] * len(SETUP)]),
)
def test_a_kept_cell_leaves_what_the_plain_cell_leaves(
    without: set[str], number: int, body: list[str], later_without: str
) -> None:
    setup = [line.format(n=number) for line in SETUP if line not in without]
    other = [line.format(n=number) for line in SETUP if line not in {*without, later_without}]
    cell = "\n".join(body)
    kept = f"%%ckpt cell law{next(NUMBERS)}\n{cell}"  # the result of another example has other neighbours
    after([*setup, kept])
    assert after([*other, kept]) == after([*other, cell])
