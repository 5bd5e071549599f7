"""The panel as one widget, and the live table, in real front ends: where they mount and what they leave.

Where only messages and the place matter, a small panel of the test's own stands for the real one.
"""

from __future__ import annotations

import ast
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
  const hear = (message) => {
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
REAL = """
%load_ext nbckpt
import os, threading, time, nbckpt
os.environ["NBCKPT_PANEL"] = "widget"
gate = threading.Semaphore(0)
def train(config):
    while gate.acquire(timeout=3000):
        nbckpt.report(loss=1.0, checkpoint={"i": 1})
"""
SMALL = f"""{REAL}
from nbckpt.notebook.widget import mounted, parts
simple = dict(parts.front_parts()) | {{"panel.js": {STUB!r}.encode()}}
mounted.front_parts = parts.front_parts = lambda: simple
"""
RUN = "live = nbckpt.run(train, {'i': 1}, name='live')"
PANEL = "%ckpt panel trials"
AGAIN = "Run this cell again for the buttons."


def own_store(name: str) -> str:
    """Return code for a store of the notebook's own: trials in kernels of other tests go on."""
    return f"import os; os.environ['NBCKPT_STORE'] = '{name}.store'\n"


def opened(lab: Lab, name: str, *cells: str, run: str = RUN) -> Locator:
    """Open a notebook with a live trial and the panel; return the output of the panel."""
    output = lab.opened(name, own_store(name) + REAL, run, PANEL, *cells, run=3)
    is_live(output)
    return output


def is_live(output: Locator) -> None:
    """Wait until the panel in an output shows the trial."""
    expect(output.locator(".nb-panel .nb-rows [data-id=t0]")).to_contain_text("Running")
    expect(output.locator(".nb-state")).to_have_text("● Live")


def opened_small(lab: Lab, name: str, *cells: str, front_end: str = LAB) -> Locator:
    """Do the same with the panel of this test."""
    output = lab.opened(name, own_store(name) + SMALL, RUN, PANEL, *cells, front_end=front_end, run=3)
    output.get_by_role("button", name="t0 running").wait_for()
    return output


@pytest.mark.parametrize("front_end", [LAB, NOTEBOOK])
def test_the_panel_hides_its_copy_and_hears_clicks(lab: Lab, front_end: str) -> None:
    output = opened_small(lab, "mount.ipynb", "gate.release()", front_end=front_end)
    expect(output.get_by_text(AGAIN)).to_be_hidden()
    expect(output.locator("[data-nbckpt-copy]")).to_be_hidden()
    output.get_by_role("button", name="t0").click()
    expect(output.locator(".said")).to_have_text("Pausing t0.")
    lab.run(3)
    output.get_by_role("button", name="t0 paused").wait_for()


def test_a_click_is_heard_while_a_cell_runs(lab: Lab) -> None:
    output = opened_small(lab, "busy.ipynb", "print('waits', flush=True)\nlive.wait()\nprint('went on')")
    waiting = lab.start(3)
    waiting.get_by_text("waits").wait_for()
    output.get_by_role("button", name="t0").click()
    expect(output.locator(".said")).to_have_text("Pausing t0.")
    lab.page.evaluate("() => null")
    expect(waiting).not_to_contain_text("went on")


def test_after_a_restart_the_copy_and_one_line_are_there(lab: Lab) -> None:
    errors = page_errors(lab.own_page())
    output = opened(lab, "restart.ipynb")
    lab.restart()
    expect(output.get_by_text(AGAIN)).to_be_visible()
    expect(output.locator("[data-nbckpt-copy] summary")).to_contain_text("1 running")
    expect(output.locator(".nb-panel")).to_have_count(0)
    assert errors == []


def test_after_a_shutdown_the_panel_is_a_saved_view(lab: Lab) -> None:
    """JupyterLab tells a widget of a restart, and not of a shutdown."""
    errors = page_errors(lab.own_page())
    output = opened(lab, "shutdown.ipynb")
    lab.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    expect(output.locator(".nb-state")).to_contain_text("Saved view of")
    output.locator(".nb-rows [data-id=t0] .nb-name").click()
    expect(output.get_by_role("button", name="Save checkpoints")).to_be_disabled()
    assert errors == []


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_reopened_notebook_shows_the_copy_and_one_line(lab: Lab, is_trusted: bool) -> None:
    name = f"reopened-{is_trusted}.ipynb"
    opened(lab, name)
    lab.command("docmanager:save")
    lab.restart()
    if not is_trusted:
        touched(lab.folder / name)
    lab.enter(name)
    output = lab.output(2)
    expect(output.get_by_text(AGAIN)).to_be_visible()
    expect(output.get_by_text("1 running").first).to_be_visible()
    expect(output.locator(".nb-panel")).to_have_count(0)
    expect(output.get_by_text("Error displaying widget")).to_have_count(0)


def touched(file: Path) -> None:
    """Change a notebook, so that its signature no longer fits."""
    import nbformat

    saved = nbformat.read(file, as_version=4)
    saved.cells[0].source += "\n# by someone else"
    nbformat.write(saved, file)


def test_a_later_panel_leaves_the_copy_of_the_earlier_one(lab: Lab) -> None:
    earlier = opened(lab, "later.ipynb", PANEL)
    is_live(lab.run(3))
    expect(earlier.get_by_text(AGAIN)).to_be_visible()
    expect(earlier.locator("[data-nbckpt-copy] summary")).to_contain_text("1 running")
    expect(earlier.locator(".nb-panel")).to_have_count(0)


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
    lab.own_page()  # the styles of its panels are counted
    output = opened(lab, "again.ipynb", HELD)
    first = text_of(lab.run(3))
    for _ in range(RUNS):
        lab.run(2)
    is_live(output)
    expect(lab.run(3)).to_have_text(first)
    expect(lab.page.locator(".nb-panel")).to_have_count(1)
    lab.page.wait_for_function(STYLES)


FAST = """
begun, steps = threading.Event(), nbckpt.grid_search([1] * 100 + [1200] * 4)
def fast(config):
    begun.wait()
    for step in range(config["steps"]):
        nbckpt.report(loss=1 / (step + 1))
        time.sleep(0.002)
live = nbckpt.run(fast, {"steps": steps}, name="fast", max_concurrent=4)
"""
GO = "start = time.monotonic()\nbegun.set()\nlive.wait()\nprint(time.monotonic() - start)"
COUNT = """(panel) => {
    window.counts = { pushes: 0, rows: 0 };
    const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
    kernel.iopubMessage.connect((_, { content }) => {
        window.counts.pushes += ["trials", "sparks", "points"].includes(content.data?.content?.kind);
    });
    new MutationObserver(() => {
        window.counts.rows = Math.max(window.counts.rows, panel.querySelectorAll(".nb-rows .nb-row").length);
    }).observe(panel, { childList: true, subtree: true });
}"""
MOST_ROWS = 50


def test_a_thousand_reports_a_second_leave_the_panel_small(lab: Lab) -> None:
    output = opened(lab, "fast.ipynb", HELD, GO, run=FAST)
    held = text_of(lab.run(3))
    output.locator(".nb-panel").evaluate(COUNT)
    seconds = float(text_of(lab.run(4)))
    expect(output.get_by_role("tab", name="Trials")).to_contain_text("104")
    counts = lab.page.evaluate("window.counts")
    last = 3  # kinds of messages after the end
    assert 0 < counts["pushes"] <= 4 * seconds + last
    assert 10 < counts["rows"] <= MOST_ROWS
    expect(lab.run(3)).to_have_text(held)


BEGIN = """
%load_ext nbckpt
import os, threading, time, nbckpt
os.environ["NBCKPT_PANEL"] = ""
gate = threading.Semaphore(4)
def train(config):
    for step in range(6):
        assert gate.acquire(timeout=3000)
        nbckpt.report(loss=1 / (step + 1), checkpoint={"i": step})
"""
RUN_IN_CELL = "%ckpt run train --name {} --grid lr=0.1,0.01"
GO_ON = "gate.release(1000)"


def begun(lab: Lab, name: str, *cells: str, front_end: str = LAB) -> Locator:
    """Open a notebook and run two trials, which wait; return the output, with its live table.

    The experiment has the name of the notebook: others may still run.
    """
    output = lab.opened(f"{name}.ipynb", BEGIN, RUN_IN_CELL.format(name), *cells, front_end=front_end, run=2)
    expect(output.get_by_role("row").filter(has_text="t0")).to_contain_text("Running")
    return output


def shows_the_copy(output: Locator, text: str) -> None:
    """Check that the copy is all that is there, with this text."""
    expect(output.locator("[data-nbckpt-copy]")).to_be_visible()
    expect(output).to_contain_text(text)
    expect(output.locator(".nb-small")).to_have_count(0)
    expect(output.get_by_text("Error displaying widget")).to_have_count(0)


@pytest.mark.parametrize("front_end", [LAB, NOTEBOOK])
def test_trials_are_paused_resumed_and_seen_to_their_end(lab: Lab, front_end: str) -> None:
    errors = page_errors(lab.own_page())
    name = front_end.partition("/")[0]
    output = begun(lab, name, GO_ON, front_end=front_end)
    expect(output.locator("[data-nbckpt-copy]")).to_be_hidden()
    output.get_by_role("button", name="Pause all").click()
    expect(output).to_contain_text(f"Pausing all trials of {name}.")
    lab.run(2)
    output.get_by_role("button", name="Resume 2").click()
    expect(output).to_contain_text("All trials have ended.")
    expect(output.get_by_role("row").filter(has_text="t1")).to_contain_text("Done")
    expect(output.locator("[data-nbckpt-copy]")).to_contain_text("2 trials, 2 done")
    assert errors == []


def test_stop_asks_first_and_is_heard_while_the_cell_waits(lab: Lab) -> None:
    lab.opened("waits.ipynb", BEGIN, f"{RUN_IN_CELL.format('waits')} --wait", run=1)
    output = lab.start(1)
    output.get_by_role("button", name="Stop…").click()
    output.get_by_role("button", name="Stop all").click()
    expect(output).to_contain_text("Stopping all trials of waits.")
    pictures(lab, "live-table")


def test_after_the_kernel_was_killed_the_copy_is_there(lab: Lab) -> None:
    output = begun(lab, "killed", "os.kill(os.getpid(), 9)")
    expect(output.locator("[data-nbckpt-copy]")).to_contain_text("2 trials, 2 running")
    lab.start(2)
    shows_the_copy(output, "2 trials, 2 running")


def test_a_reopened_notebook_shows_the_copy_alone(lab: Lab) -> None:
    output = begun(lab, "reopened", GO_ON)
    lab.run(2)
    expect(output).to_contain_text("All trials have ended.")
    expect(output.locator("[data-nbckpt-copy]")).to_contain_text("2 trials, 2 done")
    lab.command("docmanager:save")
    lab.restart()
    shows_the_copy(output, "2 trials, 2 done")
    lab.enter("reopened.ipynb")
    shows_the_copy(lab.output(1), "2 trials, 2 done")


HELD_BY_TABLES = """
from ipywidgets.widgets.widget import _instances
import comm
def held():
    names = [thread.name for thread in threading.enumerate()]
    threads = [names.count(f"nbckpt-{name}") for name in ("live", "panel")]
    return len(_instances), len(comm.get_comm_manager().comms), threads
print(held())
"""


@pytest.mark.slow
def test_a_cell_that_runs_again_has_one_live_table(lab: Lab) -> None:
    run = f"again = {RUN_IN_CELL.format('again')}"
    lab.opened("table-again.ipynb", BEGIN, run, "again", HELD_BY_TABLES, run=2).locator(
        ".nb-small"
    ).wait_for()
    output = lab.run(2)
    output.locator(".nb-small").wait_for()
    widgets, comms, _ = ast.literal_eval(text_of(lab.run(3)))
    for _ in range(20):
        lab.run(2)
    output.locator(".nb-small").wait_for()
    expect(lab.page.locator(".nb-small")).to_have_count(2)
    left = ast.literal_eval(text_of(lab.run(3)))
    assert left[:2] == (widgets, comms)
    # One thread follows, and each of the two tables has one, which ends while it has nothing to do.
    assert all(map(int.__le__, left[2], (1, 2)))


FAST_RUN = """
from nbckpt.notebook.widget.mounted import Mounted
sent, send = [], Mounted.send
def counted(self, content, buffers=None):
    sent.append(content["kind"])
    send(self, content, buffers)
Mounted.send = counted
def fast(config):
    for i in range(4000):
        nbckpt.report(loss=1 / (i + 1))
        time.sleep(0.001)
began = time.monotonic()
"""
COUNTED = "[kind for kind in sent if kind in {'trials', 'sparks', 'points'}]"


def test_a_thousand_reports_a_second_send_four_messages(lab: Lab) -> None:
    run = "%ckpt run fast --name fast --wait\nseconds = time.monotonic() - began"
    lab.opened("table-fast.ipynb", BEGIN, FAST_RUN, run, f"print(seconds, len({COUNTED}))", run=2)
    expect(lab.run(2)).to_contain_text("All trials have ended.")
    seconds, messages = map(float, text_of(lab.run(3)).split())
    full = 3  # the table came into sight
    assert 3 <= messages <= 4 * (seconds + 3) + full
