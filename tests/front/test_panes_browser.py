"""The panes of checkpoints, history and sync in Chromium, with a kernel that is none."""

from __future__ import annotations

import re

import pytest
from front.conftest import axe, beyond, opened
from playwright.sync_api import Locator, Page, expect

ACTS = "kernel.sent.filter((sent) => sent.kind === 'act').map(({verb, options}) => [verb, !!options.dry])"
HOSTILE = "<img src=x onerror=alert(1)>"

pytestmark = pytest.mark.browser


def row(panel: Locator, text: str) -> Locator:
    return panel.locator(".nb-rows .nb-row", has_text=text).first


@pytest.mark.parametrize("pane", ["checkpoints", "history", "sync"])
def test_nothing_leaves_the_panel_sideways(page: Page, pane: str, subtests: pytest.Subtests) -> None:
    for width in (480, 720, 1100, 1800, 2560):
        with subtests.test(width=width):
            panel = opened(page, pane, width=width)
            expect(panel.get_by_role("tab", selected=True)).to_contain_text(pane.capitalize())
            expect(panel.locator(".nb-button").first).to_be_visible()
            assert beyond(panel) == []
            assert panel.bounding_box()["height"] <= 640


@pytest.mark.parametrize("pane", ["checkpoints", "history", "sync"])
def test_axe_finds_nothing_in_the_pane(page: Page, pane: str, subtests: pytest.Subtests) -> None:
    for look in ("light", "dark"):
        with subtests.test(look):
            panel = opened(page, pane, **{look: 1})
            if pane != "sync":
                expect(panel.locator(".nb-values").first).to_be_visible()
            assert axe(page, look=look) == []


def test_a_click_shows_what_is_in_a_checkpoint(checkpoints: Locator) -> None:
    row(checkpoints, "cleaned@1").click()
    detail = checkpoints.locator(".nb-detail")
    expect(detail).to_contain_text("with positions")
    expect(detail.get_by_role("row", name="walk")).to_contain_text("≠ 5,200 \N{MULTIPLICATION SIGN} 2")
    expect(detail.get_by_role("img", name="Picture of figure")).to_be_visible()
    expect(checkpoints.locator(".nb-actions")).to_contain_text("Restore all 8 variables…")


def test_a_restore_is_two_steps_in_place(page: Page, checkpoints: Locator) -> None:
    row(checkpoints, "cleaned@1").click()
    for name in ("walk", "model"):
        checkpoints.get_by_role("checkbox", name=name, exact=True).check()
    checkpoints.get_by_role("button", name="Restore 2 variables…").click()
    expect(checkpoints.locator(".nb-actions")).to_contain_text("will be replaced. Nothing else changes.")
    assert page.evaluate(ACTS) == [["restore", True]]
    checkpoints.get_by_role("button", name="Restore 2 variables", exact=True).click()
    expect(checkpoints.locator(".nb-message")).to_contain_text("Restored walk and model from cleaned@1.")
    assert page.evaluate(ACTS) == [["restore", True], ["restore", False]]
    expect(checkpoints.locator(".nb-message").get_by_role("button", name="Undo")).to_be_visible()


def test_variables_that_share_data_can_come_along(checkpoints: Locator) -> None:
    row(checkpoints, "cleaned@1").click()
    checkpoints.get_by_role("checkbox", name="walk", exact=True).check()
    checkpoints.get_by_role("button", name="Restore 1 variable…").click()
    checkpoints.get_by_role("button", name="With model").click()
    expect(checkpoints.get_by_role("button", name="Restore 2 variables", exact=True)).to_be_visible()


def test_two_selected_checkpoints_are_compared(checkpoints: Locator) -> None:
    for name in ("final@1", "cleaned@1"):
        row(checkpoints, name).locator(".nb-check").click()
    checkpoints.get_by_role("button", name="Compare").click()
    expect(checkpoints.locator(".nb-detail")).to_contain_text("cleaned@1 → final@1")
    expect(checkpoints.locator(".nb-detail")).to_contain_text("shape (5000, 2) -> (5200, 2)")


