"""The panel of one widget in JupyterLab: its panes, its deeds, and an impatient user.

That user clicks twice, types stray keys, reloads, and has two notebooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from notebook.lab import WAITING_TRIALS, Lab, page_errors, page_of, picture

pytestmark = pytest.mark.browser

BEGIN = """
import os
os.environ |= dict(NBCKPT_PANEL="widget", NBCKPT_STORE="{}.store")
%load_ext nbckpt
%ckpt auto on --budget 1000000%
"""
FIRST = "walk, model = [1, 2, 3], {'bias': 1}"


def opened(lab: Lab, name: str, *cells: str, tab: str) -> Locator:
    """Run the cells in a store of their own, then open the panel."""
    cells = (BEGIN.format(name), FIRST, *cells, f"%ckpt panel {tab}")
    output = lab.opened(name, *cells, "print(walk, globals().get('other'))", run=len(cells))
    output.locator(".nb-panel").wait_for()
    return output


def row(panel: Locator, text: str) -> Locator:
    return panel.locator(".nb-rows .nb-row", has_text=text)


def test_clicks_save_restore_send_and_delete(lab: Lab) -> None:
    panel = opened(lab, "panes.ipynb", tab="checkpoints")
    expect(panel.locator(".nb-empty")).to_contain_text("Nothing saved yet.")
    panel.get_by_label("Name of the checkpoint").fill("mine")
    panel.get_by_role("button", name="Save all variables").click()
    expect(row(panel, "mine@1")).to_be_visible()
    row(panel, "mine@1").click()
    expect(panel.locator(".nb-values")).to_contain_text("= same")
    panel.get_by_role("button", name="Restore all").click()
    expect(panel.locator(".nb-actions")).to_contain_text("nothing would change")
    panel.get_by_role("button", name="Cancel").click()
    panel.get_by_role("tab", name="Sync").click()
    expect(panel.locator(".nb-sync")).to_contain_text("on this machine only")
    panel.get_by_label("Place").fill(str(lab.folder / "there"))
    panel.get_by_role("button", name="Turn on").click()
    expect(panel.locator(".nb-sync")).to_contain_text("Everything is also in")
    expect(panel.get_by_role("tab", name="Sync")).to_contain_text("✓")
    panel.get_by_role("tab", name="Checkpoints").click()
    panel.get_by_role("button", name="Delete…").click()
    panel.get_by_role("button", name="Delete 1 checkpoint").click()
    expect(row(panel, "mine@1")).to_have_count(0)


def test_a_click_goes_back_to_the_state_before(lab: Lab) -> None:
    panel = opened(lab, "history.ipynb", "walk = [1]; other = 7", tab="history")
    expect(row(panel, "walk = [1]; other = 7")).to_be_visible()
    row(panel, "walk, model").click()
    expect(panel.locator(".nb-detail")).to_contain_text("If you go here now:")
    panel.get_by_role("button", name="Go to this state…").click()
    expect(panel.locator(".nb-actions")).to_contain_text("will be removed.")
    panel.locator("[data-action=confirm]").click()
    expect(panel.locator(".nb-message")).to_contain_text("At [")
    expect(lab.run(4)).to_contain_text("[1, 2, 3] None")


def test_filters_stay_when_the_cell_is_run_again(lab: Lab) -> None:
    panel = opened(lab, "filters.ipynb", "%ckpt save first", "%ckpt save second", tab="history")
    find = panel.get_by_role("searchbox", name="Find code or variable")
    for text in ("wa", "walk"):
        find.fill(text)
    panel.get_by_role("tab", name="Checkpoints").click()
    saved = panel.get_by_role("searchbox", name="Find name, text, variable")
    for text in ("sec", "second"):
        saved.fill(text)
    lab.run(5)  # the browser holds a change back until the kernel has heard the one before
    panel = lab.run(4)
    expect(find).to_have_value("walk")
    panel.get_by_role("tab", name="Checkpoints").click()
    expect(saved).to_have_value("second")
    expect(row(panel, "second@1")).to_be_visible()
    expect(row(panel, "first@1")).to_have_count(0)


def test_the_panel_and_other_outputs_keep_their_styles(lab: Lab) -> None:
    """JupyterLab styles code and tables of outputs, and results have the class of the panel."""
    long = (
        "total = sum(value for value in range(1_000) if value % 3 == 0 and value % 5 == 0) + 10_000 + 20_000"
    )
    panel = opened(lab, "style.ipynb", long, "%ckpt history", tab="history")
    code = row(panel, "total = ").locator("code")
    expect(code).to_have_css("white-space", "nowrap")
    expect(code).to_have_css("background-color", "rgba(0, 0, 0, 0)")
    result = lab.output(3).locator("div.nbckpt")
    expect(result).to_have_css("display", "block")
    expect(result).to_have_css("max-height", "none")


GO_ON = "go_on()"


def begun(lab: Lab, name: str, *cells: str) -> Locator:
    """Open a notebook, run two trials, which wait, and return the panel with them."""
    run = f"trials = nbckpt.run(train, {{'lr': nbckpt.grid_search([0.1, 0.01])}}, name='{name}')"
    output = lab.opened(f"{name}.ipynb", WAITING_TRIALS, run, "%ckpt panel trials", *cells, run=3)
    panel = output.locator(".nb-panel")
    shows(panel, "t1", "Running")
    return panel


def trial(panel: Locator, name: str) -> Locator:
    return panel.locator(f".nb-rows [data-id={name}]")


def shows(panel: Locator, name: str, status: str) -> None:
    expect(trial(panel, name)).to_contain_text(status)


def press(panel: Locator, action: str) -> None:
    panel.locator(f".nb-actions [data-action={action}]").click()


@pytest.fixture
def other(browser: Browser, server: tuple[str, Path]) -> Iterator[Lab]:
    """Give the test a second page of the same server."""
    with page_of(browser, *server) as other:
        yield other


def test_a_double_click_acts_once_and_stop_asks(lab: Lab) -> None:
    panel = begun(lab, "twice", GO_ON, "%ckpt ls --find twice")
    panel.get_by_role("button", name="Stop 2…").dblclick()
    expect(panel.locator("[data-action=confirm]")).to_have_text("Stop 2 trials")
    panel.locator(".nb-confirm").get_by_role("button", name="Cancel").click()
    panel.get_by_role("tab", name="Checkpoints").click()
    panel.get_by_label("Name of the checkpoint").fill("twice")
    panel.get_by_role("button", name="Save all variables").dblclick()
    expect(row(panel, "twice@1")).to_be_visible()
    expect(lab.run(4)).to_contain_text("1 checkpoint")
    panel.get_by_role("tab", name="Trials").click()
    panel.get_by_role("button", name="Pause all").dblclick()
    expect(panel.locator(".nb-message")).to_contain_text("Pausing all trials of twice.")
    lab.run(3)
    for name in ("t0", "t1"):
        shows(panel, name, "Paused")


def test_letters_in_the_panel_leave_the_cells_alone(lab: Lab) -> None:
    panel = begun(lab, "keys", "left = 1")
    cells = lab.page.locator(".jp-Notebook .jp-Cell")
    left = cells.filter(has_text="left = 1")
    for place in (".nb-rows [data-id=t1] .nb-cell >> nth=0", ".nb-tab >> nth=0", "[data-action=main]"):
        panel.locator(place).focus()
        expect(panel.locator(":focus")).to_have_count(1)
        for key in ("d", "d", "x", "a", "b", "m", "z", "0", "0", "Escape"):
            lab.page.keyboard.press(key)
    panel.get_by_placeholder("Find").first.fill("")
    panel.get_by_placeholder("Find").first.press_sequentially("dd")
    expect(cells).to_have_count(4)
    expect(left).to_have_count(1)
    expect(panel.get_by_placeholder("Find").first).to_have_value("dd")


def test_a_reload_while_a_trial_runs_brings_the_panel_back(lab: Lab) -> None:
    begun(lab, "reload", GO_ON)
    lab.command("docmanager:save")
    lab.enter("reload.ipynb")
    panel = lab.output(2).locator(".nb-panel")
    shows(panel, "t1", "Running")
    panel.get_by_role("button", name="Pause all").click()
    expect(panel.locator(".nb-message")).to_contain_text("Pausing all trials of reload.")
    lab.run(3)
    shows(panel, "t1", "Paused")


def test_run_all_twice_leaves_one_panel_with_the_last_state(lab: Lab) -> None:
    errors = page_errors(lab.own_page())
    run = f"{GO_ON}\n%ckpt run train --name all --grid lr=0.1,0.01 --wait"
    lab.open("all.ipynb", WAITING_TRIALS, "%ckpt panel trials", run)
    for _ in range(2):
        lab.command("notebook:run-all-cells")
    panel = lab.output(1).locator(".nb-panel")
    for name in ("t0", "t1"):
        shows(panel, name, "Done")
    expect(panel).to_have_count(1)
    expect(lab.output(1).locator("[data-nbckpt-copy] summary")).to_contain_text("2 done")
    assert errors == []


def test_a_restart_drops_a_deed_that_waits(lab: Lab) -> None:
    waits = "print('began', flush=True)\nwait_for('never')"
    panel = begun(lab, "drop", waits, "%load_ext nbckpt\n%ckpt ls --find late")
    panel.get_by_role("tab", name="Checkpoints").click()
    panel.get_by_label("Name of the checkpoint").fill("late")
    lab.start(3).get_by_text("began").wait_for()
    panel.get_by_role("button", name="Save all variables").click()
    expect(panel.locator(".nb-state")).to_contain_text("Waits for the running cell.")
    lab.restart()
    expect(lab.output(2).get_by_text("Run this cell again for the buttons.")).to_be_visible()
    expect(panel).to_have_count(0)
    expect(lab.run(4)).to_contain_text("No checkpoint")


def test_a_theme_change_while_trials_run_repaints_and_follows(lab: Lab) -> None:
    panel = begun(lab, "theme", GO_ON)
    ink = "panel => getComputedStyle(panel).color"
    light = panel.evaluate(ink)
    lab.theme("dark")
    assert panel.evaluate(ink) != light
    lab.run(3)
    shows(panel, "t1", "Done")
    lab.theme("light")


def test_two_notebooks_filter_apart_and_act_on_one_store(lab: Lab, other: Lab) -> None:
    """The second kernel pauses trials that run in the first."""
    panel = begun(lab, "store", GO_ON)
    other.open("beside.ipynb", WAITING_TRIALS, "%ckpt panel trials")
    beside = other.run(0, 1).locator(".nb-panel")
    shows(beside, "t1", "Running")
    beside.get_by_placeholder("Find").first.fill("t1")
    expect(beside.locator(".nb-rows .nb-row")).to_have_count(1)
    expect(panel.locator(".nb-rows .nb-row")).to_have_count(2)
    beside.get_by_role("button", name="Pause all").click()
    expect(beside.locator(".nb-message")).to_contain_text("Pausing all trials of store.")
    lab.run(3)
    shows(panel, "t1", "Paused")
    shows(beside, "t1", "Paused")


HOSTILE = """
import shlex
evil = "<script>hacked = 1</script><img src=x onerror='hacked=1'>\\u202egnol\\x00" + "x" * 10_000
def odd(config):
    nbckpt.report({evil[:200]: 0.5, "loss": 0.25})
    if config["it"] != "plain":
        raise ValueError(evil)
