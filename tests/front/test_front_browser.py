"""The panel in Chromium, on a page without Jupyter, with a kernel that is none."""

from __future__ import annotations

import re

import pytest
from front.conftest import axe, beyond, names, opened
from playwright.sync_api import Locator, Page, expect

WIDTHS = [480, 720, 1100, 1800, 2560]
SENT = "kernel.sent.filter((message) => message.kind === 'act' && !message.options.dry)"

pytestmark = pytest.mark.browser


def test_the_first_screen_answers_at_each_width(page: Page, subtests: pytest.Subtests) -> None:
    for width in WIDTHS:
        with subtests.test(width=width):
            panel = opened(page, width=width)
            heading = panel.locator(".nb-heading")
            expect(heading).to_contain_text("t52, loss 0.1602")
            expect(heading).to_contain_text("lr 0.0129, width 256, depth 1, rmsprop")
            expect(names(panel).first).to_have_text("t52")
            expect(panel.get_by_label("best", exact=True)).to_have_count(1)
            assert panel.bounding_box()["height"] <= 640
            assert beyond(panel) == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            bar = heading.get_by_role("progressbar", name="57 of 60 trials have ended")
            expect(bar).to_have_attribute("aria-valuenow", "95")
            height = heading.bounding_box()["height"]
            bar.evaluate("(one) => one.remove()")
            assert height - heading.bounding_box()["height"] < 5, "the bar takes a line"


@pytest.mark.parametrize(("pane", "buttons"), [("trials", 2), ("checkpoints", 3)])
def test_each_button_has_a_name_of_its_own(page: Page, pane: str, buttons: int) -> None:
    panel = opened(page, pane, width=1100)
    panel.locator(".nb-rows [data-id]").nth(1).click()
    expect(panel.locator(".nb-foot").get_by_role("button")).to_have_count(buttons)
    twice = """(root) => [...root.querySelectorAll("button")]
        .filter((one) => !one.closest(".nb-grid") && one.getBoundingClientRect().width)
        .map((one) => one.getAttribute("aria-label") || one.textContent)
        .filter((name, at, all) => all.indexOf(name) !== at)"""
    assert panel.evaluate(twice) == []


@pytest.mark.parametrize("width", [720, 760, 1100])
def test_the_table_shows_whole_columns(page: Page, width: int) -> None:
    panel = opened(page, width=width, metrics="loss,accuracy,latency")
    expect(names(panel).first).to_have_text("t52")
    cut = """(grid) => [...grid.querySelectorAll("[role=columnheader]")]
        .map((each) => each.getBoundingClientRect())
        .filter(({ left, right }) => left < grid.getBoundingClientRect().right - 20
            && right > grid.getBoundingClientRect().left + grid.clientWidth + 1).length"""
    grid = panel.get_by_role("grid")
    assert grid.evaluate(cut) == 0
    hidden = grid.evaluate("""(grid) => [...grid.querySelectorAll("[role=columnheader]")].at(-1)
        .getBoundingClientRect().right > grid.getBoundingClientRect().left + grid.clientWidth + 1""")
    assert hidden == (width < 1000)
    expect(panel.locator(".nb-more-columns svg")).to_be_visible(visible=hidden)


UNFINISHED = {
    57: {"why": "Pausing after this step…"},
    58: {"of": 10_000},
    59: {"left_s": 3_900},
    52: {"status": "interrupted", "saved": 20, "unsaved": 6},
    2: {"status": "interrupted", "saved": None},
    44: {"status": "paused"},
}
STANDINGS = {
    57: "Pausing after this step…",
    58: "26/10000 · 2 min left, 6 steps not saved",
    59: "12/100 · 1 h 05 min left, 12 steps not saved",
    52: "Goes on from @20, 6 steps to do again",
    2: "Goes on from its start",
    44: "Paused",
}


