"""%%ckpt cell: a cell runs once; later its variables and outputs are restored."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbckpt.errors import StoreError
from nbckpt.store import LocalStore
from nbckpt.tracker import Tracker
from notebook.conftest import Notebook, new_shell


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def ran(store: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module whose `n` counts how often cells run."""
    module: Any = types.ModuleType("ran")
    module.n = 0
    monkeypatch.setitem(sys.modules, "ran", module)
    return module


@pytest.fixture
def cells(ran: Any, notebook: Notebook) -> Iterator[Notebook]:
    """A notebook with a store of its own."""
    notebook.run("%reload_ext nbckpt")
    return notebook


def once(body: str, options: str = "") -> str:
    return f"%%ckpt cell prep {options}\nimport ran; ran.n += 1\n{body}"


def in_new_kernel(*before: str) -> Notebook:
    """Return a notebook of a new kernel that ran these cells."""
    with new_shell() as shell:
        notebook = Notebook(shell)
        notebook.run("%load_ext nbckpt", *before)
        return notebook


def test_a_cell_runs_once_and_later_comes_back(cells: Notebook, ran: Any) -> None:
    cells.run("k = 2", once("y = [k, k]"), once("y = [k, k]"))
    again = in_new_kernel("k = 2", once("y = [k, k]"))
    assert ran.n == 1
    assert again.names["y"] == [2, 2]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("y = k + 1", "y  =  k+1  # more"),
        ("y = f(k)\nz = (y)", "y = f( k )\n\n\nz = y"),
        ("y = 'a'", 'y = "a"'),
    ],
)
def test_comments_and_spacing_do_not_count(cells: Notebook, ran: Any, first: str, second: str) -> None:
    cells.run("k = 2\ndef f(x): return x", once(first))
    cells.run("def f(x):  # the same\n    return  x\nunrelated = 5", once(second))
    assert ran.n == 1


INPUTS = (
    "import numpy as np\nk = 2\nm = 1\na = np.zeros(9)\nh = np.zeros(9)\nd = {'x': [1]}\ns = {'a', 'b'}\n"
    "def g(x): return x * m\ndef f(x): return g(x)\n"
    "class C:\n    n = 1\n    def go(self): return g(self.n)\no = C()"
)
CHANGES = [
    *("k = 3", "a[0] = 1", "m = 2", "del k\nk = 2.0", "h = a"),
    *("d['x'].append(1)", "o.n = 7", "s = {'a', 'c'}"),
    *("def f(x): return g(x) + 1", "def g(x): return x * m * 2"),
    "class C:\n    n = 5\n    def go(self): return g(self.n)\no = C()",
]


def test_a_change_of_any_input_runs_the_cell_again(
    cells: Notebook, ran: Any, subtests: pytest.Subtests
) -> None:
    body = "y = f(k) + a.sum() + h.sum() + len(d) + o.go() + len(s)"
    for change in CHANGES:
        with subtests.test(change):
            cells.run(INPUTS, once(body))
            runs = ran.n
            cells.run(once(body))
            assert ran.n == runs
            cells.run(change, once(body))
            assert ran.n == runs + 1


def test_variables_that_the_cell_binds_first_are_no_inputs(cells: Notebook, ran: Any) -> None:
    body = "x = 1\nfor i in range(3): x += i\ndef f(): return x\nif x: z = 1\nelse: z = 2\nw = [f(), z]"
    cells.run(once(body), once(body))
    assert (ran.n, cells.names["w"]) == (1, [4, 1])