def test_what_a_checkpoint_is_compared_with_is_chosen(page: Page, checkpoints: Locator) -> None:
    row(checkpoints, "cleaned@1").click()
    checkpoints.get_by_role("button", name="Show differences").click()
    detail = checkpoints.locator(".nb-detail")
    expect(detail).to_contain_text("cleaned@1 → now")
    choice = checkpoints.get_by_label("Compare cleaned@1 against")
    choice.select_option("final@1")
    expect(detail).to_contain_text("cleaned@1 → final@1")
    expect(choice).to_be_focused()
    choice.select_option("raw@1")
    expect(detail).to_contain_text("raw@1 → cleaned@1")
    detail.get_by_text("The cells that saved them differ").click()
    for silent, state in (("true", "Waiting for the kernel"), ("false", "Live")):
        page.evaluate(f"kernel.silent = {silent}")
        for display in ("none", ""):  # when it comes into sight it asks the kernel
            checkpoints.evaluate(f"(element) => {{ element.style.display = '{display}'; }}")
            expect(checkpoints).to_be_visible(visible=not display)
            page.wait_for_timeout(100)
        expect(checkpoints.locator(".nb-state")).to_contain_text(state)
        expect(checkpoints.get_by_text("+fit(b)")).to_be_visible()
    choice.select_option("what is live now")
    expect(detail).to_contain_text("cleaned@1 → now")
    checkpoints.get_by_role("button", name="Back").click()
    expect(detail).to_contain_text("with positions")


