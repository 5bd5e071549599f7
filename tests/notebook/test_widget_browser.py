"""The panel as one widget in real front ends: where it mounts, what it hears, and what it leaves behind.

A small panel of the test's own stands for the real one: here the way between kernel and browser is tested.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from attack import share
from notebook.lab import LAB, NOTEBOOK, Lab, page_errors, pictures, text_of

pytestmark = pytest.mark.browser

RUNS = share.of(100, 20)

STUB = r"""
export async function show({ model, el, signal }) {
  const said = document.createElement("p"), list = document.createElement("div"), rows = new Map();
  said.className = "said"; el.className = "stub"; el.append(said, list);
  const heard = (window.heard = {});
  const hear = (message) => {
    heard[message.kind] = (heard[message.kind] ?? 0) + 1;
    if (message.kind === "answer" || message.kind === "said") said.textContent = message.text;
    for (const row of message.rows ?? []) rows.set(row.id, row);
    if (message.kind !== "trials") return;
    list.replaceChildren(...[...rows.values()].map((row) => {
      const button = document.createElement("button");
      button.textContent = `${row.id} ${row.status}`;
      button.onclick = () => model.send({ kind: "act", n: 1, verb: "pause", ids: [row.id], options: {} });
      return button;
    }));
  };
  model.on("msg:custom", hear);
  signal.addEventListener("abort", () => { model.off("msg:custom", hear); el.replaceChildren(); });
  model.send({ kind: "follow", pane: "trials" });
}
"""
BEGIN = f"""
%load_ext nbckpt
import os, threading, time, nbckpt
os.environ["NBCKPT_PANEL"] = "widget"
from nbckpt.notebook.widget import mounted
parts = dict(mounted.front_parts()) | {{"panel.js": {STUB!r}.encode()}}
mounted.front_parts = lambda: parts
gate = threading.Semaphore(0)
def train(config):
    while gate.acquire(timeout=300):
        nbckpt.report(loss=1.0, checkpoint={{"i": 1}})
"""
RUN = "live = nbckpt.run(train, {'i': 1}, name='live')"
PANEL = "%ckpt panel trials"
AGAIN = "Run this cell again for the buttons."


def opened(lab: Lab, name: str, *cells: str, front_end: str = LAB) -> Locator:
    """Open a notebook with a live trial and the panel; return the output of the panel."""
    lab.open(name, BEGIN, RUN, PANEL, *cells, front_end=front_end)
    for at in range(2):
        lab.run(at)
    output = lab.run(2)
    output.get_by_role("button", name="t0 running").wait_for()
    return output


@pytest.mark.parametrize("front_end", [LAB, NOTEBOOK])
def test_the_panel_hides_its_copy_and_hears_clicks(lab: Lab, front_end: str) -> None:
    output = opened(lab, "mount.ipynb", "gate.release()", front_end=front_end)
    expect(output.get_by_text(AGAIN)).to_be_hidden()
    expect(output.locator("[data-nbckpt-copy]")).to_be_hidden()
    output.get_by_role("button", name="t0").click()
    expect(output.locator(".said")).to_have_text("Pausing t0.")
    lab.run(3)
    output.get_by_role("button", name="t0 paused").wait_for()


def test_a_click_is_heard_while_a_cell_runs(lab: Lab) -> None:
    output = opened(lab, "busy.ipynb", "print('waits', flush=True)\nlive.wait()\nprint('went on')")
    waiting = lab.start(3)
    waiting.get_by_text("waits").wait_for()
    output.get_by_role("button", name="t0").click()
    expect(output.locator(".said")).to_have_text("Pausing t0.")
    lab.page.evaluate("() => null")
    expect(waiting).not_to_contain_text("went on")


def test_after_a_restart_the_copy_and_one_line_are_there(lab: Lab) -> None:
    output = opened(lab, "restart.ipynb")
    lab.restart()
    expect(output.get_by_text(AGAIN)).to_be_visible()
    expect(output.locator("[data-nbckpt-copy] summary")).to_contain_text("1 running")
    expect(output.locator(".stub")).to_have_count(0)


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_reopened_notebook_shows_the_copy_and_one_line(lab: Lab, is_trusted: bool) -> None:
    name = f"reopened-{is_trusted}.ipynb"
    opened(lab, name)
    lab.command("docmanager:save")
    lab.restart()
    if not is_trusted:
        touched(lab.folder / name)
    lab.visit(name)
    lab.ready()
    output = lab.output(2)
    expect(output.get_by_text(AGAIN)).to_be_visible()
    expect(output.get_by_text("1 running").first).to_be_visible()
    expect(output.locator(".stub")).to_have_count(0)
    expect(output.get_by_text("Error displaying widget")).to_have_count(0)


def touched(file: Path) -> None:
    """Change a notebook, so that its signature no longer fits."""
    import nbformat

    saved = nbformat.read(file, as_version=4)
    saved.cells[0].source += "\n# by someone else"
    nbformat.write(saved, file)


def test_a_later_panel_leaves_the_copy_of_the_earlier_one(lab: Lab) -> None:
    earlier = opened(lab, "later.ipynb", PANEL)
    later = lab.run(3)
    later.get_by_role("button", name="t0 running").wait_for()
    expect(earlier.get_by_text(AGAIN)).to_be_visible()
    expect(earlier.locator("[data-nbckpt-copy] summary")).to_contain_text("1 running")
    expect(earlier.locator(".stub")).to_have_count(0)


HELD = """
from ipywidgets.widgets.widget import _instances
import comm
def held():
    names = [thread.name for thread in threading.enumerate()]
    return len(_instances), len(comm.get_comm_manager().comms), names.count("nbckpt-panel")