nbckpt.run(odd, {"it": nbckpt.grid_search([evil, "plain"])}, name="odd", metric="loss", mode="min").wait()
get_ipython().run_line_magic("ckpt", "note odd/t1 -- " + evil[:9_000].replace("\\x00", ""))
get_ipython().run_line_magic("ckpt", "save odd -m " + shlex.quote(evil[:500].replace("\\x00", "")))
"""


def test_hostile_texts_are_texts_in_every_pane(lab: Lab) -> None:
    errors = page_errors(lab.own_page())
    panel = lab.opened("odd.ipynb", WAITING_TRIALS, HOSTILE, "%ckpt panel trials", run=3).locator(".nb-panel")
    shows(panel, "t1", "Done")
    panel.locator("[data-id=t1] .nb-name").dblclick()
    expect(panel.locator(".nb-page")).to_contain_text("<script>hacked")
    picture(lab.page, "widget-hostile")
    panel.get_by_role("tab", name="Checkpoints").click()
    row(panel, "odd@1").click()
    expect(panel.locator(".nb-values")).to_contain_text("evil")
    expect(panel.locator("script, img[src=x]")).to_have_count(0)
    assert lab.page.evaluate("typeof hacked") == "undefined"
    assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth")
    assert errors == []


def test_a_checkpoint_on_demand_is_restored_and_undone(lab: Lab) -> None:
    value = "print(globals().get('step_of_trial'))"
    panel = begun(lab, "demand", "go_on(2)", value)
    trial(panel, "t0").locator(".nb-check").click()
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
    panel = begun(lab, "both", "go_on(1)", "go_on()")
    for name in ("t0", "t1"):
        trial(panel, name).locator(".nb-check").click()
    press(panel, "pause")
    for name in ("t0", "t1"):  # the next cell runs beside the click's message: it may overtake it
        shows(panel, name, "Pausing after this step")
    lab.run(3)
    for name in ("t0", "t1"):
        shows(panel, name, "Paused")
    press(panel, "resume")
    for name in ("t0", "t1"):
        shows(panel, name, "Running")
    lab.run(4)
    for name in ("t0", "t1"):
        shows(panel, name, "Done")


FAILS = """
def fails(config):
    nbckpt.report(loss=1.0)
    if not pathlib.Path(config["name"]).exists():
        raise ValueError("diverged")
