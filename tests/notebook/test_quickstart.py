"""The quickstart: a kernel that really restarts loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from notebook.committed import FOLDER, code_cells, evaluate, kernel, read, restart, run, tags

STATE = """
import hashlib
import pandas
print(hashlib.sha256(features).hexdigest(), hashlib.sha256(model.coef_.tobytes()).hexdigest())
print(pandas.util.hash_pandas_object(digits).sum(), by_digit.to_dict(), accuracy(model))
print(lift.directions[0, :3], [axis.get_title() for axis in figure.axes])
"""


@pytest.mark.slow
def test_a_restarted_kernel_restores_everything(tmp_path: Path) -> None:
    quickstart = read(FOLDER / "01_quickstart.ipynb")
    cells = code_cells(quickstart)
    loss = next(at for at, cell in enumerate(cells) if "loss" in tags(cell))
    restored = next(at for at, cell in enumerate(cells) if cell.id == "restore") + 1
    with kernel(quickstart, tmp_path) as client:
        run(client, cells[:loss])
        before = evaluate(client, STATE)
        restart(client)
        assert evaluate(client, "print('features' in globals())") == "False\n"
        run(client, cells[loss + 1 : restored])
        assert evaluate(client, STATE) == before
        run(client, cells[restored:])
