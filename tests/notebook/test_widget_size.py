"""What a notebook keeps of its panels: little, and their last state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from late import Library

pytest.importorskip("ipywidgets", minversion="8")
pytest.importorskip("anywidget")

nbconvert, nbformat = Library("nbconvert"), Library("nbformat")

LARGEST = 30_000
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
