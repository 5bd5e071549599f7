"""The panel in each front end: in Notebook 7, in Voila, and beside them in JupyterLab."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from notebook.lab import LAB, NOTEBOOK, VOILA, Lab, page_errors, picture

pytestmark = pytest.mark.browser

WORK = "import numpy\nsquares = numpy.arange(1000) ** 2\nname = 'digits'\n%ckpt save cleaned -m 'clean'"
FAILS = (
    "def train(config):\n    raise ValueError(config['lr'])\n%ckpt run train --grid lr=1,2 --name e --wait"
)
PANELS = {"magic": "%ckpt panel", "function": "import nbckpt\nnbckpt.notebook.panel()"}


def press(panel: Locator, name: str) -> None:
    panel.get_by_role("button", name=name, exact=True).locator("visible=true").click()


def test_in_notebook_7_the_panel_shows_and_restores_with_clicks(lab: Lab) -> None:
    lab.open(
        "seven.ipynb",
        "%load_ext nbckpt",
        f"{WORK}\nname = 'letters'",
        FAILS,
        "%ckpt panel",
        "print(name)",
        front_end=NOTEBOOK,
    )
    for at in range(3):
        lab.run(at)
    panel = lab.run(3)
    press(panel, "Show")
    panel.get_by_role("rowheader", name="squares").first.wait_for()
    picture(lab.page, "notebook-checkpoints")
    press(panel, "Restore…")
    panel.get_by_text("Would restore").wait_for()
    press(panel, "Restore now")
    panel.get_by_text("Restored 3 variables").wait_for()
    expect(lab.run(4)).to_have_text("digits")
    panel.get_by_role("tab", name="Trials").click()
    panel.get_by_text("2 failed").locator("visible=true").first.wait_for()
    picture(lab.page, "notebook-trials")


@pytest.mark.parametrize("way", PANELS)
def test_voila_shows_the_static_table_and_a_panel_that_answers(lab: Lab, way: str) -> None:
    lab.write(f"voila-{way}.ipynb", f"%load_ext nbckpt\n{WORK}", PANELS[way])
    lab.visit(f"voila-{way}.ipynb", VOILA)
    page = lab.page
    press(page.locator("body"), "Show")
    page.get_by_role("rowheader", name="squares").first.wait_for()
    expect(page.locator("table caption", has_text="checkpoints")).to_have_count(2)  # static, and the panel's
    picture(page, f"voila-{way}")


BEGIN = """
import os
os.environ |= dict(NBCKPT_PANEL="", NBCKPT_STORE="{}.store")
%load_ext nbckpt
%ckpt auto on --budget 1000000%
"""
TRAIN = """
import nbckpt
def train(config):
    nbckpt.report(loss=config["lr"])
    assert config["lr"] < 2, "diverged"
%ckpt run train --grid lr=1,2 --name e --wait
"""


@pytest.mark.parametrize("front_end", [LAB, NOTEBOOK, VOILA])
def test_clicks_go_through_every_pane_of_the_widget(lab: Lab, front_end: str) -> None:
    """In Voila all cells have run before the page is there; elsewhere each runs while it is looked at."""
    errors = page_errors(lab.own_page())
    own = front_end.partition("/")[0]
    cells = BEGIN.format(own), f"{WORK}\nname = 'letters'", TRAIN, "%ckpt panel trials"
    if front_end == VOILA:
        lab.write(f"walk-{own}.ipynb", *cells)
        lab.visit(f"walk-{own}.ipynb", VOILA)
    else:
        lab.open(f"walk-{own}.ipynb", *cells, front_end=front_end)
        for at in range(len(cells)):
            lab.run(at)
    panel = lab.page.locator(".nbckpt", has=lab.page.get_by_role("tablist", name="Panes"))
    rows = panel.locator(".nb-rows .nb-row")
    expect(lab.page.get_by_text("Run this cell again for the buttons.")).to_be_hidden()
    expect(panel.locator(".nb-heading").first).to_contain_text("t0, loss 1")
    panel.get_by_role("tab", name="Timeline").click()
    expect(panel.locator(".nb-span")).to_have_count(2)
    panel.locator("[data-id=t1] .nb-name").dblclick()
    expect(panel.locator(".nb-page").get_by_text("AssertionError: diverged").first).to_be_visible()
    panel.get_by_role("tab", name="Checkpoints").click()
    rows.filter(has_text="cleaned@1").click()
    expect(panel.locator(".nb-values")).to_contain_text("≠")
    panel.get_by_role("button", name="Restore all").click()
    panel.locator("[data-action=confirm]").click()
    expect(panel.locator(".nb-message")).to_contain_text("Restored")
    panel.get_by_label("Name of the checkpoint").fill("mine")
    panel.get_by_role("button", name="Save all variables").click()
    expect(rows.filter(has_text="mine@1")).to_be_visible()
    panel.get_by_role("tab", name="History").click()
    rows.filter(has_text="import numpy").click()
    expect(panel.locator(".nb-detail")).to_contain_text("If you go here now:")
    panel.get_by_role("tab", name="Sync").click()
    expect(panel.locator(".nb-sync")).to_contain_text("on this machine only")
    picture(lab.page, f"walk-{own}")
    assert errors == []
