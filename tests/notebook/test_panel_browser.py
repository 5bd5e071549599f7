"""The panel in a real JupyterLab, with real clicks: while much happens, it stays small, quick and one."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from notebook.lab import Lab, picture, pictures, text_of
from servers.proxy import Fault, Proxy
from servers.s3 import s3_bucket, s3_proxy, s3_server
from waiting import until

__all__ = ["s3_bucket", "s3_proxy", "s3_server"]

pytestmark = pytest.mark.browser

TRAIN = """
import threading, nbckpt
gates = {lr: threading.Semaphore(0) for lr in (0.1, 0.3, 1.0)}
def release(number):
    for gate in gates.values():
        gate.release(number)
def train(config):
    start = nbckpt.get_checkpoint()
    for i in range(start.to_dict()["i"] if start else 0, 40):
        gates[config["lr"]].acquire()
        loss = config["lr"] + 2 / (i + 1) + 0.05 * (i % 3)
        print("epoch", i)
        checkpoint = {"i": i + 1} if i % 10 == 9 or nbckpt.should_checkpoint() else None
        nbckpt.report(loss=loss, accuracy=1 - loss / 4, checkpoint=checkpoint)
"""
WAITS = """
import os, time, nbckpt
def train(config):
    start = nbckpt.get_checkpoint()
    for i in range(start.to_dict()["i"] if start else 0, 40):
        while i >= 12 and not os.path.exists("go"):
            time.sleep(0.02)
        nbckpt.report(loss=1 / (i + 1), checkpoint={"i": i + 1} if i % 10 == 9 else None)
