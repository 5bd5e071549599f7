"""The panel and the live table on kernels that hear clicks differently: ipykernel 6, 7.3 and the newest one.

NBCKPT_OLD_PYTHON and NBCKPT_SUBSHELL_PYTHON name Pythons that have the first two, JupyterLab and anywidget.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from playwright.sync_api import Locator, expect

from notebook.lab import WAITING_TRIALS, Lab, text_of

pytestmark = pytest.mark.browser

BEGIN = f"""{WAITING_TRIALS}
def statuses(name):
    return [trial.status for trial in nbckpt.notebook.experiments()[name].trials]
"""
RUN = "live = nbckpt.run(train, {{'lr': nbckpt.grid_search([0.1, 0.01])}}, name='{}')"
PANEL = "%ckpt panel trials"
HEARS = "import ipykernel\nprint('hears' if ipykernel.version_info >= (7,) else 'waits')"
WAKE = """() => {
    const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
    const url = `${kernel.serverSettings.wsUrl}api/kernels/${kernel.id}/channels`;
    setInterval(() => {
        const socket = new WebSocket(url);
        socket.onopen = () => socket.close();
    }, 5000);
}"""
"""Connect again and again: ipykernel 7.3 may not read a message until then (ipykernel#1554)."""
WAITING = re.compile("Waiting for the kernel|No answer since")
"""What the panel says when a kernel has not answered for a second."""


@pytest.fixture(scope="module", params=["NBCKPT_OLD_PYTHON", "NBCKPT_SUBSHELL_PYTHON", ""])
def python(request: pytest.FixtureRequest) -> str:
    """Return a Python with one of the kernels."""
    name: str = request.param
    if not name:
        return sys.executable
    older = os.environ.get(name) or pytest.skip(f"needs {name}")
    look = "import ipywidgets, anywidget; assert int(ipywidgets.__version__.partition('.')[0]) >= 8"
    if subprocess.run([older, "-c", look], check=False, capture_output=True).returncode:
        pytest.skip("needs anywidget and ipywidgets 8 beside the kernel")
    return older


def opened(lab: Lab, name: str, *cells: str) -> tuple[Locator, bool]:
    """Run two trials and open the panel; return it, and whether the kernel hears clicks while a cell runs."""
    lab.open(f"{name}.ipynb", f"{BEGIN}\n{HEARS}", RUN.format(name), PANEL, *cells)
    lab.page.evaluate(WAKE)
    hears = "hears" in text_of(lab.run(0))
    panel = lab.run(1, 2).locator(".nb-panel")
    expect(row(panel, "t1")).to_contain_text("Running")
    return panel, hears


def row(panel: Locator, name: str) -> Locator:
    return panel.locator(f".nb-rows [data-id={name}]")


def test_clicks_on_rows_select_open_and_pause(lab: Lab) -> None:
    panel, _ = opened(lab, "rows", "go_on()")
    row(panel, "t1").locator(".nb-check").click()
    panel.get_by_role("button", name="Pause", exact=True).click()
    expect(panel.locator(".nb-message")).to_contain_text("Pausing t1.")
    row(panel, "t1").locator(".nb-name").dblclick()
    expect(panel.locator(".nb-page").get_by_text("0.01").first).to_be_visible()
    lab.run(3)
    expect(row(panel, "t1")).to_contain_text("Paused")
    expect(row(panel, "t0")).to_contain_text("Done")


def test_a_click_during_a_cell_is_heard_or_waits(lab: Lab) -> None:
    panel, hears = opened(lab, "during", "print('began', flush=True)\nwait_for('during')\nprint('ended')")
    running = lab.start(3)
    running.get_by_text("began").wait_for()
    panel.get_by_role("button", name="Pause all").click()
    if hears:
        expect(panel.locator(".nb-message")).to_contain_text("Pausing all trials of during.")
        expect(running).not_to_contain_text("ended")
    else:
        expect(panel.locator(".nb-state")).to_contain_text(WAITING)
    (lab.folder / "during").touch()
    expect(panel.locator(".nb-message")).to_contain_text("Pausing all trials of during.")
    expect(panel.locator(".nb-state")).to_have_text("● Live")


def test_a_waiting_click_is_cancelled_and_never_acts(lab: Lab) -> None:
    """Where a kernel hears it, the deed needs variables that the cell may change, so it waits there too."""
    cell = "print('began', flush=True)\nwait_for('cancel')\nprint('ended')"
    panel, hears = opened(lab, "cancel", "%ckpt save first", "value = 1", cell, "print(value)")
    lab.run(3, 4)
    panel.get_by_role("tab", name="Checkpoints").click()
    row_of(panel, "first@1").click()
    panel.get_by_label("Name of the checkpoint").fill("second")
    running = lab.start(5)
    running.get_by_text("began").wait_for()
    panel.get_by_role("button", name="Save all variables").click()
    expect(panel.locator(".nb-state")).to_contain_text("Waits for the running cell." if hears else WAITING)
    panel.get_by_role("button", name="Cancel").click()
    (lab.folder / "cancel").touch()
    running.get_by_text("ended").wait_for()
    lab.run(6)
    expect(panel.locator(".nb-state")).to_have_text("● Live")
    expect(row_of(panel, "second@1")).to_have_count(0)


def row_of(panel: Locator, text: str) -> Locator:
    return panel.locator(".nb-rows .nb-row", has_text=text)


def test_a_live_table_waits_for_the_cell_or_hears_it(lab: Lab) -> None:
    """A kernel that answers nothing while a cell runs shows the table of HTML until the cell has ended."""
    _, hears = opened(lab, "table", f"{RUN.format('second')}\ndisplay(live)\nwait_for('table')")
    running = lab.start(3)
    copy, table = running.locator("[data-nbckpt-copy]"), running.locator(".nb-small")
    expect(copy).to_contain_text("2 trials, 2 running")
    if not hears:
        expect(copy).to_be_visible()
        expect(table).to_have_count(0)
        (lab.folder / "table").touch()
    table.get_by_role("button", name="Pause all").click()
    expect(table).to_contain_text("Pausing all trials of second.")
    expect(copy).to_be_hidden()
    (lab.folder / "table").touch()
