"""The page of the site in which notebooks run: its notebook is run in a browser that reaches nothing else.

NBCKPT_SITE names the folder that MkDocs made, as for tests/test_site.py. See docs/decisions/0161.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from servers.files import served_folder

SITE = Path(os.environ.get("NBCKPT_SITE", "no site"))
LITE = SITE / "lite"

CONNECTED = """() => {
    const widget = window.jupyterapp && window.jupyterapp.shell.currentWidget;
    const kernel = widget && widget.sessionContext?.session?.kernel;
    return !!(kernel && widget.context.isReady && kernel.connectionStatus === 'connected');
}"""

pytestmark = pytest.mark.skipif(
    not LITE.exists(), reason="needs NBCKPT_SITE, the folder of a site that was built with NBCKPT_PYODIDE"
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served_folder(SITE) as address:
        yield address


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1300, "height": 4000})  # cells out of sight have no text
    yield context.new_page()
    context.close()


def test_the_page_has_our_wheel_and_what_it_needs() -> None:
    offered = json.loads((LITE / "pypi" / "all.json").read_text())
    assert {"nbckpt", "anywidget", "cloudpickle", "filelock"} <= offered.keys()


def test_the_page_offers_only_notebooks_that_run_there() -> None:
    packages = json.loads((LITE / "static/pyodide/pyodide-lock.json").read_text())["packages"]
    names = {"browser.ipynb", *(["01_quickstart.ipynb"] if "scikit-learn" in packages else [])}
    assert {file.name for file in (LITE / "files").glob("*.ipynb")} == names


@pytest.mark.browser
@pytest.mark.slow
def test_the_notebook_of_the_site_runs_and_asks_no_other_host(page: Page, address: str) -> None:
    asked: list[str] = []
    page.context.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address}/try.html")
    page.get_by_role("link", name="Open the quickstart").click()
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)
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
    assert len(asked) > 50
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


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