@pytest.mark.parametrize("width", [1248, 488])
def test_rows_say_how_unfinished_trials_stand(page: Page, width: int) -> None:
    panel = opened(page, width=width)
    expect(names(panel).first).to_have_text("t52")
    page.evaluate(
        """(changed) => {
          for (const [n, fields] of Object.entries(changed)) Object.assign(kernel.all[n].row, fields);
          const names = { metrics: ["loss", "accuracy"], settings: ["lr", "width"], same: {} };
          const head = { kind: "trials", experiment: "tune", metric: "loss", mode: "min", total: 60 };
          const rows = kernel.all.map(({ row }) => row);
          kernel.emit({ ...head, ...names, experiments: [], summary: {}, from: 0, reset: true, rows });
        }""",
        UNFINISHED,
    )
    panel.get_by_label("Find trials").fill("status in ('running', 'interrupted', 'paused')")
    for number, words in STANDINGS.items():
        shown = panel.locator(f".nb-row[data-id=t{number}]")
        if width > 1000:
            cell = shown.locator(".nb-cell").nth(1)
            expect(cell.locator("span").last).to_have_text(words)
            fits = "(cell) => cell.lastChild.scrollWidth <= cell.clientWidth"
            assert cell.evaluate(f"{fits} && cell.lastChild.scrollHeight <= cell.clientHeight")
            expect(cell).to_contain_text("Interrupted: " if number in (52, 2) else words)
        elif number in (52, 2, 57):
            expect(shown.locator(".nb-card-about")).to_have_text(words)
        elif number != 44:
            expect(shown).to_contain_text(words.partition(" left")[0])


def test_a_held_key_acts_once(page: Page, panel: Locator) -> None:
    panel.get_by_role("button", name="Save checkpoints").focus()
    for _ in range(4):
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    expect(panel.locator(".nb-message")).to_contain_text("Done: checkpoint")
    assert page.evaluate(f"{SENT}.length") == 1
    panel.locator(".nb-rows .nb-cell").first.click()
    for _ in range(4):
        page.keyboard.down("ArrowDown")
    page.keyboard.up("ArrowDown")
    expect(panel.locator(".nb-row.nb-here")).to_have_attribute("aria-rowindex", "6")


def test_a_header_sorts_and_failed_trials_stay_last(page: Page, panel: Locator) -> None:
    header = panel.get_by_role("columnheader", name="lr")
    header.click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    header.click()
    expect(header).to_have_attribute("aria-sort", "descending")
    panel.locator(".nb-rows .nb-cell").first.click()
    page.keyboard.press("Control+End")
    expect(panel.locator(".nb-row.nb-here")).to_contain_text("Failed")


def test_chips_words_and_conditions_filter(panel: Locator) -> None:
    find, grid = panel.get_by_label("Find trials"), panel.get_by_role("grid")
    panel.get_by_role("button", name="Failed 5").click()
    expect(grid).to_have_attribute("aria-rowcount", "6")
    find.fill("memory")
    expect(names(panel)).to_have_text(["t19"])
    panel.get_by_role("button", name="Clear filters").click()
    expect(grid).to_have_attribute("aria-rowcount", "61")
    find.fill("lr < 0.001 and optimizer in ('adam', 'sgd') or trial == 't52'")
    expect(panel.get_by_role("toolbar")).to_contain_text("8 of 60")
    find.fill("los < 0.2")
    expect(panel.locator(".nb-find-problem")).to_have_text("No trial has “los”. Did you mean “loss”?")
    expect(grid).to_have_attribute("aria-rowcount", "61")
    expect(find).to_have_attribute("aria-invalid", "true")
    find.fill("batch == 32 and loss < 0.2")
    expect(panel.locator(".nb-find-problem")).to_be_hidden()
    expect(names(panel)).to_have_text(["t52", "t2"])


def test_a_selection_brings_its_deeds_and_stop_asks(page: Page, panel: Locator) -> None:
    panel.get_by_label("Find trials").fill("t57")
    panel.locator(".nb-check").first.click()
    panel.get_by_role("button", name="Pause", exact=True).click()
    expect(panel.locator(".nb-message")).to_contain_text("Done: pause t57.")
    panel.get_by_role("button", name="Stop…").click()
    expect(panel.locator(".nb-confirm-text")).to_contain_text("stop t57?")
    assert page.evaluate(f"{SENT}.map((message) => message.verb)") == ["pause"]
    panel.get_by_role("button", name="stop 1").click()
    expect(panel.locator(".nb-message")).to_contain_text("Done: stop t57.")
    assert page.evaluate(f"{SENT}.map((message) => message.ids)") == [["t57"], ["t57"]]


