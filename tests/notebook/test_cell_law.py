"""A kept cell leaves what the plain cell leaves: the same values, shared in the same way."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from timeline.graph import graph

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


def after(cells: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Run cells in a new kernel. Return what is there then, and the error of the last one."""
    with new_shell() as shell:
        notebook = Notebook(shell)
        notebook.run("%load_ext nbckpt\nimport numpy as np")
        hidden = {*shell.user_ns}
        *before, last = [cell.replace("⏎", "\n") for cell in cells]
        for cell in before:
            notebook.attempt(cell)
        error = notebook.attempt(last).error_in_exec
        names = [name for name in shell.user_ns if name[0] != "_" and name not in hidden]
        return graph({name: shell.user_ns[name] for name in names}, shell.user_ns), type(error).__name__


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
