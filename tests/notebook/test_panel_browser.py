"""The panel in a real JupyterLab, with real clicks."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from notebook.lab import Lab, pictures

pytestmark = pytest.mark.browser

TRAIN = """
import threading, nbckpt
gate = threading.Semaphore(0)
def train(config):
    start = nbckpt.get_checkpoint()
    for i in range(start.to_dict()["i"] if start else 0, 40):
        gate.acquire()
        loss = config["lr"] + 2 / (i + 1) + 0.05 * (i % 3)
        nbckpt.report(loss=loss, accuracy=1 - loss / 4, checkpoint={"i": i + 1})
"""


def click(panel: Locator, name: str) -> None:
    panel.get_by_role("button", name=name, exact=True).locator("visible=true").click()


def test_checkpoints_are_saved_found_previewed_restored_and_deleted_with_clicks(lab: Lab) -> None:
    lab.open(
        "panel.ipynb",
        "%load_ext nbckpt",
        "import numpy\nsquares = numpy.arange(1000) ** 2\nname = 'digits'\n%ckpt save cleaned -m 'clean'",
        "name = 'letters'\n%ckpt save other -m 'another thing'",
        "%ckpt panel",
        "print(name)",
    )
    for at in range(3):
        lab.run(at)
    panel = lab.run(3)
    panel.get_by_role("button", name="Restore…").wait_for()
    assert panel.locator("table caption", has_text="checkpoints").count() == 2  # static, and the panel's own
    box = panel.get_by_label("filter")
    box.fill("cleaned")
    box.press("Enter")
    chosen = panel.get_by_label("checkpoint", exact=True)
    panel.locator("option", has_text="other@1").wait_for(state="detached")
    assert "cleaned@1" in chosen.inner_text()
    click(panel, "Restore…")
    panel.get_by_text("would restore").wait_for()
    pictures(lab, "panel-checkpoints")
    click(panel, "Restore now")
    panel.get_by_text("restored 3 variables").wait_for()
    assert lab.run(4).inner_text().strip() == "digits"
    click(panel, "Diff")
    panel.get_by_text("-> now").wait_for()
    click(panel, "Delete…")
    panel.get_by_text("would remove").wait_for()
    click(panel, "Delete now")
    panel.locator("option", has_text="cleaned@1").wait_for(state="detached")
    click(panel, "Undo")
    panel.locator("option", has_text="cleaned@1").wait_for(state="attached")


def test_trials_are_followed_paused_resumed_and_stopped_with_clicks(lab: Lab) -> None:
    lab.open(
        "panel-trials.ipynb",
        "%load_ext nbckpt\n" + TRAIN,
        "%ckpt run train --grid lr=0.1,0.3,1.0 --name grid --concurrent 3 --metric loss --mode min",
        "%ckpt panel trials",
        "gate.release(30)",
        "gate.release(30)",
        "gate.release(1000)",
    )
    lab.run(0)
    lab.run(1).get_by_text("3 RUNNING").wait_for()
    panel = lab.run(2)
    panel.get_by_role("button", name="Pause").wait_for()
    lab.run(3)
    panel.get_by_text("@10").first.wait_for()
    pictures(lab, "panel-trials-running")
    click(panel, "Pause")
    lab.run(4)
    panel.locator(".widget-html").get_by_text("3 PAUSED").first.wait_for()
    click(panel, "Curves")
    panel.locator("img[alt^='loss of the trials']").wait_for()
    pictures(lab, "panel-trials-paused")
    click(panel, "Resume")
    lab.run(5)
    panel.locator(".widget-html").get_by_text("3 TERMINATED").first.wait_for()
    click(panel, "Best")
    panel.get_by_text("best of grid by loss").wait_for()


def test_the_store_is_synced_with_clicks(lab: Lab) -> None:
    lab.open("panel-sync.ipynb", "%load_ext nbckpt", "x = 1\n%ckpt save one", "%ckpt panel sync")
    lab.run(0)
    lab.run(1)
    panel = lab.run(2)
    place = panel.get_by_label("place")
    place.fill(str(lab.folder / "there"))
    place.press("Enter")
    click(panel, "Set")
    panel.locator(".widget-html").get_by_text("up to date").first.wait_for()
    assert any((lab.folder / "there" / "checkpoints").glob("*.json"))
    click(panel, "Sync now")
    panel.get_by_text("nothing new for").wait_for()
    pictures(lab, "panel-sync")
    click(panel, "Off")
    panel.get_by_text("kept here only").first.wait_for()
