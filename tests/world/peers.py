"""The rows of tests/world with cloudpickle and dill, beside nbckpt.

`python -c "from world.peers import save_with_dill; save_with_dill(folder, chapter)"` is a kernel that pickles
the variables of each row, and prints what its expression gives. `load_with_dill` is a new kernel that loads
them.
"""

from __future__ import annotations

import importlib
import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

from core.behaviour import MAIN, WORLD, answer, clear, installed, run_cell, settled

PEERS = "cloudpickle", "dill"
_LONGEST_S = 20  # dill restores a lock that is held: the row would wait forever


def save_with(peer: str, folder: str, chapter: str) -> None:
    """Pickle the variables of each row after its change; print what its expression gives."""
    library, answers = importlib.import_module(peer), {}
    rows = installed(chapter)
    before = settled(rows)
    for row in rows:
        file = Path(folder) / f"{WORLD.index(row)}.{peer}"
        run_cell(row.setup)
        run_cell(row.change)
        try:
            file.write_bytes(library.dumps(_values(before)))
            answers[row.case] = {"answer": answer(row)}
        except Exception as error:
            answers[row.case] = {"refused": repr(error)}
        clear(before)
    print(json.dumps(answers))


def load_with(peer: str, folder: str, chapter: str) -> None:
    """Load the variables of each row in this new kernel; print what its expression gives."""
    library, answers = importlib.import_module(peer), {}
    rows = installed(chapter)
    before = settled(rows)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    for row in rows:
        if (file := Path(folder) / f"{WORLD.index(row)}.{peer}").exists():
            signal.alarm(_LONGEST_S)
            try:
                MAIN.update(library.loads(file.read_bytes()))
                answers[row.case] = {"answer": answer(row)}
            except (Exception, KeyboardInterrupt) as error:
                answers[row.case] = {"answer": f"raised {error!r}"}
            signal.alarm(0)
            clear(before)
    print(json.dumps(answers))


def _values(before: set[str]) -> dict[str, Any]:
    """Return the variables of a row, with the modules that it imports: its functions need them."""
    return {name: value for name, value in MAIN.items() if name not in before}


save_with_cloudpickle, load_with_cloudpickle = (
    partial(step, "cloudpickle") for step in (save_with, load_with)
)
save_with_dill, load_with_dill = (partial(step, "dill") for step in (save_with, load_with))
