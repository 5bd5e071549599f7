"""The panel on the kernel and the widgets that came before: ipykernel 6, with ipywidgets 7 or 8.

NBCKPT_OLD_PYTHON names a Python that has them beside JupyterLab 4, NBCKPT_OLD_WIDGETS which of the two.
"""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import expect

from notebook.lab import Lab
from notebook.test_panel_browser import (
    click,
    sees,
    test_a_restart_leaves_the_html_and_the_cell_offers_to_resume,
    test_clicks_save_pause_resume_and_stop_trials,
    test_clicks_save_show_restore_compare_and_delete_checkpoints,
    test_the_store_is_synced_to_a_folder_with_clicks,
)

__all__ = [
    "test_a_restart_leaves_the_html_and_the_cell_offers_to_resume",
    "test_clicks_save_pause_resume_and_stop_trials",
    "test_clicks_save_show_restore_compare_and_delete_checkpoints",
    "test_the_store_is_synced_to_a_folder_with_clicks",
]

pytestmark = pytest.mark.browser

VERSIONS = "import ipykernel, ipywidgets\nprint(ipykernel.__version__[0], ipywidgets.__version__[0])"
ENDLESS = """
import itertools, threading, nbckpt
def train(config):
    for i in itertools.count():
        threading.Event().wait(0.05)  # or it would leave the kernel no time for anything else
        nbckpt.report(i=i, checkpoint={"i": i})
"""


@pytest.fixture(scope="module")
def python() -> str:
    """Return the Python with the old kernel."""
    return os.environ.get("NBCKPT_OLD_PYTHON") or pytest.skip("needs NBCKPT_OLD_PYTHON, with ipykernel 6")


def test_the_kernel_and_the_widgets_are_old_versions(lab: Lab) -> None:
    lab.open("versions.ipynb", VERSIONS)
    expect(lab.run(0)).to_have_text(f"6 {os.environ['NBCKPT_OLD_WIDGETS']}")


@pytest.mark.skipif(os.environ.get("NBCKPT_OLD_WIDGETS") != "7", reason="ipywidgets 7 only")
def test_beside_older_widgets_the_panel_has_core_widgets(lab: Lab) -> None:
    """Also if anywidget is installed: it works with these widgets, and the new panel does not."""
    load = "%load_ext nbckpt\nimport os\nos.environ['NBCKPT_PANEL'] = ''"
    panel = lab.opened("choice.ipynb", load, "%ckpt panel", run=2)
    panel.get_by_role("tab", name="Checkpoints").first.wait_for()
    expect(panel.locator(".widget-tab")).to_be_visible()
    expect(panel.locator("[data-nbckpt-place]")).to_have_count(0)


def test_the_interrupt_button_pauses_and_the_panel_resumes_a_run(lab: Lab) -> None:
    cells = (f"%load_ext nbckpt\n{ENDLESS}", "%ckpt run train --name endless --wait", "%ckpt panel trials")
    lab.open("interrupt.ipynb", *cells)
    lab.run(0)
    waiting = lab.start(1)
    waiting.get_by_text("1 running").wait_for()
    lab.page.get_by_role("button", name="Interrupt the kernel").click()
    waiting.get_by_text("interrupted: 1 trial, 1 paused").wait_for()
    panel = lab.run(2)
    click(panel, "Resume 1 interrupted or paused trial")
    sees(panel, "1 running")
    click(panel, "Stop…")
    click(panel, "Stop now")
    sees(panel, "1 stopped")