def test_a_deed_that_waits_for_the_kernel_is_cancelled(page: Page, panel: Locator) -> None:
    expect(panel.locator(".nb-state")).to_have_text("● Live")
    page.evaluate("kernel.silent = true")
    panel.get_by_role("button", name="Pause all").click()
    expect(panel.locator(".nb-state")).to_contain_text("Waiting for the kernel…")
    panel.get_by_role("button", name="Cancel").click()
    page.evaluate("kernel.silent = false")
    panel.get_by_role("columnheader", name="lr").click()
    assert page.evaluate(f"{SENT}.length") == 0


def test_when_the_kernel_has_gone_looking_goes_on(page: Page, panel: Locator) -> None:
    expect(names(panel).first).to_have_text("t52")
    page.evaluate("model.end()")
    expect(panel.locator(".nb-state")).to_contain_text("Run this cell again for buttons.")
    expect(panel.get_by_role("button", name="Pause all")).to_have_attribute("aria-disabled", "true")
    panel.get_by_role("columnheader", name="loss").click()
    expect(panel.get_by_role("columnheader", name="loss")).to_have_attribute("aria-sort", "descending")


def test_the_pointer_shows_lines_and_zooms(page: Page, panel: Locator) -> None:
    chart = panel.locator(".u-over")
    box = chart.bounding_box()
    chart.hover(position={"x": box["width"] * 0.9, "y": box["height"] * 0.97})
    expect(panel.locator(".nb-tip-row")).to_have_count(5)
    expect(panel.locator(".nb-tip")).to_contain_text("+55 more")
    expect(panel.locator(".nb-row.nb-lit")).to_have_count(1)
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 100, steps=4)
    page.mouse.up()
    back = panel.get_by_role("button", name="Whole range")
    expect(back).to_be_visible()
    chart.dblclick()
    expect(back).to_have_count(0)


def test_keys_zoom_and_move_the_curves(page: Page, panel: Locator) -> None:
    ticks = "document.querySelector('.nbckpt canvas').toDataURL()"
    # Before the lines are there, keys do nothing.
    expect(panel.locator(".nb-plot-foot")).to_contain_text("5 best of 60 in colour")
    panel.locator(".nb-plot").focus()
    back = panel.get_by_role("button", name="Whole range")
    page.keyboard.press("+")
    expect(back).to_be_visible()
    before = page.evaluate(ticks)
    page.keyboard.press("Shift+ArrowRight")
    page.wait_for_function(f"(before) => {ticks} !== before", arg=before)
    page.keyboard.press("-")
    page.keyboard.press("-")
    expect(back).to_have_count(0)
    page.keyboard.press("?")
    expect(panel.get_by_role("dialog")).to_contain_text("in curves: zoom in and out, move what is shown")


def test_rows_are_sorted_again_when_the_pointer_leaves(page: Page, panel: Locator) -> None:
    expect(names(panel).first).to_have_text("t52")
    names(panel).first.hover()
    page.evaluate("{ kernel.all[57].y[kernel.all[57].y.length - 1] = 0.01; kernel.step(); }")
    expect(panel.locator(".nb-message")).to_contain_text("New best: t57")
    expect(names(panel).first).to_have_text("t52")
    panel.get_by_role("tab", name="Trials").hover()
    expect(names(panel).first).to_have_text("t57")


def test_curves_are_a_table_too(panel: Locator) -> None:
    panel.get_by_role("button", name="Show as table").click()
    expect(panel.locator(".nb-plot-table tbody tr")).to_have_count(5)
    expect(panel.locator(".nb-plot-table tbody")).to_contain_text("0.1602")


def test_dragging_on_a_setting_filters_the_table(page: Page, panel: Locator) -> None:
    panel.get_by_role("tab", name="Settings", exact=True).click()
    box = panel.locator(".nb-multiple").nth(1).bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.98, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(panel.get_by_role("button", name="Clear filters")).to_be_visible()
    panel.get_by_role("tab", name="Parallel lines").click()
    expect(panel.locator(".nb-parallel .nb-brush")).to_have_count(1)