"""
SAVES = (
    "import numpy, matplotlib.pyplot as plt\n"
    "squares = numpy.arange(1000) ** 2\nname = 'digits'\n"
    "figure, axes = plt.subplots(figsize=(3, 2)); axes.plot(squares); plt.close(figure); del axes\n"
    "%ckpt save cleaned -m 'clean'"
)
ENVIRONMENT = (
    "import os\nos.environ.update(AWS_ENDPOINT_URL={!r}, AWS_DEFAULT_REGION='us-east-1', "
    "AWS_ACCESS_KEY_ID='test', AWS_SECRET_ACCESS_KEY='test')"
)


SIGNS = """(output) => [...output.querySelectorAll(".nbckpt-panel, .nbckpt-panel *")]
    .filter((element) => element.offsetWidth).map((element) => getComputedStyle(element, "::before").content)
    .filter((content) => content !== "none" && content !== "normal" && content !== '""')"""
"""What style sheets put before the widgets that are in sight."""


def click(panel: Locator, name: str) -> None:
    panel.get_by_role("button", name=name, exact=True).locator("visible=true").click()


def sees(panel: Locator, text: str) -> None:
    """Wait until the panel shows a text."""
    panel.locator(".widget-html").get_by_text(text).locator("visible=true").first.wait_for()


def test_clicks_save_show_restore_compare_and_delete_checkpoints(lab: Lab) -> None:
    cells = ("%load_ext nbckpt", SAVES, "name = 'letters'\n%ckpt save other -m 'another thing'")
    panel = lab.opened("panel.ipynb", *cells, "%ckpt panel", "print(name)", run=4)
    chosen = panel.get_by_label("checkpoint", exact=True)
    table = panel.get_by_role("region", name="checkpoints")
    panel.get_by_label("name or file").fill("clicked")
    panel.get_by_label("name or file").press("Enter")
    click(panel, "Save")
    sees(panel, "Saved clicked@1")
    expect(chosen).to_contain_text("clicked@1")
    box = panel.get_by_label("filter")
    box.fill("cleaned")
    box.press("Enter")
    expect(table).not_to_contain_text("other@1")  # the table comes after the options
    expect(chosen).to_contain_text("cleaned@1")
    click(panel, "Show")
    panel.locator("img[alt='figure']").wait_for()
    expect(panel.get_by_role("region", name="details")).to_contain_text("1000")
    pictures(lab, "panel-show")
    click(panel, "Restore…")
    sees(panel, "Restore cleaned@1: clean?")
    sees(panel, "Would restore")
    pictures(lab, "panel-checkpoints")
    expect(lab.run(4)).to_have_text("letters")
    click(panel, "Restore now")
    sees(panel, "Restored ")
    expect(lab.run(4)).to_have_text("digits")
    box.fill("")
    box.press("Enter")
    expect(table).to_contain_text("other@1")
    chosen.select_option(label="cleaned@1: clean")
    panel.get_by_label("against").select_option(label="other@1: another thing")
    click(panel, "Diff")
    sees(panel, "-> other")
    click(panel, "Delete…")
    sees(panel, "Would remove")
    click(panel, "Delete now")
    chosen.locator("option", has_text="cleaned@1").wait_for(state="detached")
    click(panel, "Undo")
    chosen.locator("option", has_text="cleaned@1").wait_for(state="attached")


def test_clicks_save_pause_resume_and_stop_trials(lab: Lab) -> None:
    run = "%ckpt run train --grid lr=0.1,0.3,1.0 --name grid --concurrent 3 --metric loss --mode min"
    cells = (f"%load_ext nbckpt\n{TRAIN}", run, "%ckpt panel trials")
    begun = lab.opened("panel-trials.ipynb", *cells, "release(12)", "release(1)", "release(1000)", run=2)
    begun.get_by_text("3 running").wait_for()
    panel = lab.run(2)
    panel.get_by_role("button", name="Pause").wait_for()
    lab.run(3)
    table = panel.get_by_role("region", name="trials")
    table.get_by_text("@10").first.wait_for()
    pictures(lab, "panel-trials-running")
    click(panel, "Checkpoint now")
    sees(panel, "save a checkpoint with the next result")  # presses and cells may run in two threads
    lab.run(4)
    table.get_by_text("@13").first.wait_for()
    click(panel, "Pause")
    sees(panel, "Pausing t0, t1, t2 of grid")
    lab.run(4)
    sees(panel, "3 paused")
    trials = panel.get_by_role("listbox", name="trials")
    trials.select_option(["t0  lr=0.1", "t2  lr=1.0"])
    click(panel, "Curves")
    panel.get_by_role("region", name="details").locator("img").wait_for()
    pictures(lab, "panel-trials-paused")
    trials.select_option(["t1  lr=0.3"])
    click(panel, "Show")
    panel.get_by_role("region", name="details").get_by_text("epoch 5").first.wait_for(state="attached")
    click(panel, "Stop…")
    sees(panel, "Stop t1 of grid? A stopped trial is finished.")
    click(panel, "Stop now")
    sees(panel, "2 paused")
    click(panel, "Resume 2 interrupted or paused trials")
    lab.run(5)
    sees(panel, "2 done")
    click(panel, "Best")
    sees(panel, "Best of grid by loss")


def test_text_wraps_beside_a_wide_table(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 700, "height": 900})
    panel = lab.opened("panel-narrow.ipynb", f"%load_ext nbckpt\n{SAVES}", "%ckpt panel", run=2)
    region = panel.locator(".nbckpt-region").locator("visible=true").first
    region.get_by_role("table").wait_for()
    until(lambda: region.evaluate("it => it.scrollWidth > it.clientWidth"))
    inside = """it => it.getBoundingClientRect().right
        <= it.closest('.nbckpt-region').getBoundingClientRect().right"""
    until(lambda: region.locator("p").evaluate(inside))


def test_updates_keep_the_scroll_position(lab: Lab) -> None:
    load = f"%load_ext nbckpt\n{TRAIN}\nmany = nbckpt.grid_search(list(range(60)))"
    run = "runs = nbckpt.run(train, {'lr': 0.1, 'at': many}, name='long')"
    cells = (load, run, "%ckpt panel trials", "release(1)", "runs.pause(); release(1000)")
    panel = lab.opened("panel-scrolled.ipynb", *cells, run=3)
    panel.get_by_role("button", name="Pause").wait_for()
    box = panel.locator(".widget-html[tabindex='0']").locator("visible=true")
    until(lambda: box.evaluate("it => { it.scrollTop = 300; return it.scrollTop; }") == 300)
    lab.run(3)
    panel.get_by_role("region", name="trials").get_by_text("2.1").first.wait_for()
    assert box.evaluate("it => it.scrollTop") == 300
    lab.run(4)
    sees(panel, "60 paused")


def test_a_restart_leaves_the_html_and_the_cell_offers_to_resume(lab: Lab) -> None:
    cells = ("%load_ext nbckpt\n" + WAITS, "%ckpt run train --grid lr=0.1,0.3 --name cut --concurrent 2")
    panel = lab.opened("panel-restart.ipynb", *cells, "%ckpt panel trials", "open('go', 'w').close()", run=3)
    panel.get_by_role("region", name="trials").get_by_text("@10").first.wait_for()
    panel.locator("details").first.get_by_text("@10").first.wait_for(state="attached")
    lab.restart()
    until(lambda: panel.evaluate(SIGNS) == ['"Run this cell again to show the controls."'])
    expect(panel.get_by_role("button")).to_have_count(0)
    picture(lab.page, "panel-gone")
    standing = panel.locator("details").first
    standing.locator("summary").click()
    expect(standing.get_by_role("table")).to_contain_text("@10")
    panel = lab.run(0, 2)
    sees(panel, "2 interrupted")
    pictures(lab, "panel-cut-off")
    click(panel, "Resume 2 interrupted or paused trials")
    lab.run(3)
    sees(panel, "2 done")


def test_the_store_is_synced_to_a_folder_with_clicks(lab: Lab) -> None:
    cells = ("%load_ext nbckpt", "x = 1\n%ckpt save one", "%ckpt panel sync")
    panel = lab.opened("panel-sync.ipynb", *cells, run=3)
    place = panel.get_by_label("location")
    place.fill(str(lab.folder / "there"))
    place.press("Enter")
    click(panel, "Set")
    sees(panel, "Last push")
    assert any((lab.folder / "there" / "checkpoints").glob("*.json"))
    rows = panel.get_by_role("region", name="sync").get_by_role("rowheader")
    for name in ("upload_dir", "sync_period", "sync_timeout", "sync_artifacts"):
        expect(rows.get_by_text(name, exact=True)).to_be_visible()
    pictures(lab, "panel-sync")
    click(panel, "Sync now")
    sees(panel, "Nothing new")
    click(panel, "Off")
    sees(panel, "not synced")


def test_a_push_to_s3_is_followed_and_cancelled_with_clicks(
    lab: Lab, s3_bucket: str, s3_proxy: Proxy
) -> None:
    stalled = s3_proxy.fail(Fault("stall", when=lambda request: request.method == "PUT"))
    cells = (f"%load_ext nbckpt\n{ENVIRONMENT.format(s3_proxy.url)}", "x = bytes(1_000_000)\n%ckpt save one")
    panel = lab.opened("panel-s3.ipynb", *cells, "%ckpt panel sync", run=3)
    place = panel.get_by_label("location")
    place.fill(f"{s3_bucket}/notebook")
    place.press("Enter")
    click(panel, "Set")
    sees(panel, "Pushing: ")
    assert stalled.struck.wait(60)
    pictures(lab, "panel-sync-under-way")
    click(panel, "Cancel")
    sees(panel, "it was cancelled")
    s3_proxy.heal()
    click(panel, "Sync now")
    sees(panel, "Last push")
    # By the keyboard: the end of the push moves the buttons, and half of a click may come before it.
    panel.get_by_role("button", name="Off", exact=True).locator("visible=true").press("Enter")
    sees(panel, "not synced")


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


def turn(panel: Locator, name: str) -> None:
    panel.get_by_role("tab", name=name).click()


def test_a_thousand_reports_a_second_leave_the_browser_free(lab: Lab) -> None:
    run = "%ckpt run train --grid lr=1,2,3 --name fast --concurrent 3"
    wait = "for _ in range(5): thousands.acquire()\nprint(reports)"
    cells = (f"%load_ext nbckpt\n{FAST}", run, "%ckpt panel trials", wait, "ended.set()")
    panel = lab.opened("fast.ipynb", *cells, run=3)
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
    """Return the size of a notebook that was saved after this number of updates."""
    cells = (f"%load_ext nbckpt\n{UPDATES}", f"updates = {updates:5}", f"%ckpt run train --name {name}")
    panel = lab.opened(f"{name}.ipynb", *cells, "%ckpt panel trials", "gate.set()", run=4)
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
    cells = (f"%load_ext nbckpt\nimport nbckpt\n{THOUSAND}", "%ckpt panel trials")
    panel = lab.opened("thousand.ipynb", *cells, run=2)
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
    cells = (f"%load_ext nbckpt\n{HELD}", "%ckpt run train --name again", "%ckpt panel trials")
    panel = lab.opened("again.ipynb", *cells, "print(first := held())", HOLDS_NO_MORE, "gate.set()", run=3)
    panel.get_by_role("button", name="Pause").wait_for()
    lab.run(3)
    for _ in range(RUNS):
        lab.run(2)
    panel.get_by_role("button", name="Pause").wait_for()
    expect(lab.run(4)).to_have_text("[] 1")
    lab.run(5)
    sees(panel, "1 done")
