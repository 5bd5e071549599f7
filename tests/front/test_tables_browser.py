"""The numbers of pictures as tables, a trial's curves, and the room that curves have, in Chromium."""

from __future__ import annotations

import pytest
from front.conftest import axe, opened
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
