"""%ckpt auto in real kernels: a kill in the middle of a save, and two kernels of one notebook."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from notebook.conftest import AUTO_ON
from notebook.test_cell_kernel import Kernel, folder, kernel

__all__ = ["folder"]

pytestmark = pytest.mark.slow

STUCK = """
import time
from pathlib import Path
from nbckpt.core.history import History
def stuck(*_, **__):
    Path("stuck").touch()
    time.sleep(600)
History.publish = stuck
"""


def said(running: Kernel, cell: str) -> str:
    """Run a cell and return what it prints."""
    return "".join(content["text"] for kind, content in running.run(cell) if kind == "stream")


def test_a_kill_in_an_automatic_save_leaves_the_last_point(folder: Path) -> None:
    with kernel(folder) as first:
        first.run(AUTO_ON)
        first.run("import numpy as np; a = [1]; big = np.zeros(1_000_000)")
        first.run("a.append(2)")
        first.client.execute(STUCK + "a.append(3); big[:] = 7")
        while not (folder / "stuck").exists():
            time.sleep(0.01)
        first.manager.signal_kernel(signal.SIGKILL)
        while first.manager.is_alive():
            time.sleep(0.01)
    with kernel(folder) as second:
        line = said(second, "%reload_ext nbckpt")
        assert line.startswith("State of ")
        second.run(AUTO_ON)
        second.run(line.partition(": ")[2])
        assert second.value("a, float(big.sum())") == "([1, 2], 0.0)"
        assert "Everything verified" in str(second.run("%ckpt verify"))


def test_two_kernels_of_one_notebook_undo_their_own_cells(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "/same.ipynb")
    with kernel(folder) as first, kernel(folder) as second:
        for running, start in ((first, 1), (second, 10)):
            running.run(f"{AUTO_ON} --keep 3")
            running.run(f"a = [{start}]")
        for number in range(6):
            second.run(f"a.append({number})")
            if number == 3:
                first.run("a.append(2)")
        first.run("%ckpt undo")
        second.run("%ckpt undo 2")
        assert first.value("a") == "[1]"
        assert second.value("a") == "[10, 0, 1, 2, 3]"


@pytest.mark.parametrize("last", ["", "; time.sleep(600)"], ids=["idle", "in a cell"])
def test_a_shutdown_saves_what_no_point_holds(folder: Path, last: str) -> None:
    """Jupyter asks a kernel to end, as a hub's culling does, then sends SIGTERM, and at last kills it."""
    with kernel(folder) as first:
        first.run(f"{AUTO_ON} --budget 0.0001%")
        first.run("import numpy as np, pathlib, time; a = [1]; big = np.zeros(1_000_000)")
        first.client.execute(f"a.append(2); big[:] = 7; pathlib.Path('ready').touch(){last}")
        while not (folder / "ready").exists():
            time.sleep(0.01)
        first.manager.shutdown_wait_time = 60  # it is 5, but this machine may have much else to do
        first.manager.shutdown_kernel()
    with kernel(folder) as second:
        line = said(second, "%reload_ext nbckpt")
        second.run(AUTO_ON)
        second.run(line.partition(": ")[2])
        assert second.value("a, float(big.sum())") == "([1, 2], 7000000.0)"
