"""Code comes back in another version of Python or is named; it never runs there as it is."""

from __future__ import annotations

import json
import linecache
import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import nbckpt
from core.other_python import rows
from late import Library
from nbckpt.core import bytecode
from nbckpt.core.bytecode import ForeignCodeError
from nbckpt.core.values.classes import Classes
from nbckpt.core.values.codec import dump, load

numpy = Library("numpy")
CELL = "<a cell of a notebook>"
BYTECODE = {
    "3.11": (
        "9700740100000000000000000000640184007c004400a6000000ab000000000000000000a6010000ab0100000000000000005300"
    ),
    "3.12": "970074010000000000000000640184007c004400ab00000000000000ab010000000000005300",
    "3.13": "95005b01000000000000000053011a0055001300350000000000000035010000000000002400",
}
"""The code of `sum(row * 2 for row in rows)` in each version."""

DIFFER = {
    "cached function of a library",  # it has another name there
    "collections",  # an OrderedDict is shown differently since Python 3.12
}
"""Rows whose expression gives something else in another version of Python."""

CANNOT = {
    "generic class and protocol",  # typing makes protocols differently
    "module made by hand",  # it executes a text, which nobody keeps
}
"""Rows that are named in another version of Python."""


@cache
def other_python() -> str:
    """Return the interpreter of another version that can run nbckpt with the packages of this one."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    minors = [minor for minor in (12, 13, 11, 14) if minor != sys.version_info[1]]
    interpreters = [shutil.which(f"python3.{minor}") for minor in minors]
    interpreters += [str(path) for minor in minors for path in versions.glob(f"3.{minor}.*/bin/python")]
    for python in filter(None, interpreters):
        asks = [python, "-c", "import nbckpt.tracker.tracker"]
        done = subprocess.run(asks, capture_output=True, check=False, env=environment())
        if done.returncode == 0:
            return python
    pytest.skip("this machine has no second version of Python that can run nbckpt")


def environment() -> dict[str, str]:
    """Return an environment that finds the packages of this Python, but not its standard library."""
    own = Path(sysconfig.get_paths()["stdlib"])
    packages = [
        path for path in sys.path if Path(path) not in (own, own / "lib-dynload") and path[-4:] != ".zip"
    ]
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *packages])}


def asked(python: str, step: str, folder: Path) -> Any:
    """Return what a kernel of a Python says that runs `prepare`, `save` or `load`."""
    code = f"from core.other_python import {step}; {step}({str(folder)!r})"
    done = subprocess.run(
        [python, "-W", "ignore", "-c", code],
        capture_output=True, text=True, timeout=240, check=False, cwd=folder, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["to", "from"])
def test_code_works_in_another_python_or_is_named(
    direction: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    other = other_python()
    first, second = (sys.executable, other) if direction == "to" else (other, sys.executable)
    asked(other, "prepare", tmp_path)
    saved, loaded = asked(first, "save", tmp_path), asked(second, "load", tmp_path)
    for case in (row.case for row in rows()):
        with subtests.test(case):
            answer, reasons = loaded[case]
            if case in CANNOT:
                assert [reason for reason in reasons if "run its cell again" in reason] == reasons != []
            elif case not in DIFFER:
                assert (answer, reasons) == (saved[case], [])


@pytest.fixture
def namespace() -> Iterator[dict[str, Any]]:
    """Return the namespace of a notebook."""
    yield {"__name__": "__main__"}
    linecache.cache.pop(CELL, None)


def run(text: str, namespace: dict[str, Any]) -> None:
    """Run a cell as IPython does, which keeps its text for tracebacks."""
    linecache.cache[CELL] = len(text), None, text.splitlines(keepends=True), CELL
    exec(compile(text, CELL, "exec", dont_inherit=True), namespace)


def in_another_python(record: bytes, namespace: dict[str, Any]) -> Any:
    """Load a record as a Python that did not write it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bytecode, "PYTHON", "3.99")
        return load(record, (), namespace)[0]


CELLS = {
    "a function": "x = 1\n\n\ndef made(rows):\n    return sum(row * 2 for row in rows) + x\n",
    "a function below an import": "import os\ndef made(rows):\n    return os.path.join('a', str(rows))\n",
    "the second of two lambdas": "made = (lambda rows: 1, lambda rows: rows)[1]\n",
    "a lambda of a comprehension": "made = [lambda rows: rows * at for at in range(3)][1]\n",
    "a closure": "def outer(n):\n    def f(rows):\n        return [*rows, n]\n    return f\nmade = outer(3)",
    "a method": "class A:\n    __x = 1\n    def f(self, rows): return self.__x, rows\nmade = A().f\n",
    "two statements in one line": "x = 2; made = lambda rows: (x, rows)\n",
    "a function in a block": "if True:\n    def made(rows):\n        return rows\n",
    "a decorated function": (
        "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g(rows): return f(rows) * 2\n"
        "    return g\n@twice\ndef made(rows):\n    return rows\n"
    ),
    "a named tuple's constructor": "from collections import namedtuple\nmade = namedtuple('P', 'rows')\n",
    "a dataclass": "from dataclasses import dataclass\n@dataclass\nclass D:\n    rows: list\nmade = D\n",
    "postponed annotations": "from __future__ import annotations\ndef made(rows: Missing): return rows\n",
}
"""Cells that define `made`, a function of rows."""