def test_keys_on_an_axis_filter_the_table(page: Page, panel: Locator) -> None:
    grid, keys = panel.get_by_role("grid"), page.keyboard
    panel.get_by_role("tab", name="Parallel lines").click()
    axis = panel.get_by_role("slider").first
    expect(axis).to_have_attribute("aria-valuetext", "the whole range")
    axis.focus()
    keys.press("ArrowUp")
    expect(panel.get_by_role("button", name="Clear filters")).to_be_visible()
    expect(axis).to_be_focused()
    lowest = axis.get_attribute("aria-valuetext")
    keys.press("Shift+ArrowUp")
    expect(axis).not_to_have_attribute("aria-valuetext", lowest)
    keys.press("0")
    expect(axis).to_have_attribute("aria-valuetext", "the whole range")
    expect(grid).to_have_attribute("aria-rowcount", "61")
    expect(axis).to_be_focused()


def test_keys_lead_everywhere_and_never_leave(page: Page, panel: Locator) -> None:
    expect(names(panel).first).to_have_text("t52")
    page.evaluate("globalThis.left = []; document.addEventListener('keydown', (e) => left.push(e.key), true)")
    panel.get_by_role("tab", name="Trials").focus()
    for key in ["/", *"lr<0.01", "Escape"]:
        page.keyboard.press(key)
    expect(panel.get_by_role("grid")).to_have_attribute("aria-rowcount", "61")
    for key in ["b"]:
        panel.get_by_role("tab", name="Trials").focus()
        page.keyboard.press(key)
    expect(panel.locator(".nb-here")).to_contain_text("t52")
    for key in ["d", "d", "ArrowDown", "Space", "Shift+ArrowDown", "c"]:
        page.keyboard.press(key)
    expect(panel.locator(".nb-compare thead")).to_have_text("Namet2t44")
    expect(panel.locator(".nb-compare tbody")).to_contain_text("adamw")
    page.keyboard.press("?")
    expect(panel.get_by_role("dialog")).to_contain_text("go to the best")
    page.keyboard.press("Escape")
    expect(panel.get_by_role("dialog")).to_have_count(0)
    assert page.evaluate("left") == []


@pytest.fixture
def detail(page: Page) -> Locator:
    """The panel with a trial that was opened by keys."""
    panel = opened(page, width=900)
    panel.locator("[data-id=t2] .nb-name").click()
    page.keyboard.press("Enter")
    return panel


def compare_two(panel: Locator) -> None:
    for at in (0, 1):
        panel.locator(".nb-check").nth(at).click()
    panel.get_by_role("button", name="Compare", exact=True).click()


def test_a_narrow_panel_has_cards_and_turns_to_the_comparison(page: Page) -> None:
    panel = opened(page, width=480)
    card = panel.locator(".nb-rows .nb-card").first
    row = card.locator("xpath=ancestor::*[@role='row']").bounding_box()
    first, last = (card.locator(part).bounding_box() for part in (".nb-card-line", ".nb-card-about"))
    above, below = first["y"] - row["y"], row["y"] + row["height"] - last["y"] - last["height"]
    assert abs(above - below) <= 2
    expect(panel.locator(".nb-row[data-id=t52]")).to_contain_text("accuracy 0.93")
    compare_two(panel)
    expect(panel.locator(".nb-compare thead")).to_have_text(re.compile("Namet52 *t2"))


def test_a_trial_that_is_opened_stands_in_one_place(page: Page) -> None:
    """At 2,560 pixels the trial with the focus has a column of its own."""
    panel = opened(page, width=2560)
    expect(panel.locator(".nb-page h3").first).to_have_text("trial t52")
    panel.locator("[data-id=t2] .nb-name").dblclick()
    expect(panel.locator(".nb-page h3", has_text="trial t2")).to_have_count(1)
    panel.get_by_role("button", name="Back").click()
    expect(panel.locator(".nb-aside .nb-page h3").first).to_have_text("trial t2")


def test_a_comparison_has_settings_curves_and_media(page: Page, panel: Locator) -> None:
    compare_two(panel)
    expect(panel.get_by_text("batch 32, epochs 100")).to_be_hidden()
    panel.get_by_text("Same in all: 2 settings").click()
    expect(panel.get_by_text("batch 32, epochs 100")).to_be_visible()
    page.evaluate("kernel.step()")
    expect(panel.get_by_text("batch 32, epochs 100")).to_be_visible()
    label = "loss, last values: t52 0.1602, t2 0.1623"
    expect(panel.locator(".nb-compare-curves svg.nb-chart")).to_have_attribute("aria-label", label)
    expect(panel.locator(".nb-medium")).to_contain_text(["Step 80.", "Step 80."])
    expect(panel.get_by_label("Media").locator("option")).to_have_text(["sample", "note"])
    panel.get_by_label("Step").focus()
    page.keyboard.press("Home")
    expect(panel.locator(".nb-medium")).to_contain_text(["Step 20.", "Step 20."])


