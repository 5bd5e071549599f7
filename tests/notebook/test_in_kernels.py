"""%%ckpt cell and %ckpt auto in real kernels: displays, interrupts, kills, and two kernels at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kernels
from notebook.conftest import AUTO_ON

pytestmark = pytest.mark.slow

SHOWN = {"stream", "display_data", "execute_result", "error", "update_display_data"}


class Kernel:
    """A kernel in a folder, and its client."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager, self.client = manager, client
        self.run("%load_ext nbckpt")

    def run(self, cell: str) -> list[tuple[str, dict[str, Any]]]:
        """Run a cell and return its outputs."""
        outputs: list[tuple[str, dict[str, Any]]] = []

        def take(message: dict[str, Any]) -> None:
            if message["msg_type"] in SHOWN:
                outputs.append((message["msg_type"], message["content"]))

        self.client.execute_interactive(cell, output_hook=take, timeout=120)
        return outputs

    def reply(self, request: str) -> dict[str, Any]:
        """Return the content of the reply to a request."""
        while True:
            reply: dict[str, Any] = self.client.get_shell_msg(timeout=120)
            if reply["parent_header"]["msg_id"] == request:
                return dict(reply["content"])

    def value(self, expression: str) -> str:
        """Return the text of an expression."""
        return str(self.run(expression)[-1][1]["data"]["text/plain"])


@contextmanager
def kernel(folder: Path) -> Iterator[Kernel]:
    with kernels.lent(folder) as (manager, client):
        yield Kernel(manager, client)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    return tmp_path


def notice(outputs: list[tuple[str, dict[str, Any]]]) -> str:
    """Return our own line, which may replace a progress bar."""
    return next(str(content["data"]["text/plain"]) for kind, content in outputs if _is_ours(kind, content))


def _is_ours(kind: str, content: dict[str, Any]) -> bool:
    return kind.endswith("display_data") and " of cell " in content["data"]["text/plain"]


def bare(outputs: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Return outputs as people see them: an update in the place of its display, without our own line."""
    seen: list[Any] = []
    places: dict[str, int] = {}
    updated = {content["transient"].get("display_id") for kind, content in outputs if _is_ours(kind, content)}
    for kind, content in outputs:
        if kind == "stream":
            seen.append((content["name"], content["text"]))
            continue
        data, display_id = content["data"], content.get("transient", {}).get("display_id")
        if kind == "update_display_data" and display_id in places:
            seen[places[display_id]] = ("display_data", data)
        elif not _is_ours(kind, content) and (display_id is None or display_id not in updated):
            places[display_id] = len(seen)
            seen.append((kind, data))
    return seen


FIGURE = """%%ckpt cell figure
%matplotlib inline
import matplotlib.pyplot as plt
import sys
from IPython.display import HTML, display
print("before")
handle = display(HTML("<b>1</b>"), display_id="bar")
fig, ax = plt.subplots(figsize=(2, 1))
ax.plot([1, 2, k])
print("careful", file=sys.stderr)
handle.update(HTML("<b>2</b>"))
plt.show()
print("after")
fig2, ax2 = plt.subplots(figsize=(1, 1))
ax.get_ylim()
"""


def test_figures_and_prints_come_back_in_order_in_a_new_kernel(folder: Path) -> None:
    with kernel(folder) as first:
        first.run("k = 3")
        outputs = bare(first.run(FIGURE))
    kinds = "stdout display_data stderr display_data stdout execute_result display_data"
    assert [kind for kind, _ in outputs] == kinds.split()
    with kernel(folder) as second:
        second.run("k = 3")
        again = second.run(FIGURE)
        assert "Restored HTML, ax" in notice(again)
        assert "computed" in notice(again)
        assert bare(again) == outputs
        assert second.value("fig.axes[0] is ax") == "True"
        assert second.value("_") == "True"


CLEARED = """%%ckpt cell cleared
import ipywidgets
from IPython.display import clear_output
print("gone")
for step in range(3):
    clear_output(wait=True)
    print("step", step)
ipywidgets.IntSlider()
"""


def test_cleared_outputs_stay_away_and_widgets_are_named(folder: Path) -> None:
    pytest.importorskip("ipywidgets")
    with kernel(folder) as running:
        running.run(CLEARED)
        again = running.run(CLEARED)
        assert bare(again)[0] == ("stdout", "step 2\n")
        assert "Not kept: a widget" in notice(again)
        assert "application/vnd.jupyter.widget-view+json" not in again[-1][1]["data"]


SLOW = """%%ckpt cell slow
from pathlib import Path
import time
count = int(Path("count").read_text()) if Path("count").exists() else 0
Path("count").write_text(str(count + 1))
print("it runs")
while not Path("go").exists():
    time.sleep(0.01)
x = [1]
"""


def started(running: Kernel) -> str:
    """Begin the slow cell, and return its request after it has printed."""
    # After an error a kernel may abort the next request too.
    request: str = running.client.execute(SLOW, stop_on_error=False)
    while True:
        message = running.client.get_iopub_msg(timeout=120)
        if "it runs" in message["content"].get("text", ""):
            return request


def test_an_interrupted_or_killed_cell_keeps_nothing(folder: Path) -> None:
    with kernel(folder) as running:
        request = started(running)
        running.manager.interrupt_kernel()
        assert running.reply(request)["ename"] == "KeyboardInterrupt"
        started(running)
        running.manager.signal_kernel(signal.SIGKILL)
        while running.manager.is_alive():
            time.sleep(0.01)
    assert not any((folder / "store").rglob("cells/*"))
    (folder / "go").touch()
    with kernel(folder) as running:
        running.run(SLOW)
        running.run(SLOW)
    assert (folder / "count").read_text() == "3"


def test_two_kernels_can_run_the_same_cell_at_once(folder: Path) -> None:
    with kernel(folder) as first, kernel(folder) as second:
        requests = [(running, started(running)) for running in (first, second)]
        (folder / "go").touch()
        for running, request in requests:
            assert running.reply(request)["status"] == "ok"
        for running, _ in requests:
            running.run("x = None")
            running.run(SLOW)
            assert running.value("x") == "[1]"
    assert (folder / "count").read_text() == "2"


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
