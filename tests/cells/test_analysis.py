"""Every variable that a cell changes is among those that the analysis of its code names."""

from __future__ import annotations

import contextlib
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from nbckpt.cells.analysis import Touched, touched

ROWS = [row.split(" | ") for row in (Path(__file__).parent / "ways.txt").read_text("utf-8").splitlines()[1:]]


@pytest.fixture(autouse=True)
def notebook(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The namespace of a notebook: that of a module, as in a kernel."""
    monkeypatch.setitem(sys.modules, "notebook", None)
    return new_notebook()


def new_notebook(setup: str = "") -> dict[str, Any]:
    """Return the namespace of a new notebook that ran a cell."""
    module = sys.modules["notebook"] = types.ModuleType("notebook")
    run(f"idle = [0]⏎{setup}", vars(module))
    return vars(module)


def run(cell: str, namespace: dict[str, Any]) -> None:
    """Run a cell. ⏎ is a line break."""
    exec(cell.replace("⏎", "\n"), namespace)


def around(cell: str, namespace: dict[str, Any]) -> Touched:
    """Run a cell, and return what the analysis says before it and after it."""
    source = cell.replace("⏎", "\n")
    before = touched(source, namespace)
    exec(source, namespace)
    return before | touched(source, namespace)


def test_each_way_to_touch_a_variable_is_seen(subtests: pytest.Subtests) -> None:
    for setup, cell, changed in ROWS:
        with subtests.test(setup=setup, cell=cell):
            notebook = new_notebook(setup)
            before = dict(notebook)
            answer = around(cell, notebook)
            if changed == "*":
                assert answer.everything
                continue
            assert answer.everything is None
            assert {*changed.split()} <= answer.names
            assert "idle" not in answer.names
            visible = {name for name in {*before, *notebook} if not name.startswith("__")}
            assert {name for name in visible if before.get(name) is not notebook.get(name)} <= answer.names


def test_the_table_has_many_ways() -> None:
    assert len(ROWS) >= 60


# Magics, and cells that are not plain Python.


MAGICS = [
    ("%time x = f(y)", {"x", "y", "f", "c"}),
    ("%timeit -n 3 -r 1 f(y)", {"y", "f", "c"}),
    ("%%time\nx = f(y)\n", {"x", "y", "f", "c"}),
    ("%%timeit -n 3 z = 1\nf(z)\n", {"z", "f", "c"}),
    ("%%capture out\nx = f(y)\n", {"x", "y", "f", "c", "out"}),
    ("%%time\n%time x = y\n", {"x", "y"}),
    ("%matplotlib inline\nx = y", {"x", "y"}),
    ("%ckpt save all\nx = 1", {"x"}),
    ("%%ckpt save all\nf(y)\n", {"y", "f", "c"}),
    ("%%ckpt cell name --pin numpy\nf(y)\n", {"y", "f", "c"}),
    ("!ls -l\nx = 1", {"x"}),
    ("files = !ls", {"files"}),
    ("%%bash\necho $x\n", set()),
    ("x?", set()),
    ("await f(y)", {"f", "y", "c"}),
    ("x = [z async for z in f(y)]", {"x", "y", "f", "c"}),
    ("x: int = y", {"x", "y"}),
    ("pass", set()),
    ("", set()),
]
UNKNOWN = [
    "%run other.py",
    "%load other.py",
    "%unknown",
    "%%unknown\nx = 1",
    "%cd {x}",
    "!echo {f(1)}",
    "!echo $x",
    "%%timeit\n%run other.py",
    "%config InteractiveShell.autocall = (f(), 0)[1]",
    "%ckpt restore all",
    "%ckpt undo",
    "get_ipython().user_ns['x'] = 1",
    "ip = get_ipython()",
    "x = (",
]


def test_a_known_magic_touches_what_its_code_names(subtests: pytest.Subtests) -> None:
    transform = TransformerManager().transform_cell
    for cell, names in MAGICS:
        with subtests.test(cell):
            notebook = new_notebook("x = y = 1⏎z = 2⏎c = [0]⏎def f(y): c.append(y)")
            answer = touched(transform(cell), notebook, transform=transform)
            assert (answer.names, answer.everything) == (names, None)


def test_an_unknown_magic_can_touch_everything(notebook: dict[str, Any], subtests: pytest.Subtests) -> None:
    transform = TransformerManager().transform_cell
    for cell in UNKNOWN:
        with subtests.test(cell):
            assert touched(transform(cell), notebook, transform=transform).everything


def test_a_cell_that_is_kept_is_read_as_a_plain_one() -> None:
    notebook = new_notebook("c = [0]⏎def f(): c.append(1)⏎y = 1")
    source = "get_ipython().run_cell_magic('ckpt', 'cell name', None)\nx = y\n"
    answer = touched(source, notebook)
    assert (answer.names, answer.everything) == ({*"xy"}, None)


def test_a_magic_that_was_not_turned_into_python_is_unknown(notebook: dict[str, Any]) -> None:
    assert touched("%time x = 1", notebook).everything
    assert touched(f"x = {'(' * 500}", notebook).everything


def test_an_unpickled_object_is_seen_after_the_cell(notebook: dict[str, Any]) -> None:
    run("x = [1]⏎class C:⏎    def go(self): x.append(1)", notebook)
    notebook["data"] = pickle.dumps(notebook["C"]())
    answer = around("import pickle⏎o = pickle.loads(data)⏎o.go()", notebook)
    assert {"x", "o"} <= answer.names
    assert answer.everything is None


def test_a_function_that_the_cell_deletes_is_seen_before_it(notebook: dict[str, Any]) -> None:
    run("x = [1]⏎def f(): x.append(1)", notebook)
    assert {"x", "f"} <= around("f()⏎del f", notebook).names


def test_a_library_class_that_was_extended_is_seen(notebook: dict[str, Any]) -> None:
    run("import decimal⏎x = [1]⏎class D(decimal.Decimal): pass⏎o = D()⏎del D", notebook)
    run("type(o).go = lambda self: x.append(1)", notebook)
    assert "x" in around("o.go()", notebook).names


@pytest.fixture
def drawing(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with an open figure, with a frame and with functions of its own."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("pandas")
    pyplot.switch_backend("agg")
    notebook["fig"], notebook["ax"] = pyplot.subplots()
    run(
        "import json, numpy as np, pandas, pickle⏎frame = pandas.DataFrame({'a': [1]})⏎array = np.ones(9)⏎"
        "rng = np.random.default_rng(1)⏎class P:⏎    def go(self): return np.mean(array)⏎p = P()⏎"
        "def draw():⏎    from matplotlib import pyplot⏎    pyplot.title('x')⏎"
        "def call(function): function()⏎data = b''",
        notebook,
    )
    return notebook


MAY_DRAW = [
    *("unknown.plot()", "frame.plot()", "draw()", "call(draw)", "import seaborn", "x = frame + 1"),
    *("pickle.loads(data).go()", "np.load(data).item().go()", "from matplotlib.pyplot import plot"),
    *("import matplotlib.pyplot as plt⏎plt.plot(array)", "json.loads('1', object_hook=draw)"),
]
CANNOT_DRAW = [
    *("array[3] = 1", "x = array.mean() + np.std(array)", "p.go()", "y = [rng.random() for _ in array]"),
    *("class Q(P): pass", "import math⏎z = math.sqrt(2)", "print(json.dumps([1]))", "call(lambda: p)"),
]


def test_an_open_figure_is_touched_by_code_that_may_draw(
    drawing: dict[str, Any], subtests: pytest.Subtests
) -> None:
    for cell in (*MAY_DRAW, *CANNOT_DRAW):
        with subtests.test(cell):
            answer = touched(cell.replace("⏎", "\n"), drawing)
            assert {"fig", "ax"} & answer.names == ({"fig", "ax"} if cell in MAY_DRAW else set())
            assert answer.everything is None


def test_a_closed_figure_is_not_touched(drawing: dict[str, Any]) -> None:
    import matplotlib.pyplot

    matplotlib.pyplot.close("all")
    assert "fig" not in touched("frame.plot()", drawing).names


# Any program.

NAMES = st.sampled_from("abcd")
STATEMENTS = st.one_of(
    st.builds("{} = [len({})]".format, NAMES, NAMES),
    st.builds("{} = {}".format, NAMES, NAMES),
    st.builds("{} = [{}, {}]".format, NAMES, NAMES, NAMES),
    st.builds("{}.append(1)".format, NAMES),
    st.builds("{0} = {0}[:1]".format, NAMES),
    st.builds("for {} in [[1]]: {}.append(2)".format, NAMES, NAMES),
    st.builds("if len({}) > 2: {}.clear()".format, NAMES, NAMES),
    st.builds("[y.append(3) for y in {} if isinstance(y, list)]".format, NAMES),
)
CALLS = st.sampled_from(["f()", "g()", "h()", "k[0]()", "o.go()", "o.p", "list(map(lambda _: f(), [1]))"])
FUNCTIONS = st.one_of(
    st.builds("def f():⏎    global {0}⏎    {0} = [{1}]".format, NAMES, NAMES),
    st.builds("def f(): {}.append(4)".format, NAMES),
    st.builds("def f(z={}): z.append(5)".format, NAMES),
    st.builds("def g():⏎    {}.append(9)⏎    f()".format, NAMES),
    st.builds("def h():⏎    def inner(): {}.append(6)⏎    inner()".format, NAMES),
    st.builds("k = [lambda: {}.append(7)]".format, NAMES),
    st.builds("class O:⏎    def go(self): {}.append(8)⏎o = O()".format, NAMES),
    st.builds("class O:⏎    go = len⏎    @property⏎    def p(self): g()⏎o = O()".format),
)
CELLS = st.one_of(
    st.lists(FUNCTIONS, min_size=1, max_size=3).map("⏎".join),
    st.lists(CALLS, min_size=1, max_size=2).map("⏎".join),
    st.lists(st.one_of(STATEMENTS, CALLS), min_size=1, max_size=3).map("⏎".join),
)
STARTS = (
    "a, b, c, d = [1], [2], [3], [4]⏎def f(): pass⏎def g(): pass⏎def h(): pass⏎k = [f]⏎"
    "class O:⏎    def go(self): pass⏎    p = 1⏎o = O()"
)


def contents(value: Any, depth: int = 4) -> Any:
    """Return what people see of a value: a list as a tuple, a function as itself."""
    return (
        tuple(contents(part, depth - 1) for part in value) if isinstance(value, list) and depth else id(value)
    )


def inside(value: Any) -> set[int]:
    """Return the lists that a value contains, itself included. A function contains its defaults."""
    reached, todo = set(), [value]
    while todo:
        part = todo.pop()
        if isinstance(part, types.FunctionType):
            todo += part.__defaults__ or ()
        if isinstance(part, list) and id(part) not in reached:
            reached.add(id(part))
            todo += part
    return reached


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(CELLS, min_size=2, max_size=6))
def test_every_changed_variable_is_named_in_any_program(cells: list[str]) -> None:
    namespace = new_notebook(STARTS)
    for cell in cells:
        source = cell.replace("⏎", "\n")
        before = {name: (value, contents(value), inside(value)) for name, value in namespace.items()}
        answer = touched(source, namespace)
        with contextlib.suppress(NameError, AttributeError, TypeError):
            exec(source, namespace)
        answer |= touched(source, namespace)
        assert answer.everything is None
        shared = set().union(*(before[name][2] for name in answer.names & before.keys()))
        shared |= set().union(*(inside(namespace[name]) for name in answer.names & namespace.keys()))
        for name, (value, looks, parts) in before.items():
            if name not in answer.names and not parts & shared:
                assert namespace.get(name) is value
                assert contents(namespace[name]) == looks
        assert namespace.keys() - before.keys() <= answer.names | {"__builtins__"}