CLICKS = (
    "clicked = []; addEventListener('click', ({ target }) => clicked.push(target.closest('button') !== null))"
)


@pytest.mark.parametrize("target", ["[data-pane=history]", ".nb-actions button"])
def test_what_comes_in_the_middle_of_a_click_does_not_lose_it(
    page: Page, panel: Locator, target: str
) -> None:
    page.evaluate(CLICKS)
    panel.locator(target).first.hover()
    page.mouse.down()
    page.evaluate("""{
        kernel.emit({ kind: "tabs", checkpoints: "8", history: "4" });
        kernel.all[2].row = { ...kernel.all[2].row, status: "running" };
        kernel.step();
    }""")
    page.wait_for_timeout(200)
    page.mouse.up()
    assert page.evaluate("clicked") == [True]
    expect(panel.locator("[data-pane=checkpoints] .nb-tab-count")).to_have_text("8")


def test_a_deed_acts_on_what_is_selected_at_its_click(page: Page, panel: Locator) -> None:
    """The line of actions is drawn a moment later."""
    panel.get_by_label("Find trials").fill("t57")
    panel.locator(".nb-rows .nb-check").first.click()
    panel.get_by_label("Find trials").fill("t5")
    expect(panel.locator(".nb-actions")).to_contain_text("1 selected")
    expect(panel.locator(".nb-rows [aria-selected=false] .nb-check").first).to_be_visible()
    page.evaluate("""{
        document.querySelector(".nb-rows [aria-selected=false] .nb-check").click();
        document.querySelector("[data-action=pause]").click();
    }""")
    expect(panel.locator(".nb-message")).to_contain_text("Done: pause")
    ((first, second),) = page.evaluate(f"{SENT}.map((message) => message.ids)")
    assert "t57" in {first, second}
    expect(panel.locator(".nb-actions")).to_contain_text("2 selected")


def test_a_press_that_never_ends_holds_the_panel_for_seconds(page: Page) -> None:
    page.clock.install()
    panel = opened(page)
    count = panel.locator("[data-pane=history] .nb-tab-count")
    panel.locator(".nb-rows").first.dispatch_event("pointerdown")
    page.evaluate("kernel.emit({ kind: 'tabs', history: '4' })")
    page.clock.run_for(500)
    expect(count).to_have_text("")
    page.clock.run_for(5000)
    page.evaluate("kernel.emit({ kind: 'tabs', history: '5' })")
    expect(count).to_have_text("5")


def test_the_detail_of_a_running_trial_goes_on_and_stays_put(page: Page, detail: Locator) -> None:
    expect(detail.locator(".nb-medium")).to_contain_text("Step 80.")
    detail.get_by_label("Step").focus()
    page.keyboard.press("Home")
    expect(detail.locator(".nb-medium")).to_contain_text("Step 20.")
    detail.get_by_text("Log").click()
    page.evaluate("""{
        const one = kernel.all[2];
        one.row = { ...one.row, status: "running", step: 26 };
        kernel.step();
    }""")
    expect(detail.locator(".nb-page").first).to_contain_text("Now at 27.")
    expect(detail.locator("details > pre").first).to_be_visible()
    expect(detail.get_by_text("Log")).to_be_focused()
    expect(detail.locator(".nb-medium")).to_contain_text("Step 20.")
    asked = "kernel.sent.filter((sent) => sent.of === 'trial' && sent.ids[0] === 't2').length"
    before = page.evaluate(asked)
    for _ in range(6):
        page.evaluate("kernel.step()")
        page.wait_for_timeout(100)
    expect(detail.locator(".nb-page").first).to_contain_text("Now at 33.")
    assert page.evaluate(asked) - before <= 2


