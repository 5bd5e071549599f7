"""Tables of the panel in Chromium: those of pictures, heads of columns, and menus of rows."""

from __future__ import annotations

import pytest
from front.conftest import axe, names, opened
from playwright.sync_api import Locator, Page, expect

PICTURES = {"Best so far": "trial", "Settings": "lr (exp", "Two settings": "width", "Parallel lines": "depth"}

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_of_trials_has_its_numbers(page: Page, panel: Locator, picture: str) -> None:
    panel.get_by_role("tab", name=picture, exact=True).click()
    panel.get_by_role("button", name="Show as table").click()
    table = panel.get_by_role("group", name=f"{picture} as a table")
    expect(table.locator("thead")).to_contain_text(PICTURES[picture])
    expect(table.locator("tbody tr", has_text="t52").first).to_contain_text("0.1602")
    assert axe(page) == []
    back = panel.get_by_role("button", name="Show as picture")
    expect(back).to_be_focused()
    back.click()
    expect(table).to_have_count(0)


def test_charts_and_comparisons_have_their_numbers(panel: Locator) -> None:
    panel.get_by_role("button", name="All metrics", exact=True).click()
    panel.get_by_role("button", name="Show as table").click()
    expect(panel.locator(".nb-plot-table tbody tr", has_text="loss t52")).to_contain_text("0.1602")
    expect(panel.locator(".nb-plot-table tbody tr", has_text="accuracy t52")).to_have_count(1)
    panel.get_by_role("tab", name="Compare").click()
    for name in ("t52", "t2"):
        panel.locator(f".nb-row[data-id={name}] .nb-check").click()
    panel.get_by_role("button", name="Show as table").click()
    expect(panel.locator(".nb-plot-table tbody th")).to_have_text(["t52", "t2"])


def test_a_trial_shows_the_curves_of_its_metrics(panel: Locator) -> None:
    panel.get_by_role("button", name="Show t52").click()
    cards = panel.locator(".nb-trial-curves figcaption")
    expect(cards).to_have_text(["loss", "accuracy"])
    panel.locator(".nb-trial-curves").get_by_role("button", name="Show as table").click()
    expect(panel.locator(".nb-plot-table tbody th")).to_have_text(["loss", "accuracy"])
    expect(panel.locator(".nb-plot-table tbody tr").first).to_contain_text("0.1602")


def test_a_run_is_set_up_with_a_line_to_copy(page: Page) -> None:
    panel = opened(page, empty=1)
    expect(panel).to_contain_text("No experiments yet.")
    expect(panel.locator(".nb-empty")).to_contain_text("Define a function that takes its settings")
    line = "%ckpt run train --grid lr=0.1,0.01 width=1"
    data = f"{{ lines: [{line!r}] }}"
    page.evaluate(
        f"() => {{ kernel.answers.detail = ({{ n }}) => ({{ kind: 'detail', n, ok: true, data: {data} }}); }}"
    )
    panel.get_by_role("button", name="Look for functions again").click()
    expect(panel.locator(".nb-run-line pre")).to_have_text(line)
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    panel.get_by_role("button", name="Copy").click()
    expect(panel.locator(".nb-message")).to_contain_text("Copied. Paste it into a cell.")
    assert page.evaluate("[window.copied, kernel.sent.some(({ kind }) => kind === 'act')]") == [line, False]


def test_setting_up_a_run_leads_back_to_the_trials(page: Page, panel: Locator) -> None:
    panel.get_by_role("button", name="Menu").click()
    panel.get_by_role("menuitem", name="Set up a run…").click()
    expect(panel.locator(".nb-run-line pre")).to_have_count(1)
    assert axe(page) == []
    panel.get_by_role("button", name="Back").click()
    expect(panel.locator(".nb-row[data-id=t52]")).to_be_visible()


def test_curves_have_room_below_the_list(page: Page) -> None:
    """At 720 pixels, the narrowest width at which the list stands above the picture."""
    panel = opened(page, width=720)
    expect(panel.locator(".nb-legend-entry")).to_have_count(5)
    assert panel.bounding_box()["height"] <= 640
    assert panel.locator(".u-over").bounding_box()["height"] >= 125
    expect(panel.get_by_label("Smooth")).to_be_hidden()
    panel.get_by_role("button", name="Picture", exact=True).click()
    expect(panel.get_by_label("Smooth")).to_be_visible()


def test_the_best_dot_has_a_ring_that_is_seen(page: Page) -> None:
    panel = opened(page, dark=1)
    panel.get_by_role("tab", name="Best so far").click()
    ring = panel.locator(".nb-ring")
    expect(ring).to_have_count(1)
    expect(ring).to_have_css("stroke", "rgb(232, 232, 232)")
    radius = "(one) => Number(one.getAttribute('r'))"
    assert ring.evaluate(radius) > panel.locator(".nb-dot[data-id=t52]").evaluate(radius) + 2


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
