"""The panel while much happens: it stays small, quick and one."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from notebook.lab import Lab, text_of

pytestmark = pytest.mark.browser

RUNS = 20  # test_widget_browser.py has 100 of the widget

FAST = """
import threading, time, nbckpt
ended, thousands = threading.Event(), threading.Semaphore(0)
reports = 0
def train(config):
    global reports
    while not ended.is_set():
        reports += 1
        if reports % 1000 == 0:
            thousands.release()
        nbckpt.report(loss=1 / reports, lr=config["lr"])
        time.sleep(0.0025)  # so that three trials make a thousand reports in each second
"""
UPDATES = """
import threading, nbckpt
gate = threading.Event()
def train(config):
    gate.wait()
    for i in range(updates):
        nbckpt.report(loss=0.1 + 0.1 * (i % 9))
"""
HELD = """
import threading, comm, nbckpt
from ipywidgets.widgets.widget import _instances
gate = threading.Event()
def train(config):
    gate.wait()
    nbckpt.report(loss=0.5)
def held():
    names = [it.name for it in threading.enumerate()]
    return len(_instances), len(comm.get_comm_manager().comms), len(names), names.count("nbckpt-panel")
"""

# A thread of the time may be there for a moment.
HOLDS_NO_MORE = """
import time
until = time.monotonic() + 60
while any(now > was for now, was in zip(held(), first)) and time.monotonic() < until:
    time.sleep(0.1)
print([now for now, was in zip(held(), first) if now > was], held()[-1])
"""

# What the kernel sends to the page, counted by kinds.
COUNT = """() => {
    window.sent = {};
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    kernel.iopubMessage.connect((_, message) => {
        const kind = message.header.msg_type;
        window.sent[kind] = (window.sent[kind] || 0) + 1;
    });
}"""


THOUSAND = """
def quick(config):
    nbckpt.report(loss=config["i"])
nbckpt.run(quick, {"i": nbckpt.grid_search(list(range(1000)))}, name="thousand").wait();
"""


def sees(panel: Locator, text: str) -> None:
    """Wait until the panel shows a text."""
    panel.locator(".widget-html").get_by_text(text).locator("visible=true").first.wait_for()


def turn(panel: Locator, name: str) -> None:
    panel.get_by_role("tab", name=name).click()


def test_a_thousand_reports_a_second_leave_the_browser_free(lab: Lab) -> None:
    panel = lab.opened(
        "fast.ipynb",
        f"%load_ext nbckpt\n{FAST}",
        "%ckpt run train --grid lr=1,2,3 --name fast --concurrent 3",
        "%ckpt panel trials",
        "for _ in range(5): thousands.acquire()\nprint(reports)",
        "ended.set()",
        run=3,
    )
    sees(panel, "3 running")
    lab.page.evaluate(COUNT)
    for _ in range(3):
        turn(panel, "Sync")
        sees(panel, "not synced")
        turn(panel, "Trials")
        sees(panel, "3 running")
    reports, sent = int(text_of(lab.run(3))), lab.page.evaluate("window.sent")
    lab.run(4)
    sees(panel, "3 done")
    assert 10 * sent["comm_msg"] < reports
    assert 10 * sent["update_display_data"] < reports


def saved_size(lab: Lab, name: str, updates: int) -> int:
    """Return the size of a notebook that was saved after so many updates."""
    panel = lab.opened(
        f"{name}.ipynb",
        f"%load_ext nbckpt\n{UPDATES}",
        f"updates = {updates:5}",
        f"%ckpt run train --name {name}",
        "%ckpt panel trials",
        "gate.set()",
        run=4,
    )
    panel.get_by_role("button", name="Pause").wait_for()
    lab.run(4)
    lab.output(2).get_by_text("1 done").wait_for()
    sees(panel, "1 done")
    panel.locator("details").first.get_by_text("1 done").first.wait_for(state="attached")  # the static copy
    lab.command("docmanager:save")
    return (lab.folder / f"{name}.ipynb").stat().st_size


def test_ten_thousand_updates_do_not_enlarge_the_saved_notebook(lab: Lab) -> None:
    few, many = saved_size(lab, "a", 10), saved_size(lab, "b", 10_000)
    assert many < few + 1000  # three digits in each place, and a course of 24 points where there were 10


def test_the_panel_shows_a_thousand_trials_in_pages_of_a_hundred(lab: Lab) -> None:
    panel = lab.opened(
        "thousand.ipynb", f"%load_ext nbckpt\nimport nbckpt\n{THOUSAND}", "%ckpt panel trials", run=2
    )
    sees(panel, "1000 done")
    rows = panel.get_by_role("region", name="trials").get_by_role("rowheader")
    for page, first, last in ((1, "t0", "t99"), (2, "t100", "t199")):
        sees(panel, f"page {page} of 10")
        expect(rows).to_have_count(100)
        expect(rows.first).to_have_text(first)
        expect(rows.last).to_have_text(last)
        panel.get_by_role("button", name="Next").locator("visible=true").click()
    sees(panel, "page 3 of 10")
    panel.get_by_role("button", name="Previous").locator("visible=true").click()
    expect(rows.first).to_have_text("t100")


@pytest.mark.slow
@pytest.mark.timeout(900)  # in full a hundred runs, of some seconds each beside other tests
def test_many_runs_of_the_panels_cell_leave_one_panel(lab: Lab) -> None:
    panel = lab.opened(
        "again.ipynb",
        f"%load_ext nbckpt\n{HELD}",
        "%ckpt run train --name again",
        "%ckpt panel trials",
        "print(first := held())",
        HOLDS_NO_MORE,
        "gate.set()",
        run=3,
    )
    panel.get_by_role("button", name="Pause").wait_for()
    lab.run(3)
    for _ in range(RUNS):
        lab.run(2)
    panel.get_by_role("button", name="Pause").wait_for()
    expect(lab.run(4)).to_have_text("[] 1")
    lab.run(5)
    sees(panel, "1 done")