print(held())
"""


STYLES = """() => [...document.head.querySelectorAll("style")]
    .filter((style) => style.textContent.includes("nbckpt-copy")).length === 1"""


@pytest.mark.slow
def test_many_runs_of_the_cell_leave_one_panel(lab: Lab) -> None:
    output = opened(lab, "again.ipynb", HELD)
    first = text_of(lab.run(3))
    for _ in range(RUNS):
        lab.run(2)
    output.get_by_role("button", name="t0 running").wait_for()
    expect(lab.run(3)).to_have_text(first)
    expect(lab.page.locator(".stub")).to_have_count(1)
    lab.page.wait_for_function(STYLES)


FAST = """
began, reports = time.monotonic(), 0
def fast(config):
    global reports
    while reports < 4000:
        reports += 1
        nbckpt.report(loss=1 / reports)
        time.sleep(0.001)
nbckpt.run(fast, {}, name="fast").wait()
print(time.monotonic() - began)
"""


def test_reports_are_coalesced_to_four_messages_a_second(lab: Lab) -> None:
    opened(lab, "fast.ipynb", FAST)
    before = lab.page.evaluate("Object.values(window.heard).reduce((a, b) => a + b, 0)")
    seconds = float(text_of(lab.run(3)))
    after = lab.page.evaluate("Object.values(window.heard).reduce((a, b) => a + b, 0)")
    full = 3  # another experiment comes into sight
    assert 0 < after - before <= 4 * seconds + full


REAL = BEGIN.replace("mounted.front_parts = lambda: parts", "")


def test_the_real_panel_shows_the_trials(lab: Lab) -> None:
    errors = page_errors(lab.page)
    lab.open("real.ipynb", REAL, RUN.replace("'live'", "'real'"), PANEL)
    for at in range(2):
        lab.run(at)
    output = lab.run(2)
    row = output.get_by_role("row").filter(has_text="t0")
    row.first.wait_for()
    expect(output.get_by_text(AGAIN)).to_be_hidden()
    pictures(lab, "widget-panel")
    assert errors == []
