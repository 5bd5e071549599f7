"""The panes of checkpoints, history and sync in JupyterLab: saved, restored, gone back and sent by clicks."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from notebook.lab import Lab

pytestmark = pytest.mark.browser

BEGIN = """
%load_ext nbckpt
import os
os.environ["NBCKPT_PANEL"] = "widget"
%ckpt auto on --budget 1000000%
"""
FIRST = "walk, model = [1, 2, 3], {'bias': 1}"


def opened(lab: Lab, name: str, *cells: str, tab: str) -> Locator:
    """Run the cells, then open the panel."""
    lab.open(name, BEGIN, FIRST, *cells, f"%ckpt panel {tab}", "print(walk, globals().get('other'))")
    for at in range(len(cells) + 2):
        lab.run(at)
    output = lab.run(len(cells) + 2)
    output.locator(".nb-panel").wait_for()
    return output


def row(panel: Locator, text: str) -> Locator:
    return panel.locator(".nb-rows .nb-row", has_text=text).first


def test_clicks_save_restore_send_and_delete(lab: Lab) -> None:
    panel = opened(lab, "panes.ipynb", tab="checkpoints")
    expect(panel.locator(".nb-empty")).to_contain_text("Nothing saved yet.")
    panel.get_by_label("Name of the checkpoint").fill("mine")
    panel.get_by_role("button", name="Save all variables").click()
    expect(row(panel, "mine@1")).to_be_visible()
    row(panel, "mine@1").click()
    expect(panel.locator(".nb-values")).to_contain_text("= same")
    panel.get_by_role("button", name="Restore all").click()
    expect(panel.locator(".nb-actions")).to_contain_text("nothing would change")
    panel.get_by_role("button", name="Cancel").click()
    panel.get_by_role("tab", name="Sync").click()
    expect(panel.locator(".nb-sync")).to_contain_text("on this machine only")
    panel.get_by_label("Place").fill(str(lab.folder / "there"))
    panel.get_by_role("button", name="Turn on").click()
    expect(panel.locator(".nb-sync")).to_contain_text("Everything is also in")
    expect(panel.get_by_role("tab", name="Sync")).to_contain_text("✓")
    panel.get_by_role("tab", name="Checkpoints").click()
    panel.get_by_role("button", name="Delete…").click()
    panel.get_by_role("button", name="Delete 1 checkpoint").click()
    expect(row(panel, "mine@1")).to_have_count(0)


def test_a_click_goes_back_to_the_state_before(lab: Lab) -> None:
    panel = opened(lab, "history.ipynb", "walk = [1]; other = 7", tab="history")
    expect(row(panel, "walk = [1]; other = 7")).to_be_visible()
    row(panel, "walk, model").click()
    expect(panel.locator(".nb-detail")).to_contain_text("If you go here now:")
    panel.get_by_role("button", name="Go to this state…").click()
    expect(panel.locator(".nb-actions")).to_contain_text("will be removed.")
    panel.locator("[data-action=confirm]").click()
    expect(panel.locator(".nb-message")).to_contain_text("At [")
    expect(lab.run(4)).to_contain_text("[1, 2, 3] None")


def test_filters_stay_when_the_cell_is_run_again(lab: Lab) -> None:
    panel = opened(lab, "filters.ipynb", "%ckpt save first", "%ckpt save second", tab="history")
    find = panel.get_by_role("searchbox", name="Find code or variable")
    for text in ("wa", "walk"):
        find.fill(text)
    panel.get_by_role("tab", name="Checkpoints").click()
    saved = panel.get_by_role("searchbox", name="Find name, text, variable")
    for text in ("sec", "second"):
        saved.fill(text)
    lab.run(5)  # the browser holds a change back until the kernel has heard the one before
    panel = lab.run(4)
    expect(find).to_have_value("walk")
    panel.get_by_role("tab", name="Checkpoints").click()
    expect(saved).to_have_value("second")
    expect(row(panel, "second@1")).to_be_visible()
    expect(row(panel, "first@1")).to_have_count(0)


def test_the_panel_and_other_outputs_keep_their_styles(lab: Lab) -> None:
    """JupyterLab styles code and tables of outputs, and results have the class of the panel."""
    long = (
        "total = sum(value for value in range(1_000) if value % 3 == 0 and value % 5 == 0) + 10_000 + 20_000"
    )
    panel = opened(lab, "style.ipynb", long, "%ckpt history", tab="history")
    code = row(panel, "total = ").locator("code")
    expect(code).to_have_css("white-space", "nowrap")
    expect(code).to_have_css("background-color", "rgba(0, 0, 0, 0)")
    result = lab.output(3).locator("div.nbckpt")
    expect(result).to_have_css("display", "block")
    expect(result).to_have_css("max-height", "none")