@pytest.mark.parametrize("cell", CELLS)
def test_code_is_compiled_again_from_its_cell(cell: str, namespace: dict[str, Any]) -> None:
    run(CELLS[cell], namespace)
    made = namespace["made"]
    record = dump([made], namespace).record
    linecache.cache.pop(CELL)
    before = repr(made([1, 2]))
    assert repr(in_another_python(record, namespace)([1, 2])) == before


@pytest.mark.parametrize(
    "cell",
    [
        "names = {}\nexec('def made(): return 1', names)\nmade = names['made']",
        "made = eval('lambda: 1')",
        "made = compile('1 + 1', 'nowhere', 'eval')",
        "def made(): return connect(password='hunter2')",
        "def made(): return 1  # password = 'hunter2'",
    ],
)
def test_code_without_a_source_to_keep_is_named(cell: str, namespace: dict[str, Any]) -> None:
    run(cell, namespace)
    record = dump([namespace["made"]], namespace).record
    assert load(record, ())[0] is not None
    with pytest.raises(ForeignCodeError, match=r"cannot run in Python 3\.99: run its cell again"):
        in_another_python(record, namespace)


def test_a_source_that_does_not_compile_to_the_code_is_not_kept(namespace: dict[str, Any]) -> None:
    run("def made(): return 1\n", namespace)
    lines = ["def made(): return 2\n"]
    linecache.cache[CELL] = len(lines[0]), None, lines, CELL
    record = dump([namespace["made"]], namespace).record
    assert b"return 2" not in record
    with pytest.raises(ForeignCodeError):
        in_another_python(record, namespace)


def test_a_function_keeps_its_record_when_its_cell_is_gone(namespace: dict[str, Any]) -> None:
    run("def made(rows):\n    return [row for row in rows]\n", namespace)
    record = dump([namespace["made"]], namespace).record
    linecache.cache.pop(CELL)
    assert dump([namespace["made"]], namespace).record == record
    (restored,) = load(record, (), namespace)
    again = dump([restored], namespace).record
    assert b"def made(rows)" in again
    assert dump(load(again, (), namespace), namespace).record == again


def test_the_other_variables_come_back(namespace: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run("made = eval('lambda: 1')\ndata = [1, 2]\n", namespace)
    tracker = nbckpt.Tracker("memory://other-python")
    tracker.save(namespace, "n")
    monkeypatch.setattr(bytecode, "PYTHON", "3.99")
    restored: dict[str, Any] = {"__name__": "__main__"}
    (failure,) = tracker.restore("n", restored).failed
    assert failure.names == ("made",)
    assert failure.reason.startswith("its code was made by Python 3")
    assert restored["data"] == [1, 2]


class Old:
    """Pickles as the code object of a record that does not name its Python."""

    def __init__(self, code: types.CodeType, data: bytes) -> None:
        self.code, self.data = code, data

    def __reduce__(self) -> Any:
        make, parts = cloudpickle.Pickler.dispatch_table[types.CodeType](self.code)
        return make, tuple(self.data if part == self.code.co_code else part for part in parts)


def test_older_records_do_not_run_in_another_python(subtests: pytest.Subtests) -> None:
    code = test_older_records_do_not_run_in_another_python.__code__
    for version, data in BYTECODE.items():
        with subtests.test(version):
            if version == bytecode.PYTHON:
                continue
            record = cloudpickle.dumps(Old(code, bytes.fromhex(data)))
            with pytest.raises(ForeignCodeError, match="made by another version of Python"):
                Classes().load(record, ())
    record = cloudpickle.dumps(Old(code, code.co_code))
    assert Classes().load(record, ()) == code
    with pytest.raises(ForeignCodeError, match=r"made by Python 3\.8"):
        Classes().load(record, (), "3.8")


def test_the_type_of_code_objects_is_a_value(namespace: dict[str, Any]) -> None:
    assert load(dump([types.CodeType], namespace).record, ()) == [types.CodeType]


@pytest.mark.parametrize("core", [b"numpy.core", b"numpy._core"])
def test_arrays_come_from_any_numpy(core: bytes) -> None:
    records = numpy.zeros(2, [("a", "i4"), ("b", "M8[s]")])
    arrays = [numpy.arange(6.0).reshape(2, 3), numpy.float32(1.5), records]
    text = pickle.dumps(arrays, 0)  # this protocol writes names as lines of text
    other = text.replace(b"cnumpy._core.", b"cnumpy.core.").replace(b"cnumpy.core.", b"c" + core + b".")
    assert b"c" + core + b"." in other
    assert repr(Classes().load(other, ())) == repr(arrays)
