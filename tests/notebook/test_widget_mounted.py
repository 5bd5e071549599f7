"""The widget of the panel: small in the notebook, never displayed, and gone when it is closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from comm import get_comm_manager

from late import Library
from nbckpt._private_apis import free_comm
from notebook.conftest import Notebook

ipywidgets = pytest.importorskip("ipywidgets", minversion="8")
pytest.importorskip("anywidget")

from nbckpt.notebook.widget import parts  # noqa: E402
from nbckpt.notebook.widget.mounted import Mounted  # noqa: E402
from nbckpt.notebook.widget.parts import front_parts  # noqa: E402
from nbckpt.notebook.widget.place import Place  # noqa: E402

nbconvert, nbformat = Library("nbconvert"), Library("nbformat")

LARGEST_LOADER, LARGEST = 2_000, 30_000


class Heard(Mounted):
    """A widget that keeps what it sends, and what it hears."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, Any]] = []
        self.heard: list[Any] = []
        super().__init__(lambda content, _: self.heard.append(content), "a-place")

    def send(self, content: Any, buffers: Any = None) -> None:
        self.sent.append((content, buffers))


def test_the_loader_is_small_and_the_state_has_no_modules() -> None:
    widget = Heard()
    state = widget.get_state()
    assert len(state["_esm"].encode()) <= LARGEST_LOADER
    assert len(str(state)) < 2_000
    widget.close()


def test_a_part_names_the_modules_that_the_panel_loads() -> None:
    names = json.loads(front_parts()["names.json"])
    ours = {name.removesuffix(".js") for name in front_parts() if name.endswith(".js") and "/" not in name}
    assert set(names) == ours - {"mount", "panel"}


def test_another_part_gives_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = parts.version.__wrapped__()
    changed = dict(front_parts(), **{"mount.js": b"changed"})
    monkeypatch.setattr(parts, "front_parts", lambda: changed)
    assert parts.version.__wrapped__() != before == parts.version()


def test_parts_are_sent_by_their_names_only() -> None:
    widget = Heard()
    for name in ("mount.js", "loader.js", "../mounted.py", 3, None):
        data = {"method": "custom", "content": {"kind": "part", "name": name}}
        widget.comm.handle_msg({"content": {"data": data}, "buffers": []})
    assert widget.sent == [({"kind": "part", "name": "mount.js"}, [front_parts()["mount.js"]])]
    assert len(widget.heard) == 4
    widget.close()


def test_only_html_with_a_place_is_shown(notebook: Notebook, published: list[dict[str, Any]]) -> None:
    place = Place()
    published.clear()
    place.show()
    (output,) = published
    assert list(output["data"]) == ["text/html"]
    assert f'data-nbckpt-place="{place.name}"' in output["data"]["text/html"]
    assert "Run this cell again for the buttons." in output["data"]["text/html"]


def test_a_hundred_closed_widgets_leave_nothing() -> None:
    before = {*get_comm_manager().comms}
    for _ in range(100):
        Heard().close()
    assert {*get_comm_manager().comms} == before
    widget = Heard()
    widget.close()
    widget.close()  # closing again is allowed


def test_the_front_end_chooses_the_thread_of_the_next_message() -> None:
    comm = SimpleNamespace(_reply_subshell_id="a")
    free_comm(comm)
    assert vars(comm) == {}
    free_comm(comm)
    free_comm(None)


def test_each_message_lets_the_front_end_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    widget = Mounted(lambda *_: None, "a-place")
    for send in (lambda: widget.send({"kind": "said"}), lambda: setattr(widget, "pane", "trials")):
        widget.comm._reply_subshell_id = "of-a-cell"
        send()
        assert not hasattr(widget.comm, "_reply_subshell_id")
    widget.close()


BEGIN = """
%load_ext nbckpt
import nbckpt, random
def train(config):
    for step in range(50):
        nbckpt.report({"loss": random.random(), "accuracy": random.random(), "a rather long name": step})
    if config["width"] > 200:
        raise ValueError("diverged at step 50: " + "x" * 500)
for i in range(30):
    exec(f"value_{i} = list(range({i}))")
    get_ipython().run_line_magic("ckpt", f"save state{i} -m 'the state after step {i}'")
"""
RUN = (
    "experiment = nbckpt.run(train, {'lr': nbckpt.grid_search([0.1, 0.01, 0.001]), 'depth': 3, "
    "'width': nbckpt.grid_search(list(range(0, 300, 15)))}, name='many', executor='inline')"
)
PANELS = ("%ckpt panel", "%ckpt panel trials", "%ckpt panel sync", "%ckpt panel history") * 2


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Execute a notebook in place, with several panels, of which two come before the trials."""
    folder = tmp_path_factory.mktemp("executed")
    sources = [BEGIN, *PANELS[:2], RUN, *PANELS[2:], "pass"]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    file = folder / "panels.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), file)
    environment = os.environ | {
        "NBCKPT_PANEL": "widget",
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    command = [sys.executable, "-m", "jupyter", "execute", "--inplace", str(file)]
    subprocess.run(command, env=environment, check=True, cwd=folder, timeout=240)
    return nbformat.read(file, as_version=4)


@pytest.mark.slow
def test_all_panels_of_a_notebook_keep_at_most_30_kb(executed: Any) -> None:
    outputs = [output for cell in executed.cells if "panel" in cell.source for output in cell.outputs]
    assert len(outputs) == 2 * len(PANELS)
    size = len(json.dumps(executed.metadata.get("widgets", {}))) + len(json.dumps(outputs))
    assert size <= LARGEST, size


@pytest.mark.slow
def test_an_executed_notebook_has_the_last_state_as_html_only(executed: Any) -> None:
    outputs = [cell.outputs for cell in executed.cells]
    for output in (*outputs[1], *outputs[2], *outputs[4]):
        assert list(output.data) == ["text/html"]
    assert "state29@1" in outputs[1][0].data["text/html"]
    assert "60 trials" in outputs[2][0].data["text/html"]
    assert "not synced" in outputs[4][0].data["text/html"]


@pytest.mark.slow
def test_an_exported_notebook_tells_the_last_state(executed: Any) -> None:
    html, _ = nbconvert.HTMLExporter().from_notebook_node(executed)
    for state in ("state29@1", "60 trials", "not synced", "Run this cell again for the buttons."):
        assert state in html, state
    assert '<script type="application/vnd.jupyter.widget-view+json">' not in html
