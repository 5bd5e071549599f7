"""The JupyterLite site: built, and its notebook run in a browser that reaches nothing else."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from pyodide.packages import ROOT

BUILD = ROOT / "docs" / "lite" / "build.py"
IN_LOCK = ("micropip", "packaging")
"""What the kernel takes from Pyodide's own packages; all else comes from the site's index."""

CONNECTED = """() => {
    const widget = window.jupyterapp && window.jupyterapp.shell.currentWidget;
    const kernel = widget && widget.sessionContext?.session?.kernel;
    return !!(kernel && widget.context.isReady && kernel.connectionStatus === 'connected');
}"""


@pytest.fixture(scope="module")
def distribution(pyodide: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return Pyodide's folder with those packages that are in it, and no word of others."""
    folder = tmp_path_factory.mktemp("distribution") / "pyodide"
    shutil.copytree(pyodide, folder)
    lock = json.loads((folder / "pyodide-lock.json").read_text())
    lock["packages"] = {name: lock["packages"][name] for name in IN_LOCK}
    for about in lock["packages"].values():
        wheel = folder / about["file_name"]
        if not wheel.exists():
            pytest.skip(f"{wheel.name} is not in NBCKPT_PYODIDE: pip download it, as .ci/run does")
        about["sha256"] = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "pyodide-lock.json").write_text(json.dumps(lock))
    return folder


@pytest.fixture(scope="module")
def site(distribution: Path, wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a site that has everything in it."""
    pytest.importorskip("jupyterlite_core", reason="pip install jupyterlite-core jupyterlite-pyodide-kernel")
    others = tmp_path_factory.mktemp("others")
    for wheel in wheels.glob("*.whl"):
        if not wheel.name.startswith("nbckpt-"):
            shutil.copy(wheel, others)
    folder = tmp_path_factory.mktemp("lite") / "site"
    options = ["--pyodide", str(distribution), "--wheels", str(others)]
    subprocess.run([sys.executable, str(BUILD), str(folder), *options], check=True, timeout=240)
    return folder


@pytest.fixture
def url(site: Path) -> Iterator[str]:
    """Serve the site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """Return the site's notebook, opened."""
    context = browser.new_context(viewport={"width": 1300, "height": 4000})  # cells out of sight have no text
    page = context.new_page()
    page.goto(f"{url}/lab/index.html?path=browser.ipynb")
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)
    yield page
    context.close()


def test_the_site_offers_our_wheel_and_both_notebooks(site: Path) -> None:
    assert "nbckpt" in json.loads((site / "pypi" / "all.json").read_text())
    first = json.loads((site / "files" / "01_quickstart.ipynb").read_text())["cells"][0]
    assert first["source"].startswith("%pip install -q nbckpt")
    assert (site / "files" / "browser.ipynb").exists()


@pytest.mark.browser
@pytest.mark.slow
def test_the_notebook_runs_in_the_browser_without_a_server(page: Page) -> None:
    page.wait_for_function(CONNECTED, timeout=60_000)
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    page.wait_for_selector(".jp-OutputArea:has-text('2 checkpoints in')", timeout=200_000)
    page.wait_for_selector(".nbckpt", timeout=60_000)
    outputs = page.locator(".jp-OutputArea")
    for text in (
        "variable differs",
        "(True, {'steps': 20000",
        "threads cannot start here: trials run one after the other in the cell",
        "{'rate': 0.4}",
    ):
        expect(outputs.filter(has_text=text).first).to_be_visible()
    for text in ("Traceback", "Error"):
        expect(outputs.filter(has_text=text)).to_have_count(0)
    clicks_open_sort_save_and_restore(page.locator(".nbckpt"))


def clicks_open_sort_save_and_restore(panel: Locator) -> None:
    """Use the panel below the last cell: no thread can start here, and all is answered between cells."""
    expect(panel.locator(".nb-heading")).to_contain_text("Best: t2")
    header = panel.get_by_role("grid").get_by_role("columnheader", name="rate")
    header.click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    panel.locator("[data-id=t0] .nb-name").dblclick()
    expect(panel.locator(".nb-page").get_by_text("0.01").first).to_be_visible()
    panel.get_by_role("tab", name="Checkpoints").click()
    panel.get_by_label("Name of the checkpoint").fill("mine")
    panel.get_by_role("button", name="Save all variables").click()
    rows = panel.locator(".nb-rows .nb-row")
    expect(rows.filter(has_text="mine@1")).to_be_visible()
    rows.filter(has_text="walk@1").click()
    expect(panel.locator(".nb-values")).to_contain_text("≠")
    panel.get_by_role("button", name="Restore all").click()
    panel.locator("[data-action=confirm]").click()
    expect(panel.locator(".nb-message")).to_contain_text("Restored")
    expect(panel.locator(".nb-state")).to_have_text("● Live")
