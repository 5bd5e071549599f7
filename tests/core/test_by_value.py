"""Functions keep the name of the file that they come from, whatever cloudpickle's version leaves out."""

from __future__ import annotations

import inspect
import linecache

import nbckpt
from nbckpt.core.values import by_value

SOURCE = "def add(a):\n    return a + extra()\n\ndef extra():\n    return [code for code in (1,)][0]\n"
FILE = "<a cell of a notebook>"


def test_a_restored_function_has_its_source() -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(SOURCE, FILE, "exec"), names)
    linecache.cache[FILE] = len(SOURCE), None, SOURCE.splitlines(keepends=True), FILE
    tracker = nbckpt.Tracker("memory://functions")
    tracker.save(names, "n")
    restored: dict[str, object] = {"__name__": "__main__"}
    tracker.restore("n", restored)
    assert inspect.getsource(restored["add"]) == "def add(a):\n    return a + extra()\n"  # type: ignore[arg-type]
    del linecache.cache[FILE]


def test_code_inside_code_keeps_its_file() -> None:
    function = eval(compile("lambda: (lambda: 1)", FILE, "eval"), {"__name__": "__main__"})
    import cloudpickle

    inner = cloudpickle.loads(by_value.dumps(function))()
    assert inner.__code__.co_filename == FILE