@pytest.mark.parametrize(
    ("setup", "body", "now", "left"),
    [
        ("rows = [1]\nalias = rows", "rows.append(2)", "rows = [1]\nalias = 'mine'", "mine"),
        ("rows = [1]\nalias = [rows]", "y = rows", "rows = [1]\nalias = [rows, 5]", [[1], 5]),
        ("rows = [1]\nalias = [rows]", "y = rows", "rows = [1]\nalias = [[1]]", [[1]]),
        ("rows = [1]", "rows.append(2)", "rows = [1]\nalias = [rows]", [[1, 2]]),
        ("rows = [1]\nalias = [rows]", "rows.append(2)", "rows = [1]\ndel alias", None),
    ],
)
def test_what_shares_objects_is_as_after_the_cell(
    cells: Notebook, ran: Any, setup: str, body: str, now: str, left: Any
) -> None:
    cells.run(setup, once(body), now, once(body))
    assert ran.n == (1 if left is None else 2)
    assert cells.names.get("alias") == left
    assert cells.names["rows"] == ([1] if body == "y = rows" else [1, 2])
    cells.run(now.replace("del alias", ""), once(body))
    assert ran.n == (1 if left is None else 2)
    assert cells.names.get("alias") == left


def test_a_variable_that_the_cell_did_not_bind_stays(cells: Notebook, ran: Any) -> None:
    body = "if large: size = 256\ny = 1"
    cells.run("large = False\nsize = 32", once(body), "size = 64", once(body))
    assert (cells.names["size"], ran.n) == (64, 2)
    assert (cells.after(once(body))["size"], ran.n) == (64, 2)
    again = in_new_kernel("large = False", once(body))
    assert "size" not in again.names
    assert ran.n == 3


@pytest.mark.parametrize("held", ["1", "(i for i in 'ab')", "__import__('threading').Lock()"])
def test_a_result_with_a_class_that_changed_is_not_kept(cells: Notebook, ran: Any, held: str) -> None:
    make = f"%%ckpt cell make\nclass C:\n    n, held = 0, {held}\n    def go(self): C.n += 1\no = C()"
    cells.run(make, once("o.go()"))
    again = in_new_kernel(make, once("o.go()"))
    assert (again.names["C"].n, again.names["o"].n, ran.n) == (1, 1, 2)
    assert type(again.names["o"]) is again.names["C"]


@pytest.mark.parametrize(
    "setup",
    ["def gone(): pass", "def gone():\n    global c\n    del c"],
    ids=["by the cell", "by a function"],
)
def test_whether_there_is_something_to_delete_counts(cells: Notebook, ran: Any, setup: str) -> None:
    body = "try:\n    gone()\n    del c\nexcept NameError: pass\nt = 1\nfor i in 'ab': pass\ndel t, i"
    for before, runs in (("", 1), ("c = 5", 2), ("", 2), ("c = 6", 2)):
        again = in_new_kernel(f"{setup}\n{before}", once(body))
        assert ran.n == runs
        assert not {"c", "t", "i"} & again.names.keys()


@pytest.mark.parametrize("then", ["a = [9]", "del a", "a, x = raw, a"])
def test_a_changed_object_lives_on_under_its_other_name(cells: Notebook, ran: Any, then: str) -> None:
    setup = "a = [1]\nraw = a\nrows = {'a': a}"
    body = f"a.append(2)\n{then}"
    for _ in range(2):
        again = in_new_kernel(setup, once(body))
        assert again.names["raw"] == [1, 2]
        assert again.names["rows"]["a"] is again.names["raw"]
    assert ran.n == 1
    again = in_new_kernel(f"{setup}\nmore = [a]", once(body))
    assert again.names["more"] == [[1, 2]]
    assert again.names["more"][0] is again.names["raw"]


