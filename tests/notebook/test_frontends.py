"""nbckpt in each front end, driven through a real browser: in JupyterLab, in Notebook 7 and in Voila."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from notebook.lab import LAB, NOTEBOOK, VOILA, Lab, page_errors, picture, pictures
from waiting import until

pytestmark = pytest.mark.browser

WORK = "import numpy\nsquares = numpy.arange(1000) ** 2\nname = 'digits'\n%ckpt save cleaned -m 'clean'"
FAILS = "def train(config): raise ValueError(config['lr'])\n%ckpt run train --grid lr=1,2 --name e --wait"
PANELS = {"magic": "%ckpt panel", "function": "import nbckpt\nnbckpt.notebook.panel()"}


def press(panel: Locator, name: str) -> None:
    panel.get_by_role("button", name=name, exact=True).locator("visible=true").click()


def test_in_notebook_7_the_panel_shows_and_restores_with_clicks(lab: Lab) -> None:
    cells = ("%load_ext nbckpt", f"{WORK}\nname = 'letters'", FAILS, "%ckpt panel", "print(name)")
    panel = lab.opened("seven.ipynb", *cells, front_end=NOTEBOOK, run=4)
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
        lab.opened(f"walk-{own}.ipynb", *cells, front_end=front_end, run=len(cells))
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


HOSTILE = "<img src=x onerror=\"window.hacked='yes'\">"
HOSTILE_CELL = f"""
Hostile = type({HOSTILE!r}, (), {{"__repr__": lambda self: {HOSTILE!r}}})
hostile = Hostile()
%ckpt save hostile hostile -m '<script>window.hacked="yes"</script>'
"""


def test_a_checkpoint_is_listed_and_restored_after_a_restart(lab: Lab) -> None:
    make = "import numpy\nsquares = numpy.arange(1000) ** 2\nname = 'digits'"
    begin = "%env NBCKPT_STORE=restart.store\n%load_ext nbckpt"  # without the checkpoints of other tests
    cells = (begin, make, "%ckpt save cleaned -m 'after cleaning'", "%ckpt ls")
    lab.opened("restart.ipynb", *cells, "%ckpt restore cleaned", "print(name, int(squares[-1]))", run=2)
    expect(lab.run(2)).to_contain_text("Saved cleaned@1")
    lab.restart()
    table = lab.run(0, 3).locator("table")
    expect(table.locator("caption")).to_have_count(1)
    expect(table.locator("th[scope=col]").nth(4)).to_be_visible()
    expect(table.locator("th[scope=row]")).to_contain_text("cleaned@1")
    expect(lab.run(4, 5)).to_have_text("digits 998001")
    pictures(lab, "restart")


def test_tab_offers_verbs_and_references_with_our_badge(lab: Lab) -> None:
    cells = ("%load_ext nbckpt\nnumber = 1", "%ckpt save cleaned", "%ckpt res", "%ckpt show cle")
    lab.opened("complete.ipynb", *cells, run=2)
    assert lab.complete(2) == dict.fromkeys(("restore", "results", "resume"), "nbckpt")
    lab.page.keyboard.press("Escape")
    offered = lab.complete(3)
    assert {"cleaned", "cleaned@1"} <= offered.keys()
    assert set(offered.values()) == {"nbckpt"}


def test_hostile_html_is_shown_as_text(lab: Lab) -> None:
    cells = ("%load_ext nbckpt", HOSTILE_CELL, "%ckpt ls hostile", "%ckpt show hostile")
    lab.opened("hostile.ipynb", *cells, run=2)
    expect(lab.run(2)).to_contain_text("<script>")
    expect(lab.run(3)).to_contain_text(HOSTILE)
    expect(lab.page.locator(".jp-OutputArea img[src=x], .jp-OutputArea script")).to_have_count(0)
    assert lab.page.evaluate("window.hacked") is None
    pictures(lab, "hostile")


GATED = """import itertools, threading, nbckpt
gates = {key: threading.Semaphore(0) for key in itertools.product((0.1, 0.3, 1.0), ("sgd", "adam"))}
def train(config):
    start = nbckpt.get_checkpoint()
    for i in range(start.to_dict()["i"] if start else 0, 40):
        gates[config["lr"], config["optimizer"]].acquire()
        if config["lr"] == 1.0 and i == 9:
            raise ValueError("loss is <b>nan</b> & gone")
        loss = config["lr"] + 2 / (i + 1) + 0.05 * (i % 3)
        checkpoint = {"i": i + 1} if i % 4 == 3 else None
        nbckpt.report(loss=loss, accuracy=1 - loss / 4, norm=1e3 * i, checkpoint=checkpoint)
def let(n):
    for gate in gates.values():
        gate.release(n)"""


def test_the_table_of_the_cell_follows_a_paused_and_resumed_grid(lab: Lab) -> None:
    table = lab.opened(
        "trials.ipynb",
        f"%load_ext nbckpt\n{GATED}",
        "%ckpt run train --grid lr=0.1,0.3,1.0 --grid optimizer='sgd','adam' --name grid --concurrent 6 "
        "--metric loss --mode min",
        "let(4)",
        "%ckpt pause grid",
        "let(5)",
        "%ckpt resume",
        "let(40)",
        "%ckpt best",
        "%ckpt restore t0@8",
        "print(i)",
        run=2,
    ).locator("table")
    expect(table.locator("tbody tr")).to_have_count(6)
    lab.run(2)
    table.locator("text=@4").first.wait_for()
    expect(table).to_contain_text("running")
    expect(table.locator("img[src^='data:image/svg+xml']").nth(5)).to_be_visible()
    pictures(lab, "trials-running")
    expect(lab.run(3)).to_contain_text("Pausing t0, t1, t2, t3, t4, t5 of grid")
    lab.run(4)
    lab.output(1).locator("text=Resume: %ckpt resume grid").wait_for()
    expect(table).not_to_contain_text("running")
    pictures(lab, "trials-paused")
    second = lab.run(5)
    lab.run(6)
    second.locator("text=6 trials, 4 done, 2 failed").wait_for()
    fold = second.locator("details").first
    expect(fold.locator("summary")).to_contain_text("ValueError: loss is <b>nan</b> & gone")
    fold.locator("summary").click()
    expect(fold.locator("pre")).to_contain_text("Traceback")
    until(lambda: second.locator("div.nbckpt").evaluate("it => it.scrollWidth <= it.clientWidth"))
    pictures(lab, "trials-ended")
    expect(lab.run(7)).to_contain_text("Best of grid by loss (min): grid/t")
    expect(lab.run(8)).to_contain_text("Restored 1 variable from grid/t0@8")
    expect(lab.run(9)).to_have_text("8")
    pictures(lab, "trials-best")
    expect(lab.output(1).locator(".jp-OutputArea-child")).to_have_count(1)