def test_the_detail_restores_older_checkpoints_and_copies_errors(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    panel = opened(page, width=900)
    panel.get_by_label("Find trials").fill("t19")
    panel.locator("[data-id=t19] .nb-name").click()
    page.keyboard.press("Enter")
    panel.get_by_role("button", name="Copy error").click()
    expect(panel.locator(".nb-message")).to_contain_text("Copied the error.")
    assert page.evaluate("navigator.clipboard.readText()") == "Traceback\nCUDA out of memory"
    panel.get_by_role("button", name="Restore @40…").click()
    panel.get_by_role("button", name="restore 1").click()
    expect(panel.locator(".nb-message")).to_contain_text("Done: restore t19.")
    sent = page.evaluate(f"{SENT}.at(-1).options")
    assert (sent["step"], sent["experiment"]) == (40, "tune")
    panel.get_by_role("button", name="Retry", exact=True).click()
    panel.get_by_role("button", name="retry 1").click()
    expect(panel.locator(".nb-message")).to_contain_text("Done: retry t19.")


def test_enter_opens_a_trial_with_a_menu_of_its_checkpoints(page: Page, detail: Locator) -> None:
    expect(detail.locator(".nb-page h3").first).to_have_text("trial t2")
    page.keyboard.press("Escape")
    expect(detail.locator(".nb-page")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(detail.get_by_role("group", name="Checkpoints of t2").get_by_role("button")).to_have_count(5)
    detail.get_by_role("button", name="Older checkpoints").click()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(detail.locator(".nb-confirm-text")).to_contain_text("restore t2?")
    detail.get_by_role("button", name="restore 1").click()
    expect(detail.locator(".nb-message")).to_contain_text("Done: restore t2.")
    assert page.evaluate(f"{SENT}.at(-1).options.step") == 10


def test_a_detail_stays_with_its_experiment(page: Page, detail: Locator) -> None:
    expect(detail.get_by_role("button", name="Restore @100…")).to_be_visible()
    page.evaluate("""kernel.emit({ kind: "trials", experiment: "first try", metric: "loss", mode: "min",
        total: 1, experiments: [{ name: "tune", total: 60 }, { name: "first try", total: 1 }],
        metrics: ["loss"], settings: ["lr"], same: {}, summary: {}, from: 0, reset: true,
        rows: [kernel.all[2].row] })""")
    expect(detail.locator(".nb-heading")).to_contain_text("first try")
    detail.get_by_role("button", name="Restore @100…").click()
    detail.get_by_role("button", name="restore 1").click()
    expect(detail.locator(".nb-message")).to_contain_text("Done: restore t2.")
    assert page.evaluate(f"{SENT}.at(-1).options.experiment") == "tune"


def test_columns_are_chosen_in_a_menu_that_stays_open(page: Page) -> None:
    panel = opened(page, width=1800)
    heads = panel.get_by_role("columnheader")
    expect(heads.filter(has_text="accuracy")).to_have_count(1)
    panel.get_by_role("button", name="Columns").click()
    for name in ("accuracy", "Step"):
        panel.get_by_role("menuitemcheckbox", name=name, exact=True).click()
    expect(heads.filter(has_text="accuracy")).to_have_count(0)
    expect(heads.filter(has_text="Step")).to_have_count(1)
    panel.get_by_role("menuitemcheckbox", name="accuracy").click()
    expect(heads.filter(has_text="accuracy")).to_have_count(1)


def test_only_a_choice_keeps_an_experiment_in_sight(page: Page, panel: Locator) -> None:
    """Otherwise the kernel shows the one that matters most, such as one that begins."""
    asked = "kernel.sent.filter((sent) => sent.kind === 'follow' && sent.pane === 'trials')"
    before = page.evaluate(f"{asked}.length")
    for name in ("Checkpoints", "Trials"):
        panel.get_by_role("tab", name=name).click()
    page.wait_for_function(f"{asked}.length > {before}")
    assert page.evaluate(f"{asked}.at(-1).experiment") is None
    panel.get_by_label("Experiment").select_option("first try")
    page.wait_for_function(f"{asked}.at(-1).experiment === 'first try'")


def test_text_of_the_kernel_is_never_markup(page: Page, panel: Locator) -> None:
    evil = '<img src=x onerror="globalThis.hurt = 1">'
    page.evaluate(
        """(evil) => {
          const [first] = kernel.all;
          const settings = { ...first.row.settings, [evil]: evil };
          const row = { ...first.row, id: evil, settings, error: evil, note: evil, why: evil };
          const experiments = [{ name: evil, total: 1 }];
          const summary = { error_groups: [{ text: evil, count: 1 }], failed: 1 };
          const head = { experiments, summary, experiment: evil, metric: "loss", mode: "min", total: 1 };
          const names = { metrics: ["loss", evil], settings: [evil], same: { [evil]: evil } };
          kernel.emit({ kind: "trials", ...head, ...names, from: 0, rows: [row], reset: true });
          kernel.emit({ kind: "said", text: evil, tone: "error" });
        }""",
        evil,
    )
    expect(names(panel)).to_have_text([evil])
    for tab in ("Settings", "Parallel lines", "Compare"):
        panel.get_by_role("tab", name=tab, exact=True).click()
    expect(panel.locator("img")).to_have_count(0)
    assert page.evaluate("globalThis.hurt === undefined")


def test_ten_thousand_trials_are_a_few_rows_as_they_are_seen(page: Page) -> None:
    panel = opened(page, count=10000)
    expect(panel.get_by_role("grid")).to_have_attribute("aria-rowcount", "10001")
    order = "(rows) => rows.map((row) => Number(row.getAttribute('aria-rowindex')))"
    rows = panel.locator(".nb-rows .nb-row")
    panel.locator(".nb-rows .nb-cell").first.click()
    for key in ("PageDown", "Control+Home", "Control+End", "PageUp", "PageUp", "Control+End"):
        page.keyboard.press(key)
        expect(panel.locator(".nb-cell:focus")).to_have_count(1)
        seen = rows.evaluate_all(order)
        assert seen == sorted(seen)
        assert len(seen) < 60
    expect(panel.locator(".nb-here")).to_have_attribute("aria-rowindex", "10001")


def test_the_small_table_shows_progress_and_pauses_all(page: Page) -> None:
    panel = opened(page, form="live", width=830)
    expect(panel.locator(".nb-heading")).to_contain_text("3 running, 52 done, 5 failed")
    assert panel.bounding_box()["height"] <= 400
    panel.get_by_role("button", name="Pause all").click()
    expect(panel.locator(".nb-message")).to_contain_text("Done: pause all.")
    page.evaluate("kernel.step()")
    expect(names(panel).first).to_have_text("t52")


def test_a_panel_that_ends_leaves_nothing(page: Page, panel: Locator) -> None:
    expect(names(panel).first).to_have_text("t52")
    page.evaluate("stop.abort()")
    expect(panel).to_have_count(0)
    expect(page.locator("#place > *")).to_have_count(0)


PICTURES = ("Curves", "Settings", "Parallel lines", "Compare")
OF_TWO_OBJECTIVES = ("Best so far", "Pareto front", "Two settings", "Timeline")


@pytest.mark.parametrize("look", ["light", "dark", "contrast"])
@pytest.mark.parametrize(
    ("tabs", "objectives"), [(PICTURES, ""), (OF_TWO_OBJECTIVES, "loss min,accuracy max")]
)
def test_axe_finds_nothing_in_any_picture(
    page: Page, tabs: tuple[str, ...], objectives: str, look: str, subtests: pytest.Subtests
) -> None:
    """The first picture is looked at with all around it, which is the same around the others."""
    page.emulate_media(forced_colors="active" if look == "contrast" else "none")
    panel = opened(page, objectives=objectives, **({"dark": 1} if look == "dark" else {}))
    panel.get_by_label("Find trials").fill("lr>0")
    panel.locator(".nb-check").nth(1).click()
    for name in tabs:
        with subtests.test(name):
            tab = panel.get_by_role("tab", name=name, exact=True)
            tab.click()
            expect(tab).to_have_attribute("aria-selected", "true")
            if objectives:
                expect(panel.locator(".nb-dots .nb-dot").first).to_be_visible()
            assert axe(page, ".nbckpt" if name == tabs[0] else ".nb-detail", look) == []


def test_the_theme_changes_the_lines(page: Page, panel: Locator) -> None:
    expect(panel.locator("canvas")).to_have_count(1)
    drawn = "document.querySelector('.nbckpt canvas').toDataURL()"
    before = page.evaluate(drawn)
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    page.wait_for_function(f"(before) => {drawn} !== before", arg=before)
    expect(panel).to_have_css("background-color", re.compile(r"rgb\(17, 17, 17\)"))
