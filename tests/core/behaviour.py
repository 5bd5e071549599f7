"""Objects that a notebook makes, and what each must still do after a restore: the rows of behaviour.txt.

Objects of other people's libraries are the rows of the files in tests/world.

A line `# …` begins a chapter, with what its rows import. `## …` begins a row: a cell that makes the values,
after `...` a cell that changes them, and after `>>>` an expression. If something is lost, a part of the
warning is in brackets behind the name of the row. `[not yet: …]` marks a row that comes back wrong unnamed.

`python -c "from core.behaviour import save; save(folder, chapter)"` is a kernel that saves every row of a
chapter, restores it and undoes its change; `load` is a new kernel that restores it along every route.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

if TYPE_CHECKING:
    from nbckpt import Tracker


TESTS = Path(__file__).parents[1]


class Row(NamedTuple):
    """A row. If it has a change, it is saved before and after that, and its expression changes nothing."""

    chapter: str
    case: str
    setup: str
    change: str
    expression: str
    mark: str

    @property
    def outcome(self) -> str:
        """Return how the row ends: `right`, `named` at the save, or `not yet`."""
        return "not yet" if self.mark.startswith("not yet") else "named" if self.mark else "right"

    @property
    def warning(self) -> str:
        """Return the part of the warning that the save must show; nothing if the row is not named."""
        return self.mark if self.outcome == "named" else ""

    @property
    def moments(self) -> tuple[str, ...]:
        """The names of the checkpoints of the row."""
        return ("before", "after") if self.change else ("before",)


def _rows(file: Path) -> Iterator[Row]:
    for text in ("\n" + file.read_text("utf-8")).split("\n# ")[1:]:
        head, *parts = text.split("\n## ")
        chapter, imports = head.split("\n", 1)
        for part in parts:
            case, *lines, expression = part.strip().split("\n")
            case, _, mark = case.removesuffix("]").partition(" [")
            setup = "\n".join(line for line in lines if not line.startswith("... "))
            change = "\n".join(line.removeprefix("... ") for line in lines if line.startswith("... "))
            yield Row(chapter, case, imports + setup, change, expression.removeprefix(">>> "), mark)


ROWS = list(_rows(Path(__file__).with_suffix(".txt")))
WORLD = [row for file in sorted((TESTS / "world").glob("*.txt")) for row in _rows(file)]
STEPS = [
    ("%ckpt undo", "before"),
    ("%ckpt redo", "after"),
    ("%ckpt checkout before;", "before"),
    ("%ckpt undo", "after"),
    ("%ckpt restore before;", "before"),
    ("%ckpt restore after;", "after"),
]
"""What a user does after the change, and which values the variables have then."""
MAIN = vars(sys.modules["__main__"])


def chapters(rows: list[Row]) -> list[str]:
    """Return the chapters of rows, in order."""
    return list(dict.fromkeys(row.chapter for row in rows))


def asked(step: str, folder: Path, chapter: str, module: str = "core.behaviour") -> dict[str, dict[str, str]]:
    """Return what each row of a chapter gives in a new kernel that runs a function of a module."""
    path = os.pathsep.join([str(TESTS), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", f"from {module} import {step}; {step}({str(folder)!r}, {chapter!r})"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=folder,
        env=os.environ | {"IPYTHONDIR": str(folder / "ipython"), "MPLBACKEND": "agg", "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def wrong_answers(row: Row, answers: dict[str, str]) -> dict[str, str]:
    """Return the answers that differ from those before the save, by moment and step."""
    return {
        when: answer
        for when, answer in answers.items()
        if answer != answers.get(when.partition(",")[0])
        or (when in row.moments and answer.startswith("raised"))
    }


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
    rows = installed(chapter)
    before = settled(rows)
    with Tracker(Path(folder) / "store") as tracker:
        for row in rows:
            given = answers[row.case] = {"warnings": ""}
            try:
                _save(row, tracker, before, folder, given)
            except Exception as error:
                given["before"] = f"raised {error!r}"
            clear(before)
    shell = _shell()
    for row in rows:
        if not row.warning:  # auto makes no point for a change of lost parts
            answers[row.case] |= _stepped(row, shell)
    print(json.dumps(answers))


def _save(row: Row, tracker: Tracker, before: set[str], folder: str, given: dict[str, str]) -> None:
    for moment, cell in zip(row.moments, (row.setup, row.change), strict=False):
        run_cell(cell)
        _write_files(row, {name: MAIN[name] for name in MAIN if name not in before}, moment, folder)
        saved = tracker.save(MAIN, f"{row.case} {moment}", hidden=before).manifest
        skipped = [f"{skipped.name}: {skipped.reason}" for skipped in saved.skipped]
        given["warnings"] += " | ".join([*skipped, *saved.warnings])
        given[moment] = answer(row)
    for moment in row.moments:
        tracker.restore(f"{row.case} {moment}", MAIN, hidden=before)
        given[f"{moment}, restored in its kernel"] = answer(row)


def load(folder: str, chapter: str) -> None:
    """Restore every row along every route in this new kernel; print what its expression gives."""
    from nbckpt import Checkpoint, Tracker
    from nbckpt.states.values import read

    answers: dict[str, dict[str, str]] = {}
    rows = installed(chapter)
    before = settled(rows)
    routes: dict[str, Callable[[bytes], Any]] = {
        "from_dict": lambda data: Checkpoint.from_bytes(data, trust=True).to_dict(),
        "state": lambda data: read(BytesIO(data)),
    }
    with Tracker(Path(folder) / "store") as tracker:
        for row in rows:
            given = answers[row.case] = {}
            for moment in row.moments:
                try:
                    tracker.restore(f"{row.case} {moment}", MAIN)
                    given[f"{moment}, restored"] = answer(row)
                except Exception as error:
                    given[f"{moment}, restored"] = f"raised {error!r}"
                clear(before)
                for route, load_from in routes.items():
                    if (file := _file(folder, row, moment, route)).exists():
                        try:
                            MAIN.update(load_from(file.read_bytes()))
                            given[f"{moment}, {route}"] = answer(row)
                        except Exception as error:
                            given[f"{moment}, {route}"] = f"raised {error!r}"
                        clear(before)
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
    return Path(folder) / f"{(*ROWS, *WORLD).index(row)}.{moment}.{route}"


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


def installed(chapter: str) -> list[Row]:
    """Return the rows of a chapter whose libraries are installed here."""
    return [row for row in (*ROWS, *WORLD) if row.chapter == chapter and not missing(row)]


def imported(row: Row) -> list[str]:
    """Return the modules that a row imports."""
    return re.findall(r"^(?:import|from) ([\w.]+)", row.setup, re.MULTILINE)


def settled(rows: list[Row]) -> set[str]:
    """Import what the rows import, so that collecting garbage between them is cheap; return the names."""
    for library in {name for row in rows for name in imported(row)}:
        importlib.import_module(library)
    gc.freeze()
    return set(MAIN)


def run_cell(cell: str) -> None:
    """Run a cell in this kernel."""
    exec(compile(cell, "<cell>", "exec", dont_inherit=True), MAIN)


def answer(row: Row) -> str:
    """Return what the expression of a row gives now."""
    try:
        return repr(eval(row.expression, MAIN))
    except BaseException as error:
        return f"raised {error!r}"


def clear(before: set[str]) -> None:
    """Forget all names of this kernel but those that it had before."""
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is not None:
        plt.close("all")
    for name in set(MAIN) - before:
        del MAIN[name]
    gc.collect()


warnings.simplefilter("ignore")
