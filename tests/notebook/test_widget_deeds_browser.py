"""What the panel does with trials, by clicks in JupyterLab with a real kernel."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from notebook.lab import WAITING_TRIALS, Lab

pytestmark = pytest.mark.browser

BEGIN = f"""{WAITING_TRIALS}
def fails(config):
    nbckpt.report(loss=1.0)
    if not pathlib.Path(config["name"]).exists():
        raise ValueError("diverged")
"""
GRID = "live = nbckpt.run(train, {{'lr': nbckpt.grid_search([1, 2])}}, name='{}')"


def opened(lab: Lab, name: str, run: str, *cells: str) -> Locator:
    """Run trials and open the panel; return it."""
    lab.open(f"{name}.ipynb", BEGIN, run, "%ckpt panel trials", *cells)
    for at in range(3):
        lab.run(at)
    return lab.output(2).locator(".nb-panel")


def row(panel: Locator, name: str) -> Locator:
    return panel.locator(f".nb-rows [data-id={name}]")


def press(panel: Locator, action: str) -> None:
    panel.locator(f".nb-actions [data-action={action}]").click()


def test_a_checkpoint_on_demand_is_restored_and_undone(lab: Lab) -> None:
    value = "print(globals().get('step_of_trial'))"
    panel = opened(lab, "demand", GRID.format("demand"), "go_on(2)", value)
    row(panel, "t0").locator(".nb-check").click()
    expect(panel.locator("[data-action=restore]")).to_be_disabled()
    press(panel, "checkpoint")
    expect(panel.locator(".nb-message")).to_contain_text("t0")
    lab.run(3)
    press(panel, "restore")
    expect(panel.locator(".nb-actions")).to_contain_text("1 variable")
    press(panel, "confirm")
    expect(panel.locator(".nb-message")).to_contain_text("Restored 1 variable")
    expect(lab.run(4)).not_to_contain_text("None")
    panel.locator(".nb-message").get_by_role("button", name="Undo").click()
    expect(panel.locator(".nb-message")).not_to_contain_text("Restored")
    expect(lab.run(4)).to_have_text("None")


def test_selected_trials_are_paused_and_resumed(lab: Lab) -> None:
    panel = opened(lab, "both", GRID.format("both"), "go_on(1)", "go_on()")
    for name in ("t0", "t1"):
        row(panel, name).locator(".nb-check").click()
    press(panel, "pause")
    for name in ("t0", "t1"):  # the next cell runs beside the click's message: it may overtake it
        expect(row(panel, name)).to_contain_text("Pausing after this step")
    lab.run(3)
    for name in ("t0", "t1"):
        expect(row(panel, name)).to_contain_text("Paused")
    press(panel, "resume")
    for name in ("t0", "t1"):
        expect(row(panel, name)).to_contain_text("Running")
    lab.run(4)
    for name in ("t0", "t1"):
        expect(row(panel, name)).to_contain_text("Done")


def test_a_failed_trial_gets_a_note_and_is_retried(lab: Lab) -> None:
    run = "_ = nbckpt.run(fails, {'name': 'ready'}, name='fails').wait()"
    panel = opened(lab, "fails", run, "%ckpt note fails/t0")
    expect(row(panel, "t0")).to_contain_text("Failed")
    row(panel, "t0").locator(".nb-check").click()
    press(panel, "note")
    panel.get_by_role("textbox", name="Note on t0").fill("the file was missing")
    panel.get_by_role("button", name="Save note").click()
    expect(panel.locator(".nb-message")).to_contain_text("Wrote the note of t0.")
    (lab.folder / "ready").touch()
    press(panel, "retry")
    press(panel, "confirm")
    expect(row(panel, "t0")).to_contain_text("Done")
    expect(lab.run(3)).to_contain_text("the file was missing")
