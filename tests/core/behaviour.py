"""Objects that a notebook makes, and what each must still do after a restore: the rows of behaviour.txt.

A line `# …` begins a chapter, with what its rows import. `## …` begins a row: a cell that makes the values,
after `...` a cell that changes them, and after `>>>` an expression. If something is lost, a part of the
warning is in brackets behind the name of the row.

`python -c "from core.behaviour import save; save(folder, chapter)"` is a kernel that saves every row of a
chapter, restores it and undoes its change; `load` is a new kernel that restores it along every route.
"""

from __future__ import annotations

import gc
import importlib
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


class Row(NamedTuple):
    """A row. If it has a change, it is saved before and after that, and its expression changes nothing."""

    chapter: str
    case: str
    setup: str
    change: str
    expression: str
    warning: str

    @property
    def moments(self) -> tuple[str, ...]:
        """The names of the checkpoints of the row."""
        return ("before", "after") if self.change else ("before",)


def _rows() -> Iterator[Row]:
    for text in ("\n" + Path(__file__).with_suffix(".txt").read_text("utf-8")).split("\n# ")[1:]:
        head, *parts = text.split("\n## ")
        chapter, imports = head.split("\n", 1)
        for part in parts:
            case, *lines, expression = part.strip().split("\n")
            case, _, warning = case.removesuffix("]").partition(" [")
            setup = "\n".join(line for line in lines if not line.startswith("... "))
            change = "\n".join(line.removeprefix("... ") for line in lines if line.startswith("... "))
            yield Row(chapter, case, imports + setup, change, expression.removeprefix(">>> "), warning)


ROWS = list(_rows())
CHAPTERS = list(dict.fromkeys(row.chapter for row in ROWS))
STEPS = [
    ("%ckpt undo", "before"),
    ("%ckpt redo", "after"),
    ("%ckpt checkout before;", "before"),
    ("%ckpt undo", "after"),
    ("%ckpt restore before;", "before"),
    ("%ckpt restore after;", "after"),
]
"""What a user does after the change, and which values the variables have then."""
_MAIN = vars(sys.modules["__main__"])


def missing(row: Row) -> str:
    """Return a library that a row imports and that is not installed here; nothing if all are."""
    return next((name for name in imported(row) if find_spec(name.partition(".")[0]) is None), "")


def fresh() -> dict[str, Any]:
    """Return a namespace as a new kernel has it."""
    return {"__name__": "__main__", "__builtins__": __builtins__}


def save(folder: str, chapter: str) -> None:
    """Run and save every row; print what its expression gives then, after a restore, and after steps back."""
    from nbckpt import Tracker

    answers: dict[str, dict[str, str]] = {}
    rows = _here(chapter)
    before = _settled(rows)
    with Tracker(Path(folder) / "store") as tracker:
        for row in rows:
            given = answers[row.case] = {"warnings": ""}
            for moment, cell in zip(row.moments, (row.setup, row.change), strict=False):
                exec(compile(cell, "<cell>", "exec", dont_inherit=True), _MAIN)
                _write_files(row, {name: _MAIN[name] for name in _MAIN if name not in before}, moment, folder)
                saved = tracker.save(_MAIN, f"{row.case} {moment}", hidden=before).manifest
                skipped = [f"{skipped.name}: {skipped.reason}" for skipped in saved.skipped]
                given["warnings"] += " | ".join([*skipped, *saved.warnings])
                given[moment] = _answer(row)
            for moment in row.moments:
                tracker.restore(f"{row.case} {moment}", _MAIN, hidden=before)
                given[f"{moment}, restored in its kernel"] = _answer(row)
            _clear(before)
    shell = _shell()
    for row in rows:
        if not row.warning:  # auto makes no point for a change of lost parts
            answers[row.case] |= _stepped(row, shell)
    print(json.dumps(answers))


