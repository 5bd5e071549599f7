"""Curves in Chromium: the legend that hides lines, and groups by a setting."""

from __future__ import annotations

import re

import pytest
from front.conftest import axe, opened
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.browser


def test_the_legend_hides_a_line_until_it_is_shown_again(page: Page, panel: Locator) -> None:
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


DRAWN = "document.querySelector('.nbckpt canvas').toDataURL()"


@pytest.mark.parametrize("choice", ["Smooth", "Log scale"])
def test_curves_are_smoothed_or_logarithmic_and_stay_so(page: Page, panel: Locator, choice: str) -> None:
    expect(panel.locator("canvas")).to_have_count(1)
    plain = page.evaluate(DRAWN)
    if choice == "Smooth":
        panel.get_by_label("Smooth").fill("0.9")
    else:
        panel.locator("[data-action=curves-more]").click()
        panel.get_by_role("menuitemcheckbox", name=choice).click()
    page.wait_for_function(f"(plain) => {DRAWN} !== plain", arg=plain)
    kept = page.evaluate("model.get('chosen').trials.curves")
    assert (kept["smooth"], kept["log"]) == ((0.9, False) if choice == "Smooth" else (0, True))


def test_curves_go_by_the_time_that_trials_took(panel: Locator) -> None:
    over = panel.locator(".u-over")
    over.hover()
    expect(panel.locator(".nb-tip")).to_contain_text("step")
    panel.locator("[data-action=curves-more]").click()
    panel.get_by_role("menuitemcheckbox", name="By time").click()
    over.hover()
    expect(panel.locator(".nb-tip")).to_contain_text(re.compile(r"\d (s|min)"))


def test_lines_are_grouped_by_a_setting(page: Page, panel: Locator) -> None:
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


def test_lines_are_grouped_by_two_settings(page: Page) -> None:
    panel = opened(page, width=1800)
    second = panel.get_by_label("and by")
    expect(second).to_have_count(0)
    panel.get_by_label("Group by").select_option("optimizer")
    second.select_option("depth")
    entries = panel.locator(".nb-legend-entry")
    expect(entries).to_have_count(8)
    expect(entries.first).to_have_text("adam, 2")
    expect(entries.last).to_have_text("others")
    expect(second.locator("option")).to_have_text(["none", "lr", "width", "depth"])
    below = """(curves) => curves.nextElementSibling.getBoundingClientRect().top
        - curves.querySelector(".nb-plot-foot").getBoundingClientRect().bottom"""
    assert panel.locator(".nb-curves").evaluate(below) >= 0
    panel.get_by_label("Group by").select_option("")
    expect(second).to_have_count(0)


def test_keys_go_to_the_mean_of_a_group(page: Page, panel: Locator) -> None:
    panel.get_by_label("Group by").select_option("depth")
    # Before the lines are there, keys do nothing.
    expect(panel.locator(".nb-plot-foot")).to_contain_text("Strong lines are the means")
    panel.locator(".nb-plot").focus()
    page.keyboard.press("ArrowUp")
    expect(panel.locator(".nb-tip strong").first).to_have_text("4")


@pytest.mark.parametrize("look", ["light", "dark", "contrast"])
def test_axe_finds_nothing_in_the_legend(page: Page, look: str) -> None:
    if look == "contrast":
        page.emulate_media(forced_colors="active")
    panel = opened(page, **({"dark": 1} if look == "dark" else {}))
    panel.get_by_label("Group by").select_option("width")
    panel.locator(".nb-legend-entry").first.click()
    assert axe(page, ".nb-detail", look) == []


def test_all_metrics_have_a_small_chart_each(panel: Locator) -> None:
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


def test_charts_are_moved_by_keys_and_stay_there(page: Page) -> None:
    panel = opened(page, metrics="loss,accuracy,latency")
    panel.get_by_role("button", name="All metrics", exact=True).click()
    charts = panel.locator(".nb-charts figcaption")
    expect(charts).to_have_text(["loss", "accuracy", "latency"])
    move = panel.get_by_role("button", name="Move latency")
    move.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(charts).to_have_text(["latency", "loss", "accuracy"])
    expect(move).to_be_focused()
    assert page.evaluate("kernel.saved.chosen.trials.curves.order") == ["latency", "loss", "accuracy"]
    page.keyboard.press("Enter")
    for end in ("To the front", "Earlier"):
        expect(panel.get_by_role("menuitem", name=end)).to_have_attribute("aria-disabled", "true")
    assert axe(page) == []


def test_charts_come_when_the_kernel_answers_again(page: Page, panel: Locator) -> None:
    expect(panel.locator(".nb-plot-foot")).to_contain_text("5 best of 60 in colour")
    gone = "{ kind: 'detail', n, ok: false, text: 'It is gone.' }"
    page.evaluate(f"() => {{ kernel.answers.detail = ({{ n }}) => ({gone}); }}")
    panel.get_by_role("button", name="All metrics", exact=True).click()
    expect(panel.locator(".nb-charts")).to_have_text("It is gone.")
    page.evaluate("() => { delete kernel.answers.detail; kernel.step(); }")
    expect(panel.locator(".nb-chart")).to_have_count(2)


def test_charts_that_do_not_fit_are_on_the_next_page(page: Page) -> None:
    panel = opened(page, metrics="loss,a,b,c,d,e,f,g")
    panel.get_by_role("button", name="All metrics", exact=True).click()
    expect(panel.locator(".nb-chart")).to_have_count(4)
    more = panel.get_by_role("button", name="More charts")
    more.click()
    expect(panel.locator(".nb-multiple-card")).to_contain_text(["d", "e", "f", "g"])
    expect(more).to_have_attribute("aria-disabled", "true")
    panel.get_by_role("button", name="Move g").click()
    panel.get_by_role("menuitem", name="To the front").click()
    expect(panel.locator(".nb-multiple-card").first).to_contain_text("g")
    expect(panel.get_by_role("button", name="Move g")).to_be_focused()
    assert axe(page) == []
