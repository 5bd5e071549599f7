"""A kernel of another version of Python: it saves rows of behaviour.txt, or restores them.

`python -c "from core.other_python import save; save(folder)"` saves them and prints what each gives;
`load(folder)` restores them and prints what each gives then, and why variables do not come back.
"""

from __future__ import annotations

import json
import linecache
import sys
from pathlib import Path

from core.behaviour import ROWS, Row, imported

_MAIN = vars(sys.modules["__main__"])
_CHAPTERS = {"Classes", "Functions and other values"}


def rows() -> list[Row]:
    """Return the rows that need nothing but Python and lose nothing in a save."""
    chosen = [row for row in ROWS if row.chapter in _CHAPTERS and not row.change and not row.warning]
    return [row for row in chosen if {*imported(row)} <= sys.stdlib_module_names]


def save(folder: str) -> None:
    """Run each row as a cell of a notebook, and save it."""
    from nbckpt import Tracker

    answers = {}
    with Tracker(Path(folder) / "store") as tracker:
        for number, row in enumerate(rows()):
            before, name = set(_MAIN), f"<cell {number}>"
            linecache.cache[name] = len(row.setup), None, row.setup.splitlines(keepends=True), name
            exec(compile(row.setup, name, "exec", dont_inherit=True), _MAIN)
            tracker.save(_MAIN, row.case, hidden=before)
            answers[row.case] = _answer(row)
            _clear(before)
    print(json.dumps(answers))


def load(folder: str) -> None:
    """Restore each row in this kernel."""
    from nbckpt import Tracker

    answers: dict[str, tuple[str, list[str]]] = {}
    with Tracker(Path(folder) / "store") as tracker:
        for row in rows():
            before = set(_MAIN)
            restored = tracker.restore(row.case, _MAIN)
            answers[row.case] = _answer(row), [failure.reason for failure in restored.failed]
            _clear(before)
    print(json.dumps(answers))


def prepare(folder: str) -> None:
    """Make a store, with the algorithms that this Python has."""
    from nbckpt import Tracker

    with Tracker(Path(folder) / "store") as tracker:
        tracker.save({"x": 1}, "first")
    print(json.dumps(sys.version))


def _answer(row: Row) -> str:
    try:
        return repr(eval(row.expression, _MAIN))
    except BaseException as error:
        return f"raised {error!r}"


def _clear(before: set[str]) -> None:
    for name in set(_MAIN) - before:
        del _MAIN[name]