def load(folder: str, chapter: str) -> None:
    """Restore every row along every route in this new kernel; print what its expression gives."""
    from nbckpt import Checkpoint, Tracker
    from nbckpt.states.values import read

    answers: dict[str, dict[str, str]] = {}
    rows = _here(chapter)
    before = _settled(rows)
    routes: dict[str, Callable[[bytes], Any]] = {
        "from_dict": lambda data: Checkpoint.from_bytes(data, trust=True).to_dict(),
        "state": lambda data: read(BytesIO(data)),
    }
    with Tracker(Path(folder) / "store") as tracker:
        for row in rows:
            given = answers[row.case] = {}
            for moment in row.moments:
                tracker.restore(f"{row.case} {moment}", _MAIN)
                given[f"{moment}, restored"] = _answer(row)
                _clear(before)
                for route, load_from in routes.items():
                    if (file := _file(folder, row, moment, route)).exists():
                        try:
                            _MAIN.update(load_from(file.read_bytes()))
                            given[f"{moment}, {route}"] = _answer(row)
                        except Exception as error:
                            given[f"{moment}, {route}"] = f"raised {error!r}"
                        _clear(before)
    print(json.dumps(answers))


def _write_files(row: Row, values: dict[str, Any], moment: str, folder: str) -> None:
    """Write the values as the bytes of a checkpoint and as a state, without those that cannot be saved."""
    from nbckpt import Checkpoint
    from nbckpt.states.values import write

    if all(isinstance(value, ModuleType) for value in values.values()):
        return  # the row has a setting of a module, and no values
    state = BytesIO()
    routes: dict[str, Callable[[], bytes]] = {
        "from_dict": lambda: Checkpoint.from_dict(values).to_bytes(),
        "state": lambda: [write(values, state), state.getvalue()][1],
    }
    for route, made in routes.items():
        try:
            _file(folder, row, moment, route).write_bytes(made())
        except Exception as error:
            if not row.warning:
                _file(folder, row, moment, route).write_text(f"refused: {error}")


def _file(folder: str, row: Row, moment: str, route: str) -> Path:
    return Path(folder) / f"{ROWS.index(row)}.{moment}.{route}"


def _shell() -> InteractiveShell:
    """Return a shell that makes a point after each cell."""
    shell = InteractiveShell.instance(colors="nocolor", config=Config(HistoryAccessor={"enabled": False}))
    for cell in ("%load_ext nbckpt", "%ckpt auto on --budget 1000000%"):
        shell.run_cell(cell, store_history=True).raise_error()
    return shell


def _stepped(row: Row, shell: InteractiveShell) -> dict[str, str]:
    """Return what the row gives after steps between the points before and after its change."""

    def run(cell: str) -> Any:
        result = shell.run_cell(cell, store_history=True)
        result.raise_error()
        return result.result

    answers = {}
    shell.reset(new_session=False)
    try:
        run(row.setup)
        if row.change:
            for cell in ("%ckpt save before;", row.change, "%ckpt save after;"):
                run(cell)
            for at, (step, moment) in enumerate(STEPS):
                run(step)
                answers[f"{moment}, step {at}: {step}"] = run(f"repr(({row.expression}))")
        else:  # the expression may be the change
            for step in ("pass", "%ckpt undo"):
                run(f"{step}\nsaid = repr(({row.expression}))")
                answers[f"before, {step}"] = shell.user_ns["said"]
    except Exception as error:
        answers["before, step"] = f"raised {error!r}"
    return answers


def _here(chapter: str) -> list[Row]:
    return [row for row in ROWS if row.chapter == chapter and not missing(row)]


def imported(row: Row) -> list[str]:
    """Return the modules that a row imports."""
    return re.findall(r"^(?:import|from) ([\w.]+)", row.setup, re.MULTILINE)


def _settled(rows: list[Row]) -> set[str]:
    """Import what the rows import, so that collecting garbage between them is cheap; return the names."""
    for library in {name for row in rows for name in imported(row)}:
        importlib.import_module(library)
    gc.freeze()
    return set(_MAIN)


def _answer(row: Row) -> str:
    try:
        return repr(eval(row.expression, _MAIN))
    except BaseException as error:
        return f"raised {error!r}"


def _clear(before: set[str]) -> None:
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is not None:
        plt.close("all")
    for name in set(_MAIN) - before:
        del _MAIN[name]
    gc.collect()


warnings.simplefilter("ignore")
