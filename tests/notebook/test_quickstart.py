"""The quickstart: its outputs are what they say, and a kernel that really restarts loses nothing.

After a change to the notebook or to how results look, run it from top to bottom in a fresh folder and
commit it with its outputs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
import pytest
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "notebooks" / "01_quickstart.ipynb"
CHECKED = "nbval-check-output"
STATE = """
import hashlib
import pandas
print(hashlib.sha256(features).hexdigest(), hashlib.sha256(model.coef_.tobytes()).hexdigest())
print(pandas.util.hash_pandas_object(digits).sum(), by_digit.to_dict(), accuracy(model))
print(lift.directions[0, :3], [axis.get_title() for axis in figure.axes])
"""


@pytest.fixture
def quickstart() -> NotebookNode:
    return nbformat.read(QUICKSTART, as_version=4)


def code_cells(quickstart: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in quickstart.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def run(client: NotebookClient, cells: Iterable[NotebookNode]) -> None:
    for cell in cells:
        client.execute_cell(cell, client.nb.cells.index(cell))


def evaluate(client: NotebookClient, source: str) -> str:
    """Return what *source* prints in the notebook's kernel."""
    cell = nbformat.v4.new_code_cell(source)
    client.nb.cells.append(cell)
    run(client, [cell])
    return "".join(output.text for output in cell.outputs if output.get("name") == "stdout")


def restart(client: NotebookClient) -> None:
    assert client.km is not None
    assert client.kc is not None
    run_sync(client.km.restart_kernel)(now=True)
    run_sync(client.kc.wait_for_ready)(timeout=60)


def test_the_quickstart_is_committed_whole(quickstart: NotebookNode) -> None:
    nbformat.validate(quickstart)
    assert (quickstart.nbformat, quickstart.nbformat_minor) == (4, 5)
    checked = [cell for cell in code_cells(quickstart) if CHECKED in tags(cell)]
    assert len(checked) >= 10
    assert all(cell.outputs for cell in checked)
    kinds = {output.output_type for cell in code_cells(quickstart) for output in cell.outputs}
    assert "error" not in kinds


@pytest.mark.slow
def test_the_quickstart_still_shows_what_it_shows(tmp_path: Path) -> None:
    shutil.copy(QUICKSTART, tmp_path)
    nbval = ["--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=120"]
    sanitize = f"--nbval-sanitize-with={ROOT / 'tests' / 'sanitize.cfg'}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *nbval, sanitize, "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_restarted_kernel_gets_everything_back(quickstart: NotebookNode, tmp_path: Path) -> None:
    cells = code_cells(quickstart)
    loss = next(at for at, cell in enumerate(cells) if "loss" in tags(cell))
    restored = next(at for at, cell in enumerate(cells) if cell.id == "restore") + 1
    client = NotebookClient(quickstart, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    with client.setup_kernel():
        run(client, cells[:loss])
        before = evaluate(client, STATE)
        restart(client)
        assert evaluate(client, "print('features' in globals())") == "False\n"
        run(client, cells[loss + 1 : restored])
        assert evaluate(client, STATE) == before
        run(client, cells[restored:])