def test_versions_open_and_fold_by_key(page: Page, checkpoints: Locator) -> None:
    row(checkpoints, "25 versions").click()
    page.keyboard.press("ArrowRight")
    expect(row(checkpoints, "step@25")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(row(checkpoints, "step@25")).to_have_count(0)


def test_find_and_the_chips_narrow_the_list(checkpoints: Locator) -> None:
    checkpoints.get_by_role("searchbox").fill("walz")
    expect(checkpoints.locator(".nb-empty")).to_contain_text("No checkpoint matches “walz”.")
    checkpoints.get_by_role("button", name="Clear").click()
    expect(row(checkpoints, "final@1")).to_be_visible()
    checkpoints.get_by_role("button", name="From trials 6").click()
    expect(row(checkpoints, "tune/t52")).to_contain_text("6 checkpoints")


def test_a_deed_waits_for_the_running_cell_and_can_be_dropped(page: Page, checkpoints: Locator) -> None:
    expect(checkpoints.locator(".nb-values").first).to_be_visible()
    page.evaluate("kernel.busy = true; kernel.silent = true")
    checkpoints.get_by_role("button", name="Show differences").focus()
    checkpoints.get_by_role("button", name="Restore all 8 variables…").click()
    checkpoints.locator(".nb-state").get_by_role("button", name="Cancel").click()
    page.evaluate("kernel.busy = false; kernel.silent = false")
    assert page.evaluate(ACTS) == []


def test_a_checkpoint_that_is_gone_leaves_the_list(page: Page, checkpoints: Locator) -> None:
    row(checkpoints, "final@1").click()
    page.evaluate("kernel.panes.rows.shift(); kernel.show('checkpoints')")
    expect(row(checkpoints, "final@1")).to_have_count(0)
    expect(checkpoints.locator(".nb-detail")).to_contain_text("cleaned@1")


def test_damage_and_strangers_are_said_in_words(checkpoints: Locator) -> None:
    row(checkpoints, "old@1").click()
    expect(checkpoints.locator(".nb-detail")).to_contain_text("This checkpoint is damaged")
    row(checkpoints, "a@3").click()
    expect(checkpoints.locator(".nb-detail")).to_contain_text("Saved by someone else.")
    expect(checkpoints.get_by_role("button", name="Trust it…")).to_be_visible()
    expect(checkpoints.get_by_role("button", name="Restore all")).to_have_attribute("aria-disabled", "true")


def test_hostile_texts_are_only_texts(checkpoints: Locator) -> None:
    row(checkpoints, "raw@1").click()
    expect(checkpoints.locator(".nb-detail .nb-heading")).to_contain_text(HOSTILE)
    expect(checkpoints.locator("img[src=x]")).to_have_count(0)


def test_an_empty_list_offers_to_save(page: Page) -> None:
    panel = opened(page, "checkpoints", empty=1)
    expect(panel.locator(".nb-empty")).to_contain_text(re.compile("Nothing saved yet.*variables now"))
    assert panel.bounding_box()["height"] < 300
    panel.get_by_label("Name of the checkpoint").fill("mine")
    panel.get_by_role("button", name="Save all variables").click()
    expect(row(panel, "mine@1")).to_be_visible()


def test_a_narrow_panel_shows_the_detail_over_the_list(page: Page) -> None:
    panel = opened(page, "checkpoints", width=480)
    row(panel, "cleaned@1").click()
    expect(panel.locator(".nb-list")).to_be_hidden()
    panel.get_by_role("button", name="Checkpoints", exact=True).click()
    expect(panel.locator(".nb-list")).to_be_visible()


def test_history_goes_to_a_state_in_two_steps(page: Page, history: Locator) -> None:
    expect(history.locator(".nb-heading").first).to_contain_text("You are at [14]")
    row(history, "clean = raw[raw % 2 == 0]").click()
    expect(history.locator(".nb-detail")).to_contain_text("If you go here now: ~ clean")
    history.get_by_role("button", name="Go to this state…").click()
    history.get_by_role("button", name="Go to [9]").click()
    expect(history.locator(".nb-heading").first).to_contain_text("You are at [9]")
    assert page.evaluate(ACTS) == [["goto", True], ["goto", False]]


def test_another_way_opens_at_its_fork_and_leads_back(page: Page, history: Locator) -> None:
    expect(row(history, "plot = draw(model)")).to_have_count(0)
    row(history, "other way from [9]").click()
    page.keyboard.press("Enter")
    expect(row(history, "plot = draw(model)")).to_have_attribute("aria-level", "2")
    row(history, "plot = draw(model)").click()
    detail = history.locator(".nb-detail")
    expect(detail).to_contain_text("This cell stopped: KeyError. 1 variable had changed before.")
    detail.get_by_role("button", name="Go back to [11]…").click()
    expect(history.locator(".nb-actions")).to_contain_text("will be replaced")
    assert page.evaluate(ACTS) == [["goto", True]]


def test_history_that_is_off_is_turned_on(page: Page) -> None:
    panel = opened(page, "history", off=1)
    expect(panel.locator(".nb-empty")).to_contain_text(re.compile("History is off.*variables now"))
    assert panel.bounding_box()["height"] < 300
    panel.get_by_role("button", name="Turn on").click()
    expect(panel.locator(".nb-empty")).to_contain_text("History is on. Run a cell")


def test_changes_of_one_variable_are_left(history: Locator) -> None:
    history.get_by_label("Changes of a variable").select_option("clean")
    expect(history.locator(".nb-rows .nb-row")).to_have_count(2)


def test_a_failed_sync_stands_on_the_tab_of_every_pane(page: Page) -> None:
    panel = opened(page, "checkpoints", sync="failed")
    expect(panel.get_by_role("tab", name="Sync")).to_contain_text("✕")
    panel.get_by_role("tab", name="Sync").click()
    expect(panel.locator(".nb-sync")).to_contain_text("No permission to write to s3://bucket/team.")
    expect(panel.get_by_role("button", name="Try again")).to_be_visible()


def test_sync_is_turned_on_with_a_place(page: Page) -> None:
    panel = opened(page, "sync", sync="off")
    expect(panel.locator(".nb-sync")).to_contain_text("on this machine only")
    panel.get_by_label("Place").fill("/backup")
    panel.get_by_role("button", name="Turn on").click()
    expect(panel.locator(".nb-sync")).to_contain_text("Everything is also in /backup.")
    panel.get_by_role("button", name="Turn off…").click()
    expect(panel.locator(".nb-actions")).to_contain_text("sync_off?")
    panel.get_by_role("button", name="Cancel").click()
    assert page.evaluate(ACTS) == [["sync_set", False], ["sync_off", True]]


def test_a_sync_that_sends_is_cancelled_without_a_question(page: Page) -> None:
    panel = opened(page, "sync", sync="sending")
    panel.get_by_role("button", name="Cancel").click()
    page.wait_for_function("kernel.sent.some((sent) => sent.verb === 'sync_cancel')")


def test_sync_by_hand_only_is_two_choices(page: Page, sync: Locator) -> None:
    sync.get_by_label("How often").select_option("only when I press Sync now")
    expect(sync.locator(".nb-sync")).to_contain_text("· after each save")
    sync.get_by_label("also after each save").uncheck()
    expect(sync.locator(".nb-sync .nb-dim")).to_contain_text("· only when I press Sync now")
    sent = page.evaluate("kernel.sent.filter((one) => one.verb === 'sync_set').map((one) => one.options)")
    assert [(each["period"], each["after_saves"]) for each in sent] == [("never", True), ("never", False)]


LATE_ANSWERS = """() => {
    const { act } = kernel.answers, late = [];
    kernel.answers.act = (message) => (late.push(act(message)), { kind: "later" });
    window.answer = () => kernel.emit(late.shift());
}"""
REFUSING = """() => {
    kernel.answers.act = ({ n }) => ({ kind: "answer", n, ok: false, text: "The disk is full." });
}"""


def test_a_choice_of_sync_stands_when_an_older_answer_comes(page: Page, sync: Locator) -> None:
    page.evaluate(LATE_ANSWERS)
    period, saves = sync.get_by_label("How often"), sync.get_by_label("also after each save")
    period.select_option("only when I press Sync now")
    expect(sync.locator(".nb-sync")).to_contain_text("· after each save")
    saves.uncheck()
    expect(sync.locator(".nb-sync .nb-dim")).to_contain_text("· only when I press Sync now")
    page.evaluate("answer()")
    expect(saves).not_to_be_checked()
    page.evaluate("kernel.emit({ kind: 'sync', ...kernel.panes.sync, period: 0, after_saves: true })")
    expect(sync.locator(".nb-sync .nb-dim")).to_contain_text("· after each save")
    expect(saves).not_to_be_checked()
    page.evaluate("answer()")
    expect(sync.locator(".nb-sync .nb-dim")).to_contain_text("· only when I press Sync now")
    expect(period).to_have_value("never")
    expect(saves).not_to_be_checked()


def test_choices_of_sync_go_back_when_the_kernel_refuses(page: Page, sync: Locator) -> None:
    page.evaluate(REFUSING)
    sync.get_by_label("How often").select_option("every minute")
    expect(sync.get_by_text("The disk is full.")).to_be_visible()
    expect(sync.get_by_label("How often")).to_have_value("five")


def test_a_failed_cell_that_changed_nothing_stands_on_top(page: Page, history: Locator) -> None:
    expect(row(history, "model = fit(clean)")).to_be_visible()
    page.evaluate(
        """kernel.panes.failed = [{ cell: 15, source: "raw['w']", error: "KeyError", saved_at: new Date() }];
        kernel.show("history")"""
    )
    first = history.locator(".nb-rows .nb-row").first
    expect(first).to_contain_text("[15]raw['w']stopped: KeyError")
    expect(first.get_by_role("img", name="failed", exact=True)).to_be_visible()
    expect(history.locator(".nb-heading").first).to_contain_text("You are at [14]")


@pytest.mark.parametrize("width", [720, 1200, 1800])
def test_what_a_restore_would_change_is_in_sight(page: Page, width: int) -> None:
    panel = opened(page, "checkpoints", width=width)
    row(panel, "cleaned@1").click()
    now = panel.locator(".nb-detail .nb-differs").first
    expect(now).to_contain_text("5,200")
    cell, detail = now.bounding_box(), panel.locator(".nb-detail").bounding_box()
    assert cell is not None
    assert detail is not None
    assert cell["x"] + cell["width"] <= detail["x"] + detail["width"] + 1


def test_the_list_has_its_titles_in_a_new_kernel_too(page: Page) -> None:
    panel = opened(page, "history", new=1)
    expect(panel.locator(".nb-heading").first).to_contain_text("The kernel is new: you are at no state.")
    expect(panel.get_by_role("columnheader")).to_have_text(["State", "Changes", "Took", "When"])


def test_the_next_push_is_counted_down(page: Page) -> None:
    page.clock.install()
    panel = opened(page, "sync")
    expect(panel.locator(".nb-sync")).to_contain_text("next in 3 min")
    page.clock.fast_forward(130_000)
    expect(panel.locator(".nb-sync")).to_contain_text(re.compile(r"next in \d\d s"))


def test_sync_without_its_kernel_says_when_all_was_there(page: Page, sync: Locator) -> None:
    expect(sync.locator(".nb-sync")).to_contain_text("Everything is also in")
    page.evaluate("model.end()")
    seen = re.compile(r"Last seen \d\d:\d\d: all in s3://bucket/team")
    expect(sync.locator(".nb-sync")).to_contain_text(seen)
    expect(sync.get_by_role("tab", name="Sync")).to_have_text("Sync")
    expect(sync.get_by_label("How often")).to_be_disabled()


def test_a_state_is_compared_with_now(page: Page, history: Locator) -> None:
    expect(history.get_by_role("button", name="Compare with now")).to_have_attribute("aria-disabled", "true")
    row(history, "clean = raw[raw % 2 == 0]").click()
    history.get_by_role("button", name="Compare with now").click()
    detail = history.locator(".nb-detail")
    expect(detail).to_contain_text("[9] → now")
    expect(detail).to_contain_text("shape (5000, 2) -> (5200, 2)")
    page.keyboard.press("Escape")
    expect(detail).to_contain_text("If you go here now:")


PRIMARY = """(root) => [...root.querySelectorAll("button")]
    .filter((one) => one.checkVisibility() && one.matches(".nb-primary") && one.ariaDisabled !== "true")
    .map((one) => [one.textContent, getComputedStyle(one).backgroundColor])"""
ACCENT = "rgb(11, 98, 184)"


def primary(panel: Locator) -> list[str]:
    """Return the buttons that look like the one to press."""
    return [text for text, colour in panel.evaluate(PRIMARY) if colour == ACCENT]


Buttons = tuple[dict[str, str], str, str, str | None]
BUTTONS: dict[str, list[Buttons]] = {
    "trials": [
        ({}, "Pause all", "Stop 3…", None),
        ({}, "Pause all", "Retry failed…", "retry all"),
        ({"form": "live"}, "Pause all", "Stop…", None),
    ],
    "checkpoints": [
        ({}, "Restore all 8 variables…", "Restore all 8 variables…", "Restore 8 variables"),
        ({}, "Restore all 8 variables…", "Delete…", None),
        ({"empty": "1"}, "Save all variables", "", None),
    ],
    "history": [
        ({"new": "1"}, "Go to this state…", "Go to this state…", "Go to [9]"),
        ({"off": "1"}, "Turn on", "", None),
    ],
    "sync": [
        ({}, "Sync now", "Turn off…", None),
        ({"sync": "there"}, "Bring 2 here", "Bring 2 here", "pull"),
        ({"sync": "failed"}, "Try again", "Bring here what is there…", "pull"),
        ({"sync": "off"}, "Turn on", "", None),
    ],
}
"""Options of the page, the button to press, another button, and the answer that is to be pressed after it."""


@pytest.mark.parametrize("pane", BUTTONS)
def test_one_button_is_primary(page: Page, pane: str, subtests: pytest.Subtests) -> None:
    page.emulate_media(reduced_motion="reduce")
    for options, usual, opens, answer in BUTTONS[pane]:
        with subtests.test(opens, **options):
            panel = opened(page, pane, **options)
            expect(panel.get_by_role("button", name=usual, exact=True)).to_be_visible()
            assert primary(panel) == [usual]
            if opens:
                button = panel.get_by_role("button", name=opens, exact=True)
                expect(button).not_to_have_class(re.compile("nb-danger"))
                button.click()
                expect(panel.locator(".nb-confirm")).to_be_visible()
                assert primary(panel) == ([answer] if answer else [])
                expect(panel.locator(".nb-danger")).to_have_count(0 if answer else 1)


def test_no_to_deleting_leaves_the_selection(checkpoints: Locator) -> None:
    for each in (0, 1):
        checkpoints.locator(".nb-check").nth(each).click()
    checkpoints.get_by_role("button", name="Delete 2…").click()
    checkpoints.locator(".nb-confirm").get_by_role("button", name="Cancel").click()
    expect(checkpoints.locator(".nb-rows [aria-selected=true]")).to_have_count(2)
    checkpoints.get_by_role("button", name="Delete 2…").click()
    checkpoints.get_by_role("button", name="Delete 1 checkpoint").click()
    expect(checkpoints.locator(".nb-rows [aria-selected=true]")).to_have_count(0)


SAME = "(one) => one.marked === true"


def test_a_push_leaves_what_is_read_of_a_state(page: Page, history: Locator) -> None:
    row(history, "clean = raw[raw % 2").click()
    detail = history.locator(".nb-detail")
    fold = detail.locator("details", has_text="Code of this cell")
    fold.locator("summary").click()
    fold.evaluate("(one) => (one.marked = true)")
    page.evaluate("{ kernel.busy = true; kernel.show('history'); kernel.busy = false; }")
    expect(history.locator(".nb-history")).to_contain_text("score = test(model)")
    assert fold.evaluate(SAME)
    page.evaluate("""{
        const { points } = kernel.panes;
        const [before, ref] = [points[0], "f".repeat(64)];
        points.unshift({ ...before, ref, parent: before.ref, cell: 15, source: "new = 1" });
        kernel.panes.here = ref;
        kernel.show("history");
    }""")
    expect(history.locator(".nb-heading").first).to_contain_text("[15]")
    expect(detail).to_contain_text("clean = raw[raw % 2 == 0]")
    expect(fold.locator("pre")).to_be_visible()
    expect(fold.locator("summary")).to_be_focused()


def test_a_push_leaves_a_comparison_and_makes_it_anew(page: Page, history: Locator) -> None:
    row(history, "clean = raw[raw % 2").click()
    history.get_by_role("button", name="Compare with now").click()
    detail = history.locator(".nb-detail")
    detail.get_by_text("The cells that saved them differ").click()
    asked = "kernel.sent.filter((sent) => sent.of === 'compare').length"
    page.evaluate("{ kernel.panes.here = kernel.panes.points[1].ref; kernel.show('history'); }")
    page.wait_for_function(f"{asked} === 2")
    expect(detail).to_contain_text("[9] → now")
    expect(detail.get_by_text("+fit(b)")).to_be_visible()
    page.evaluate("{ kernel.busy = true; kernel.show('history'); }")
    expect(detail.get_by_text("+fit(b)")).to_be_visible()
    assert page.evaluate(asked) == 2


def test_a_change_of_the_state_line_leaves_what_is_read(page: Page) -> None:
    page.clock.install()
    checkpoints = opened(page, "checkpoints")
    row(checkpoints, "cleaned@1").click()
    fold = checkpoints.locator(".nb-detail details", has_text="Packages")
    fold.locator("summary").click()
    checkpoints.get_by_role("checkbox", name="walk", exact=True).check()
    expect(checkpoints.locator(".nb-values").first).to_contain_text("≠ changed")
    checkpoints.locator(".nb-values").first.evaluate("(one) => (one.marked = true)")
    page.evaluate("kernel.silent = true")
    checkpoints.get_by_role("button", name="Delete…").click()
    expect(checkpoints.locator(".nb-state")).to_contain_text("Waiting for the kernel…")
    page.evaluate("kernel.silent = false")
    checkpoints.get_by_role("button", name="Cancel").click()
    fold.locator("summary").focus()
    page.clock.run_for(10_000)  # the next question whether the kernel is there
    expect(checkpoints.locator(".nb-state")).to_contain_text("Live")
    assert checkpoints.locator(".nb-values").first.evaluate(SAME)
    expect(fold.locator("pre")).to_be_visible()
    expect(fold.locator("summary")).to_be_focused()
    expect(checkpoints.get_by_role("checkbox", name="walk", exact=True)).to_be_checked()