def test_a_changed_class_is_named(cells: Notebook, ran: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cells.run("class C: n = 0", once("C.n += 1"))
    assert "was not kept: it changes the class C in place" in capsys.readouterr().out
    cells.run(once("class C: n = 5"))
    assert "not kept" not in capsys.readouterr().out
    cells.run(once("class C: n = 5"))
    assert ran.n == 2


CLASSES = {
    "a dataclass": "from dataclasses import dataclass\n@dataclass\nclass C:\n    rate: float = 0.1\no = C()",
    "a frozen dataclass": "from dataclasses import dataclass, field\n@dataclass(frozen=True, slots=True)\n"
    "class C:\n    rate: float = field(default=0.1, metadata={'unit': 's'})\no = C()",
    "a named tuple": "from typing import NamedTuple\nclass C(NamedTuple):\n    rate: float = 0.1\no = C()",
    "a generic class": "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass C(Generic[T]):\n"
    "    rate = 0.1\no = C()",
    "a cached property": "from functools import cached_property\nclass C:\n    @cached_property\n"
    "    def rate(self): return 0.1\no = C()",
    "a class of pydantic": "import pydantic\nclass C(pydantic.BaseModel):\n    rate: float = 0.1\no = C()",
    "a class of attrs": "import attrs\n@attrs.define\nclass C:\n    rate: float = 0.1\no = C()",
}


COMES_BACK = {
    "inputs that were changed in place": (
        "import numpy as np\na = np.zeros(5)\nv = a[:2]\nrows = [1]\nalias = rows\nx = [0]\nknown = id(x)",
        "a[0] = 9\nrows.append(2)\nb = a",
        "a[0], v[0], rows, alias is rows, b is a, np.shares_memory(a, v), id(x) == known",
        (9, 9, [1, 2], True, True, True, True),
    ),
    "instances with the live class": (
        "rows = [1]\nclass C:\n    n = [0]\n    def go(self): return 1\nold = C()\nknown = id(C)\n"
        "class E: pass\nholder = E()\nholder.rows = rows",
        "o = C()\ny = old.go()\nclass D(C): pass\nd = D()\nrows.append(2)",
        "holder.rows is rows, type(holder) is E, id(C) == known, type(o) is type(old) is D.mro()[1] is C",
        (True,) * 4,
    ),
    "a frame that has a new column, before a step": (
        "import pandas as pd\ndf = pd.DataFrame({'a': [1.0, None]})\nraw = df",
        "df['b'] = 1\ndf = df.dropna()",
        "[*raw.columns], len(df)",
        (["a", "b"], 1),
    ),
    "an instance of a class whose name is given away": (
        "class C:\n    def go(self): self.n = 1\nclass D(C): pass\no, other = C(), C()",
        "o.go()\nC = D",
        "type(o) is type(other) is not C, C is D",
        (True, True),
    ),
    "a second name of a class": (
        "class C: pass\nclass D(C): pass\no = D()",
        "C = D",
        "C is D is type(o)",
        True,
    ),
    "a sum over a restored frame": (
        "%%ckpt cell make\nimport pandas as pd\ndf = pd.DataFrame({'a': [1.0, 2.0], 'b': [1, 2]})",
        "total = int(df['b'].sum())",
        "total",
        3,
    ),
    "what functions change and delete": (
        "c = [0]\nn = 1\nold = 5\ndef f():\n    global n\n    n += 1\n    c.append(n)",
        "f()\ndel old",
        "[*c], n, 'old' in globals(), f(), c",
        ([0, 2], 2, False, None, [0, 2, 3]),
    ),
    "functions, classes and modules": (
        "k = 2.5",
        "import math as m\nclass C:\n    def go(self): return m.floor(k)\ndef f(): return C().go()\no = C()",
        "f(), o.go(), isinstance(o, C), m.pi > 3",
        (2, 2, True, True),
    ),
    **{
        f"an attribute of {case}": (CLASSES[case], "o.rate = 0.5", "o.rate, type(o) is C", (0.5, True))
        for case in ("a dataclass", "a class of pydantic", "a class of attrs")
    },
}


def needs(text: str) -> None:
    """Skip a case whose library is not there."""
    for library in ("pydantic", "attrs", "pandas"):
        if library in text:
            pytest.importorskip(library)


def test_what_a_cell_leaves_comes_back(cells: Notebook, ran: Any, subtests: pytest.Subtests) -> None:
    for case, (setup, body, expression, value) in COMES_BACK.items():
        with subtests.test(case):
            needs(setup)
            ran.n = 0
            for _ in range(2):
                assert in_new_kernel(setup, once(body)).run(expression) == value
            assert ran.n == 1


def test_a_cell_that_reads_an_instance_comes_back(
    cells: Notebook, ran: Any, subtests: pytest.Subtests
) -> None:
    for case, setup in CLASSES.items():
        with subtests.test(case):
            needs(setup)
            ran.n = 0
            for _ in range(2):
                again = in_new_kernel(setup, once("y = [o.rate]"))
                assert again.names["y"] == [0.1]
            assert ran.n == 1
            in_new_kernel(setup.replace("0.1", "0.2"), once("y = [o.rate]"))
            assert ran.n == 2


def test_a_frame_beside_the_input_is_never_an_old_one(cells: Notebook, ran: Any) -> None:
    pytest.importorskip("pandas")
    setup = "import pandas as pd\ndf = pd.DataFrame({'a': [1.0, 2.0], 'b': [1, 2]})\nother = df.assign(c=1)"
    for number, runs in ((1, 1), (2, 2), (2, 2)):
        again = in_new_kernel(setup.replace("c=1", f"c={number}"), once("top = df.head(1)"))
        assert list(again.names["other"]["c"]) == [number] * 2
        assert ran.n <= runs  # before pandas 3, `assign` copies, and nothing is shared


def test_generators_advance_as_the_cell_advanced_them(cells: Notebook, ran: Any) -> None:
    setup = "import random, numpy as np\nrandom.seed(1)\nnp.random.seed(1)"
    cells.run(setup, once("x = random.random(), np.random.rand()"))
    expected = cells.run("random.random(), np.random.rand()")
    again = in_new_kernel(setup, once("x = random.random(), np.random.rand()"))
    assert ran.n == 1
    assert again.run("random.random(), np.random.rand()") == expected


def test_prints_and_the_last_value_come_back(
    cells: Notebook, ran: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "import sys\nprint('one')\nprint('bad', file=sys.stderr)\nprint('two')\n[1, 2]"
    capsys.readouterr()
    cells.run(once(body))
    first = capsys.readouterr()
    again = in_new_kernel()
    capsys.readouterr()
    assert again.run(once(body)) == [1, 2]
    second = capsys.readouterr()
    assert ran.n == 1
    assert "one\ntwo\n" in first.out
    assert "one\ntwo\n" in second.out
    assert "bad\n" in second.err
    assert "Restored ran, sys of cell prep, computed" in second.out
    assert again.run("_") == [1, 2]


def test_an_error_is_plain_and_never_kept(
    cells: Notebook, ran: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert "ZeroDivisionError" in cells.error(once("def f():\n    return 1 / 0\nf()"))
    output = capsys.readouterr().out
    assert "line 5" in output
    assert "f()" in output
    assert "run_once" not in output
    assert ran.n == 2


def test_an_interrupt_keeps_nothing(cells: Notebook, ran: Any) -> None:
    for _ in range(2):
        assert "KeyboardInterrupt" in cells.error(once("x = 1\nraise KeyboardInterrupt"))
    assert ran.n == 2


def test_a_cell_can_await(cells: Notebook, ran: Any) -> None:
    body = "import asyncio\nasync def f(): return 5\nx = await f()\nx + 1"
    assert cells.run(once(body)) == 6
    again = in_new_kernel()
    assert again.run(once(body)) == 6
    assert (ran.n, again.names["x"]) == (1, 5)


def test_refresh_runs_again_and_replaces_the_result(cells: Notebook, ran: Any, store: Path) -> None:
    cells.run(once("x = ran.n"), once("x = ran.n", "--refresh"))
    again = in_new_kernel(once("x = ran.n"))
    assert (ran.n, again.names["x"]) == (2, 2)
    assert len(Tracker(store).history.entries("cells")) == 1


def test_a_changed_input_file_runs_the_cell_again(cells: Notebook, ran: Any, tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    body = "from pathlib import Path\nx = Path('data.txt').read_text()"
    for text, runs in (("a", 1), ("a", 1), ("b", 2), ("b", 2), ("a", 2)):
        file.write_text(text)
        cells.run(once(body, "--input data.txt"))
        assert (ran.n, cells.names["x"]) == (runs, text)


@pytest.mark.parametrize("written", ["--input data", "--input data/", "--input '{}'"])
def test_a_changed_input_folder_runs_the_cell_again(
    cells: Notebook, ran: Any, tmp_path: Path, written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, more = tmp_path / "data/deep/a.txt", tmp_path / "data/b.txt"
    file.parent.mkdir(parents=True)
    body = "from pathlib import Path\nx = sorted(path.read_text() for path in Path('data').rglob('*.txt'))"

    def run() -> tuple[int, list[str]]:
        cells.run(once(body, written.format(tmp_path / "data")))
        return ran.n, cells.names["x"]

    file.write_text("a")
    assert [run(), run()] == [(1, ["a"])] * 2
    file.write_text("b")
    assert [run(), run()] == [(2, ["b"])] * 2
    more.write_text("c")
    assert [run(), run()] == [(3, ["b", "c"])] * 2
    file.rename(file.with_name("renamed.txt"))
    assert [run(), run()] == [(4, ["b", "c"])] * 2
    more.unlink()
    assert run() == (5, ["b"])
    assert "also opened" not in capsys.readouterr().out


def test_an_input_that_is_not_there_is_named(cells: Notebook, ran: Any, tmp_path: Path) -> None:
    assert "no file or folder 'data'" in cells.error(once("x = 1", "--input data"))
    assert ran.n == 0


def test_a_file_noted_with_data_counts_as_an_input(
    cells: Notebook, ran: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBCKPT_PROVENANCE", "1")
    cells.run("import nbckpt")
    body = "from pathlib import Path\nx = Path(nbckpt.data('data.txt')).read_text()"
    for text, runs in (("a", 1), ("a", 1), ("b", 2), ("b", 2), ("a", 2)):
        (tmp_path / "data.txt").write_text(text)
        cells.run(once(body))
        assert (ran.n, cells.names["x"]) == (runs, text)


def test_other_files_that_the_cell_opened_are_named(
    cells: Notebook, ran: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.txt").write_text("a")
    (tmp_path / "given.txt").write_text("a")
    body = "from pathlib import Path\nx = [Path(name).read_text() for name in ('data.txt', 'given.txt')]"
    cells.run(once(body, "--input given.txt"))
    assert "also opened" not in capsys.readouterr().out
    cells.run(once(body, "--input given.txt"))
    output = " ".join(capsys.readouterr().out.split())
    assert "The cell also opened" in output
    assert "data.txt" in output
    assert "given.txt" not in output


@pytest.mark.slow
def test_the_version_of_a_pinned_module_counts(cells: Notebook, ran: Any) -> None:
    ran.__version__ = "1"
    for version, runs in (("1", 1), ("1", 1), ("2", 2)):
        ran.__version__ = version
        cells.run(once("x = 1", "--pin ran"))
        assert ran.n == runs
    assert "--pin nothing_like_this" in cells.error(once("x = 1", "--pin nothing_like_this"))


def test_a_result_that_cannot_be_saved_is_not_kept(
    cells: Notebook, ran: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "d = {'file': open('data.txt', 'w')}"
    cells.run(once(body))
    assert "was not kept: d['file']" in capsys.readouterr().out
    cells.run("d['file'].close()", once(body), "d['file'].close()")
    assert ran.n == 2


def test_an_input_without_a_digest_has_the_key_of_its_cell(cells: Notebook, ran: Any) -> None:
    connect = "import sqlite3\ndb = sqlite3.connect(':memory:')\n_ = db.execute('create temp table t (x)')"
    body = "x = db.execute('select 5').fetchone()"
    for _ in range(2):
        cells.run(f"%%ckpt cell make\n{connect}", once(body), "db.close()")
    assert ran.n == 1
    cells.run(connect, once(body), once(body), "db.close()")
    assert ran.n == 3


def test_a_cell_that_can_touch_everything_always_runs(
    cells: Notebook, ran: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        cells.run(once("exec('x = 1')"))
    assert ran.n == 2
    assert "its result is not kept, since it uses exec" in " ".join(capsys.readouterr().out.split())


def test_a_full_store_leaves_the_result_of_the_cell(
    cells: Notebook, ran: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise StoreError("no space left on the device")

    monkeypatch.setattr(LocalStore, "put", full)
    assert cells.after(once("x = 1"))["x"] == 1
    assert capsys.readouterr().out.count("no space left") == 1


def test_results_are_hidden_shown_and_removed_by_name(cells: Notebook, ran: Any) -> None:
    assert "prep" not in str(cells.run(once("x = 1"), "%ckpt save own x", "%ckpt ls"))
    assert "x" in str(cells.run("%ckpt show cell:prep"))
    assert "Did you mean 'cell:prep'?" in cells.error("%ckpt rm prep")
    cells.run("%ckpt rm cell:prep", once("x = 1"))
    assert ran.n == 2


def test_the_newest_results_of_a_name_are_kept(cells: Notebook, ran: Any, store: Path) -> None:
    for k in range(7):
        cells.run(f"k = {k}", once("x = k"))
    history = Tracker(store).history
    assert len(history.entries("cells")) == 5
    assert history.entries() == []


def test_a_second_name_of_a_kept_cell_outlives_its_results(cells: Notebook, ran: Any, store: Path) -> None:
    cells.run("k = 0", once("x = k"), "%ckpt tag cell:prep kept")
    for k in range(1, 7):
        cells.run(f"k = {k}", once("x = k"))
    assert cells.after("%ckpt restore kept")["x"] == 0
    history = Tracker(store).history
    assert [str(ref) for ref in history.refs() if not ref.is_of_cell] == ["kept@1"]
    assert len(history.entries("cells")) == 5


@pytest.mark.usefixtures("gc_at_once")
@pytest.mark.parametrize("order", [("kept", "cell:prep"), ("cell:prep", "kept")])
def test_each_name_of_a_kept_cell_is_removed_alone(
    cells: Notebook, ran: Any, store: Path, order: tuple[str, str]
) -> None:
    cells.run(once("import numpy as np; x = np.arange(50_000)"), "%ckpt tag cell:prep kept")
    for ref, stays in (order, order[::-1]):
        removed = cells.run(f"%ckpt rm {ref}")
        assert (removed.labels, removed.freed) == ((f"{ref}@1",), 0)
        assert cells.run("%ckpt gc").collected.packs == []
        cells.run(f"%ckpt restore {stays}")
        in_new_kernel("%ckpt undo")
        assert {str(ref) for ref in Tracker(store).history.refs()} == {"kept@1", "cell:prep@1"}
    assert cells.run(f"%ckpt rm {order[0]}", f"%ckpt rm {order[1]}").freed > 100_000
    assert len(cells.run("%ckpt gc").collected.packs) == 1
    assert list(Tracker(store).store.keys("cells/")) == list(Tracker(store).store.keys("trash/cells/")) == []


def test_a_removal_of_both_names_of_a_kept_cell_is_undone(cells: Notebook, ran: Any, store: Path) -> None:
    cells.run(once("x = 1"), "%ckpt tag cell:prep kept", "%ckpt rm kept", "%ckpt rm cell:prep")
    in_new_kernel("%ckpt undo")
    history = Tracker(store).history
    kinds = {str(ref): entry.kind for ref, entry in history.named(history.refs())}
    assert kinds == {"kept@1": "checkpoints", "cell:prep@1": "cells"}
    cells.run(once("x = 1"))
    assert ran.n == 1


def test_somebody_elses_result_is_refused(
    cells: Notebook, ran: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cells.run(once("x = 1"))
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    again = in_new_kernel()
    assert "%ckpt trust" in again.error(once("x = 1"))
    again.run(once("x = 1", "--refresh"))
    assert ran.n == 2


def test_a_damaged_result_runs_the_cell_again(cells: Notebook, ran: Any, store: Path) -> None:
    cells.run(once("x = 1"))
    (manifest,) = (store / "cells").iterdir()
    manifest.chmod(0o600)
    manifest.write_bytes(manifest.read_bytes()[:-9])
    cells.run(once("x = 1"))
    assert (ran.n, cells.names["x"]) == (2, 1)


def test_undo_takes_a_restored_cell_back(cells: Notebook, ran: Any) -> None:
    assert cells.after(once("x = [1]"), "x = 'mine'", once("x = [1]"))["x"] == [1]
    assert cells.after("%ckpt undo")["x"] == "mine"


READ_IN_A_MAGIC = [
    ("x = 1", "%%time\ny = x + 1", "x = 100"),
    ("x = 1", "%%capture\ny = x + 1", "x = 100"),
    ("x = 1", "for i in range(2):\n    %time y = x + 1", "x = 100"),
    ("x = 1", "%%time\n%time y = x + 1", "x = 100"),
    ("def f(): return 1", "%time y = f()", "def f(): return 2"),
    ("x = 1\ndef f(): return x", "%%time\ny = f()", "x = 100"),
]


def test_what_code_in_a_magic_reads_counts(cells: Notebook, ran: Any, subtests: pytest.Subtests) -> None:
    for setup, body, change in READ_IN_A_MAGIC:
        with subtests.test(body):
            ran.n = 0
            value = "f()" if "def" in setup else "x + 1"
            cell = f"%%ckpt cell prep\n{body}; ran.n += 1"
            cells.run(f"import ran\n{setup}", cell)
            runs = ran.n
            assert runs
            cells.run(f"{setup}\ny = 'mine'", cell)
            assert (ran.n, cells.names["y"]) == (runs, cells.run(value))
            cells.run(change, cell)
            assert (ran.n, cells.names["y"]) == (2 * runs, cells.run(value))


def test_what_code_in_a_magic_binds_first_does_not_count(cells: Notebook, ran: Any) -> None:
    cell = "%%ckpt cell prep\n%%time\nimport ran\nran.n += 1\nx = 5\ny = [x for _ in 'ab']"
    cells.run(cell, "x = 7", cell)
    assert (ran.n, cells.names["x"]) == (1, 5)


@pytest.mark.parametrize("magic", ["%%time", "%%capture", "%%capture out"])
def test_what_code_in_a_magic_changes_comes_back(cells: Notebook, ran: Any, magic: str) -> None:
    cell = f"%%ckpt cell prep\n{magic}\nimport ran\nran.n += 1\nrows.append(2)\nprint('hello')"
    for _ in range(2):
        again = in_new_kernel("rows = [1]", cell)
        assert again.names["rows"] == [1, 2]
        assert "out" not in magic or again.names["out"].stdout == "hello\n"
    assert ran.n == 1


def test_what_is_captured_is_not_shown_when_it_comes_back(
    cells: Notebook, ran: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    cells.run("%%ckpt cell prep\n%%capture out\nprint('hello')")
    assert "Kept the result of cell prep: 1 variable" in capsys.readouterr().out
    in_new_kernel().run("%%ckpt cell prep\n%%capture out\nprint('hello')")
    shown = capsys.readouterr().out
    assert "Restored out of cell prep" in shown
    assert "hello" not in shown


def test_a_cell_inside_does_not_end_the_kept_cell(cells: Notebook, ran: Any) -> None:
    assert cells.run("%%ckpt cell prep\n%time get_ipython().run_cell('x = 2')\nx + 1", "_") == 3


def test_the_line_must_be_the_first_of_its_cell(cells: Notebook, ran: Any) -> None:
    inside = "get_ipython().run_cell_magic('ckpt', 'cell prep', 'x = 1')"
    assert "first line of its cell" in cells.error(inside)
    assert "first line" in cells.error("%ckpt cell prep")
    assert "NAME" in cells.error("%%ckpt cell\nx = 1")
    assert "x" not in cells.after("%%ckpt cell --help\nx = 1")


def test_unloading_leaves_plain_cells(cells: Notebook) -> None:
    shell = cells.shell
    cells.run("%unload_ext nbckpt")
    assert shell.ast_transformers == []
    assert not any("as_plain" in str(transform) for transform in shell.input_transformers_cleanup)
    cells.run("%load_ext nbckpt")
