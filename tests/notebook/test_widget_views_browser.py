"""The panel in two views of one notebook: one of them out of sight leaves the other one live."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Locator, expect

from notebook.lab import WAITING_TRIALS, Lab, page_of

pytestmark = pytest.mark.browser

RUN = "live = nbckpt.run(train, {{'i': 1}}, name='{}')"
HIDE = "(panel) => { panel.style.display = 'none'; }"
SETTLED_MS = 1000


def opened(lab: Lab, name: str) -> Locator:
    """Run a trial that waits and open the panel; return it."""
    lab.open(f"{name}.ipynb", WAITING_TRIALS, RUN.format(name), "%ckpt panel trials", "go_on()")
    for at in range(3):
        lab.run(at)
    panel = lab.output(2).locator(".nb-panel")
    expect(row(panel)).to_contain_text("Running")
    return panel


def row(panel: Locator) -> Locator:
    return panel.locator(".nb-rows [data-id=t0]")


def test_a_notebook_in_two_pages_has_two_live_panels(lab: Lab, browser: Browser) -> None:
    panel = opened(lab, "pages")
    lab.command("docmanager:save")
    with page_of(browser, lab.url, lab.folder) as other:
        other.enter("pages.ipynb")
        second = other.output(2).locator(".nb-panel")
        expect(row(second)).to_contain_text("Running")
        second.evaluate(HIDE)
        other.page.wait_for_timeout(SETTLED_MS)
        lab.run(3)
        expect(row(panel)).to_contain_text("Done")


def test_a_new_view_for_an_output_is_live_by_itself(lab: Lab) -> None:
    panel = opened(lab, "output")
    lab.page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2")
    lab.command("notebook:create-output-view")
    second = lab.page.locator(".jp-LinkedOutputView .nb-panel")
    expect(row(second)).to_contain_text("Running")
    panel.evaluate(HIDE)
    lab.page.wait_for_timeout(SETTLED_MS)
    lab.page.evaluate(
        "window.jupyterapp.shell.activateById([...window.jupyterapp.shell.widgets('main')][0].id)"
    )
    lab.run(3)
    expect(row(second)).to_contain_text("Done")