"""


def test_a_failed_trial_gets_a_note_and_is_retried(lab: Lab) -> None:
    run = f"{FAILS}_ = nbckpt.run(fails, {{'name': 'ready'}}, name='fails').wait()"
    note = "%ckpt note fails/t0"
    panel = lab.opened("fails.ipynb", WAITING_TRIALS, run, "%ckpt panel trials", note, run=3)
    shows(panel, "t0", "Failed")
    trial(panel, "t0").locator(".nb-check").click()
    press(panel, "note")
    panel.get_by_role("textbox", name="Note on t0").fill("the file was missing")
    panel.get_by_role("button", name="Save note").click()
    expect(panel.locator(".nb-message")).to_contain_text("Wrote the note of t0.")
    (lab.folder / "ready").touch()
    press(panel, "retry")
    press(panel, "confirm")
    shows(panel, "t0", "Done")
    expect(lab.run(3)).to_contain_text("the file was missing")


HIDE = "(panel) => { panel.style.display = 'none'; }"
SETTLED_MS = 1000


def test_a_notebook_in_two_pages_has_two_live_panels(lab: Lab, other: Lab) -> None:
    panel = begun(lab, "pages", GO_ON)
    lab.command("docmanager:save")
    other.enter("pages.ipynb")
    second = other.output(2).locator(".nb-panel")
    shows(second, "t0", "Running")
    second.evaluate(HIDE)
    other.page.wait_for_timeout(SETTLED_MS)
    lab.run(3)
    shows(panel, "t0", "Done")


def test_a_new_view_for_an_output_is_live_by_itself(lab: Lab) -> None:
    panel = begun(lab, "output", GO_ON)
    lab.page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2")
    lab.command("notebook:create-output-view")
    second = lab.page.locator(".jp-LinkedOutputView .nb-panel")
    shows(second, "t0", "Running")
    panel.evaluate(HIDE)
    lab.page.wait_for_timeout(SETTLED_MS)
    lab.page.evaluate(
        "window.jupyterapp.shell.activateById([...window.jupyterapp.shell.widgets('main')][0].id)"
    )
    lab.run(3)
    shows(second, "t0", "Done")
