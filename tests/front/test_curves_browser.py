"""Curves in Chromium: the legend that hides lines, and groups by a setting."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from front.test_front_browser import address, chromium, opened, page
from playwright.sync_api import Page, expect

__all__ = ["address", "chromium", "page"]

pytestmark = pytest.mark.browser


def test_the_legend_hides_a_line_until_it_is_shown_again(page: Page, address: str) -> None:
    panel = opened(page, address)
    entry = panel.get_by_role("button", name="Line of t2", exact=True)
    expect(panel.locator(".nb-plot-foot")).to_contain_text("5 best of 60 in colour")
    entry.focus()
    page.keyboard.press("Enter")
    expect(entry).to_have_attribute("aria-pressed", "false")
    expect(entry).to_be_focused()
    expect(panel.locator(".nb-plot-foot")).to_contain_text("4 best of 59 in colour")
    page.evaluate("kernel.step()")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(entry).to_have_attribute("aria-pressed", "false")
    expect(entry).to_be_focused()
    panel.get_by_role("button", name="Show all", exact=True).click()
    expect(entry).to_have_attribute("aria-pressed", "true")
    expect(panel.locator(".nb-plot-foot")).to_contain_text("5 best of 60 in colour")
    expect(panel.get_by_role("button", name="Show all", exact=True)).to_have_count(0)


def test_lines_are_grouped_by_a_setting(page: Page, address: str) -> None:
    panel = opened(page, address)
    panel.get_by_label("Group by").select_option("optimizer")
    entries = panel.locator(".nb-legend-entry")
    expect(entries).to_have_text(["adam", "adamw", "rmsprop", "sgd"])
    expect(panel.locator(".nb-plot-foot")).to_contain_text("Strong lines are the means")
    panel.get_by_role("button", name="Show as table").click()
    expect(panel.locator(".nb-plot-table tbody th")).to_have_text(["adam", "adamw", "rmsprop", "sgd"])
    panel.get_by_role("button", name="Line of optimizer sgd").click()
    expect(panel.locator(".nb-plot-table tbody th")).to_have_text(["adam", "adamw", "rmsprop"])
    panel.get_by_label("Group by").select_option("lr")
    expect(entries).to_have_count(5)
    expect(panel.get_by_role("button", name="Show all", exact=True)).to_have_count(0)
    expect(entries.first).to_contain_text(" to ")
    assert page.evaluate("kernel.saved.chosen.trials.curves.group") == "lr"


def test_keys_go_to_the_mean_of_a_group(page: Page, address: str) -> None:
    panel = opened(page, address)
    panel.get_by_label("Group by").select_option("depth")
    panel.locator(".nb-plot").focus()
    page.keyboard.press("ArrowUp")
    expect(panel.locator(".nb-tip strong").first).to_have_text("4")


@pytest.mark.parametrize("look", ["light", "dark", "contrast"])
def test_axe_finds_nothing_in_the_legend(page: Page, address: str, look: str) -> None:
    if look == "contrast":
        page.emulate_media(forced_colors="active")
    panel = opened(page, address, **({"dark": 1} if look == "dark" else {}))
    panel.get_by_label("Group by").select_option("width")
    panel.locator(".nb-legend-entry").first.click()
    report = Axe().run(page, ".nbckpt")
    assert not report.violations_count, report.generate_report()


def test_all_metrics_have_a_small_chart_each(page: Page, address: str) -> None:
    panel = opened(page, address)
    panel.get_by_role("tab", name="Settings", exact=True).click()
    chip = panel.get_by_role("button", name="All metrics", exact=True)
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    charts = panel.locator(".nb-chart")
    expect(charts).to_have_count(2)
    expect(charts.first).to_have_attribute("aria-label", re.compile(r"^loss, .*t52 0\.16"))
    panel.get_by_role("button", name="Line of t52").click()
    expect(panel.locator(".nb-chart-line[data-id=t52]")).to_have_count(0)
    panel.locator(".nb-row[data-id=t2]").hover()
    expect(panel.locator(".nb-chart-lit")).to_have_count(2)
    panel.get_by_role("button", name="accuracy", exact=True).click()
    expect(panel.get_by_label("Metric")).to_have_value("accuracy")
    expect(chip).to_have_attribute("aria-pressed", "false")
    expect(panel.locator(".nb-plot")).to_be_visible()


def test_charts_come_when_the_kernel_answers_again(page: Page, address: str) -> None:
    panel = opened(page, address)
    expect(panel.locator(".nb-plot-foot")).to_contain_text("5 best of 60 in colour")
    gone = "{ kind: 'detail', n, ok: false, text: 'It is gone.' }"
    page.evaluate(f"() => {{ kernel.answers.detail = ({{ n }}) => ({gone}); }}")
    panel.get_by_role("button", name="All metrics", exact=True).click()
    expect(panel.locator(".nb-charts")).to_have_text("It is gone.")
    page.evaluate("() => { delete kernel.answers.detail; kernel.step(); }")
    expect(panel.locator(".nb-chart")).to_have_count(2)


def test_charts_that_do_not_fit_are_on_the_next_page(page: Page, address: str) -> None:
    panel = opened(page, address, metrics="loss,a,b,c,d,e,f,g")
    panel.get_by_role("button", name="All metrics", exact=True).click()
    expect(panel.locator(".nb-chart")).to_have_count(4)
    more = panel.get_by_role("button", name="More charts")
    more.click()
    expect(panel.locator(".nb-multiple-card")).to_contain_text(["d", "e", "f", "g"])
    expect(more).to_have_attribute("aria-disabled", "true")
    report = Axe().run(page, ".nbckpt")
    assert not report.violations_count, report.generate_report()
