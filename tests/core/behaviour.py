"""Objects that a notebook makes, and what each must still do after a restore.

`python -c "from core.behaviour import save; save(folder)"` is a kernel that saves every row; `load` is a new
kernel that restores each of them along every route, plain cloudpickle among them.
"""

from __future__ import annotations

import gc
import importlib
import json
import re
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle


class Row(NamedTuple):
    """A cell, an expression that gives the same after a restore, and a word that the save says of it."""

    case: str
    setup: str
    expression: str
    warning: str = ""


def _rows() -> list[Row]:
    rows = []
    for text in ("\n" + Path(__file__).with_suffix(".txt").read_text("utf-8")).split("\n## ")[1:]:
        case, rest = text.split("\n", 1)
        setup, expression = rest.split("\n>>> ")
        case, _, warning = case.removesuffix("]").partition(" [")
        rows.append(Row(case, setup, expression.strip(), warning))
    return rows


def missing(row: Row) -> str:
    """Return a library that a row imports and that is not installed here; nothing if all are."""
    libraries = re.findall(r"^(?:import|from) (\w+)", row.setup, re.MULTILINE)
    return next((name for name in libraries if find_spec(name) is None), "")


ROWS = _rows()
HERE = [row for row in ROWS if not missing(row)]
ROUTES = ("restored", "from_dict", "state", "plain")
_MAIN = vars(sys.modules["__main__"])


def save(folder: str) -> None:
    """Run and save every row; print what its expression gives, and what it gives after a restore here."""
    from nbckpt import Checkpoint, Tracker
    from nbckpt.states.values import write

    answers: dict[str, dict[str, str]] = {}
    before = _settled()
    with Tracker(Path(folder) / "store") as tracker:
        for at, row in enumerate(HERE):
            exec(row.setup, _MAIN)
            items = {name: value for name, value in _MAIN.items() if name not in before}
            saved = tracker.save(_MAIN, f"row{at}", hidden=before)
            warnings = [f"{skipped.name}: {skipped.reason}" for skipped in saved.manifest.skipped]
            file = BytesIO()
            routes: dict[str, Callable[[], bytes]] = {
                "from_dict": lambda items=items: Checkpoint.from_dict(items).to_bytes(),
                "state": lambda items=items, file=file: [write(items, file), file.getvalue()][1],
                "plain": lambda items=items: cloudpickle.dumps(items),
            }
            for route, made in routes.items():
                (Path(folder) / f"{at}.{route}").write_bytes(_tried(made))
            answers[row.case] = {
                "warnings": " | ".join([*warnings, *saved.manifest.warnings]),
                "before": _answer(row),
            }
            tracker.restore(f"row{at}", _MAIN, hidden=before)
            answers[row.case]["live"] = _answer(row)
            answers[row.case]["plain live"] = _answer_of_cloudpickle(row, Path(folder) / f"{at}.plain")
            _clear(before)
    print(json.dumps(answers))


def load(folder: str) -> None:
    """Restore every row along every route in this new kernel; print what its expression gives."""
    from nbckpt import Checkpoint, Tracker
    from nbckpt.states.values import read

    answers: dict[str, dict[str, str]] = {}
    before = _settled()
    with Tracker(Path(folder) / "store") as tracker:
        for at, row in enumerate(HERE):
            answers[row.case] = {}
            for route in ROUTES:
                try:
                    if route == "restored":
                        tracker.restore(f"row{at}", _MAIN)
                    else:
                        data = (Path(folder) / f"{at}.{route}").read_bytes()
                        readers: dict[str, Callable[[bytes], Any]] = {
                            "from_dict": lambda data: Checkpoint.from_bytes(data, trust=True).to_dict(),
                            "state": lambda data: read(BytesIO(data)),
                            "plain": cloudpickle.loads,
                        }
                        _MAIN.update(readers[route](data))
                    answers[row.case][route] = _answer(row)
                except Exception as error:
                    answers[row.case][route] = f"raised {error!r}"
                _clear(before)
    print(json.dumps(answers))


def _settled() -> set[str]:
    """Import what the rows import, so that collecting garbage between them is cheap; return the names."""
    for library in (
        "sklearn.pipeline",
        "pandas",
        "pyarrow",
        "torch",
        "matplotlib.pyplot",
        "attrs",
        "pydantic",
    ):
        if find_spec(library.partition(".")[0]):
            importlib.import_module(library)
    gc.freeze()
    return set(_MAIN)


def _answer(row: Row) -> str:
    try:
        return repr(eval(row.expression, _MAIN))
    except BaseException as error:
        return f"raised {error!r}"


def _answer_of_cloudpickle(row: Row, file: Path) -> str:
    try:
        _MAIN.update(cloudpickle.loads(file.read_bytes()))
    except Exception as error:
        return f"raised {error!r}"
    return _answer(row)


def _tried(made: Callable[[], bytes]) -> bytes:
    try:
        return made()
    except Exception as error:
        return f"refused: {error}".encode()


def _clear(before: set[str]) -> None:
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is not None:
        plt.close("all")
    for name in set(_MAIN) - before:
        del _MAIN[name]
    gc.collect()


warnings.simplefilter("ignore")
