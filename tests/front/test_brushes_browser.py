"""Heads of columns, the value of a trial, and the menu of a row, in Chromium with a kernel that is none."""

from __future__ import annotations

import pytest
from front.conftest import names, opened
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.browser


def head(panel: Locator, name: str) -> Locator:
    return panel.get_by_role("columnheader", name=name).locator(".nb-head-brush")


def test_dragging_in_a_head_filters_and_a_click_clears(page: Page, panel: Locator) -> None:
    box = head(panel, "lr").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 8, steps=3)
    page.mouse.up()
    expect(panel.locator(".nb-actions")).to_contain_text(" of 60")
    expect(panel.get_by_role("columnheader", name="lr")).to_have_attribute("aria-sort", "none")
    kept = page.evaluate("kernel.saved.filter.trials.brushes['settings:lr']")
    assert 1e-3 < kept["low"] < kept["high"] < 1e-1
    head(panel, "lr").click()
    expect(panel.get_by_role("grid")).to_have_attribute("aria-rowcount", "61")


def test_a_click_on_a_bar_chooses_its_value(page: Page) -> None:
    panel = opened(page, width=1100)
    bars = head(panel, "optimizer")
    box = bars.bounding_box()
    bars.click(position={"x": box["width"] * 0.6, "y": 9})
    optimizers = panel.locator(".nb-rows .nb-row > :last-child")
    expect(optimizers.filter(has_not_text="rmsprop")).to_have_count(0)
    bars.click(position={"x": box["width"] * 0.1, "y": 9})
    expect(optimizers.filter(has_text="adam").first).to_be_visible()
    assert page.evaluate("kernel.saved.filter.trials.brushes['settings:optimizer'].values") == [
        "rmsprop",
        "adam",
    ]


def test_the_best_value_takes_the_place_of_the_last(page: Page, panel: Locator) -> None:
    best = page.evaluate("kernel.all.find((trial) => trial.row.id === 't2').row.best.loss")
    panel.get_by_label("Value", exact=True).select_option("best")
    expect(panel.get_by_role("columnheader", name="loss (best)")).to_be_visible()
    shown = panel.locator("[data-id=t2] [aria-colindex='3'] > span").first
    expect(shown).to_have_text(f"{best:.4f}")
    assert page.evaluate("kernel.saved.chosen.trials.by_best")


def test_a_right_click_opens_what_can_be_done_with_a_row(panel: Locator) -> None:
    panel.get_by_label("Find trials").fill("t57")
    panel.locator("[data-id=t57] .nb-name").click(button="right")
    panel.get_by_role("menuitem", name="Pause").click()
    expect(panel.locator(".nb-message")).to_contain_text("Done: pause t57.")


@pytest.mark.parametrize("pane", ["trials", "checkpoints", "history"])
def test_a_long_press_opens_the_menu_of_a_row(page: Page, pane: str) -> None:
    panel = opened(page, traits=f'{{"pane": "{pane}"}}')
    row = panel.locator(".nb-rows .nb-row").first
    box = row.bounding_box()
    at = {"x": box["x"] + 120, "y": box["y"] + box["height"] / 2}
    touch = page.context.new_cdp_session(page)
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
    expect(panel.get_by_role("menuitem").first).to_be_focused()
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(panel.get_by_role("menu")).to_be_visible()


def test_counts_stand_on_tabs_before_a_pane_was_opened(page: Page) -> None:
    panel = opened(page)
    expect(names(panel).first).to_have_text("t52")
    page.evaluate("kernel.emit({ kind: 'tabs', trials: '60', checkpoints: '24', history: '31' })")
    expect(panel.locator(".nb-tab")).to_have_text(["Trials60", "Checkpoints24", "History31", "Sync✓"])


@pytest.mark.parametrize("width", [480, 1100])
def test_hostile_values_leave_every_picture_in_place(page: Page, width: int) -> None:
    """What the kernel cuts to 200 characters, numbers that are none, and text that runs to the left."""
    panel = opened(page, width=width)
    page.evaluate(
        """([markup, long, leftwards]) => {
          const odd = ["nan", "inf", "-inf", 1e308, -1e308, 5e-324, 0, 0.1, 123456789012];
          const rows = odd.map((value, n) => ({
            id: n ? `t${n}` : leftwards, n, status: n === 1 ? "failed" : n === 2 ? "strange" : "done",
            settings: { lr: value, [long]: long, [markup]: markup, [leftwards]: leftwards },
            metrics: { loss: value, [long]: value }, best: { loss: value }, step: 1e15, of: 1e300,
            left_s: 1e300, seconds: n % 2 ? 1e300 : "nan", started: 1e18, error: long, note: leftwards,
          }));
          const summary = { left_s: 1e300, error_groups: [{ text: long, count: 1 }] };
          kernel.emit({
            kind: "trials", experiment: long, experiments: [{ name: long }, { name: leftwards }],
            metric: "loss", mode: "min", metrics: ["loss", long, markup], summary, total: 9, from: 0,
            settings: ["lr", long, markup, leftwards], same: { [long]: long }, rows, reset: true,
          });
        }""",
        ["<img src=x onerror=alert(1)>", "x" * 200, "\u202egnol \u05e9\u05dc\u05d5\u05dd"],
    )
    expect(panel.locator(".nb-answer")).to_contain_text("t4")
    if width < 720:
        panel.get_by_role("button", name="Picture").click()
    for tab in ("Settings", "Parallel lines", "Compare", "Curves"):
        panel.get_by_role("tab", name=tab, exact=True).click()
        expect(panel.get_by_role("tab", name=tab, exact=True)).to_have_attribute("aria-selected", "true")
    beyond = """(root) => [...root.querySelectorAll("button, input, select")]
        .filter((one) => !one.closest(".nb-grid") && one.getBoundingClientRect().width)
        .filter((one) => one.getBoundingClientRect().right > root.getBoundingClientRect().right)
        .map((one) => one.textContent)"""
    assert panel.evaluate(beyond) == []
    expect(panel.locator("img")).to_have_count(0)
