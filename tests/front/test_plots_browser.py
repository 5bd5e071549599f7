"""Plots of trials in Chromium: curves and their legend, best so far, the front, the timeline, and slices."""

from __future__ import annotations

import re

import pytest
from front.conftest import axe, names, opened
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


TWO = "loss min,accuracy max"
BRUSHES = "kernel.saved.filter.trials.brushes"


def test_best_so_far_tells_whether_the_search_finds_more(panel: Locator) -> None:
    panel.get_by_role("tab", name="Best so far").click()
    expect(panel.locator(".nb-plot-foot")).to_contain_text("t52 is the best. The 7 trials after it found")
    expect(panel.locator(".nb-plot-foot")).to_contain_text("5 failed are left out.")
    expect(panel.locator(".nb-dots .nb-dot")).to_have_count(55)
    panel.get_by_role("button", name="Show as table").click()
    expect(panel.locator(".nb-plot-table tbody tr").last).to_contain_text("t52520.1602lr 0.0129")


def test_a_dot_answers_to_pointer_keys_and_click(page: Page, panel: Locator) -> None:
    panel.get_by_role("tab", name="Best so far").click()
    panel.locator(".nb-dot[data-id=t52]").hover()
    expect(panel.locator(".nb-tip")).to_contain_text("t52  trial 52  loss 0.1602  ·  lr 0.0129")
    expect(panel.locator(".nb-row.nb-lit")).to_contain_text("t52")
    panel.locator(".nb-dot[data-id=t52]").click()
    expect(panel.locator(".nb-actions")).to_contain_text("1 selected: t52")
    panel.locator(".nb-dots").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(panel.locator(".nb-actions")).to_contain_text(re.compile(r"1 selected: t5\d"))


def test_a_timeline_shows_when_each_trial_ran(panel: Locator) -> None:
    panel.get_by_role("tab", name="Timeline").click()
    expect(panel.locator(".nb-span")).to_have_count(60)
    expect(panel.locator(".nb-span[data-status=failed]")).to_have_count(5)
    expect(panel.locator(".nb-plot-foot")).to_contain_text("60 trials in 50 min, 5 failed (dashed).")
    panel.locator(".nb-dot[data-id=t52]").hover()
    tip = re.compile(r"t52  end \d+ min  trial t52  start \d+ min")
    expect(panel.locator(".nb-tip")).to_contain_text(tip)
    panel.get_by_role("button", name="Show as table").click()
    expect(panel.locator(".nb-plot-table tbody tr")).to_have_count(60)


def test_the_line_follows_the_direction(panel: Locator) -> None:
    panel.get_by_role("tab", name="Best so far").click()
    panel.get_by_role("button", name="lowest is best").click()
    expect(panel.locator(".nb-plot-foot")).not_to_contain_text("t52 is the best")


def test_a_front_needs_two_objectives(page: Page) -> None:
    panel = opened(page)
    expect(names(panel).first).to_have_text("t52")
    expect(panel.get_by_role("tab", name="Pareto front")).to_have_count(0)
    panel = opened(page, objectives=TWO)
    panel.get_by_role("tab", name="Pareto front").click()
    expect(panel.locator(".nb-plot-foot")).to_contain_text("1 trial of 60 is on the front")
    expect(panel.locator(".nb-axis-title")).to_have_text(["accuracy (max)", "loss (min)"])


def test_of_three_objectives_two_are_chosen(page: Page) -> None:
    panel = opened(page, objectives="loss min,accuracy min,seconds min")
    panel.get_by_role("tab", name="Pareto front").click()
    expect(panel.locator(".nb-plot-foot")).to_contain_text("of these two objectives alone")
    panel.get_by_label("Up", exact=True).select_option("loss")
    expect(panel.get_by_label("Across")).to_have_value("accuracy")
    expect(panel.locator(".nb-axis-title")).to_have_text(["loss (min)", "accuracy (min)"])


def test_the_front_goes_with_its_experiment(page: Page) -> None:
    panel = opened(page, objectives="loss min,accuracy min,seconds min")
    panel.get_by_role("tab", name="Pareto front").click()
    expect(panel.get_by_label("Across")).to_be_visible()
    page.evaluate("""kernel.emit({ kind: "trials", experiment: "other", metric: "loss", mode: "min", total: 1,
        experiments: [{ name: "other", total: 1 }], metrics: ["loss"], settings: [], from: 0, reset: true,
        rows: [{ ...kernel.all[0].row }] })""")
    expect(panel.get_by_role("tab", name="Curves")).to_have_attribute("aria-selected", "true")
    expect(panel.get_by_role("tab", name="Pareto front")).to_have_count(0)
    expect(panel.get_by_label("Across")).to_have_count(0)
    expect(panel.get_by_label("Smooth")).to_be_visible()


def test_slices_have_shades_from_early_to_late(panel: Locator) -> None:
    panel.get_by_role("tab", name="Settings", exact=True).click()
    expect(panel.locator(".nb-shades")).to_contain_text(re.compile("Early.*late trials"))
    shade = re.compile(r"--nb-to\) (\d+)%")
    fills = [panel.locator(f".nb-dot[data-id={name}]").first.get_attribute("style") for name in ("t0", "t59")]
    assert [shade.search(fill or "")[1] for fill in fills] == ["0", "100"]
    expect(panel.locator(".nb-dot[data-id=t2]").first).to_have_attribute("stroke", "var(--nb-line-2)")


def test_two_settings_make_a_plane(page: Page, panel: Locator) -> None:
    panel.get_by_role("tab", name="Two settings").click()
    expect(panel.locator(".nb-axis-title")).to_have_text(["width", "lr"])
    expect(panel.locator(".nb-shades")).to_have_text(re.compile(r"loss 1\.\d+0\.1602"))
    expect(panel.locator(".nb-plot-foot")).to_contain_text("5 failed are left out.")
    radius = "(dots) => Math.max(...dots.map((dot) => Number(dot.getAttribute('r'))))"
    best = float(panel.locator(".nb-dot[data-id=t52]").get_attribute("r") or 0)
    assert panel.locator(".nb-dots .nb-dot").evaluate_all(radius) == best
    panel.get_by_label("Up", exact=True).select_option("optimizer")
    expect(panel.locator(".nb-axis-title")).to_have_text(["optimizer", "lr"])
    assert page.evaluate("kernel.saved.chosen.trials.two_settings") == ["lr", "optimizer"]
    panel.get_by_role("button", name="Show as table").click()
    expect(panel.locator(".nb-plot-table tbody tr")).to_have_count(55)
    expect(panel.locator(".nb-plot-table tbody tr").first).to_contain_text("rmsprop0.1602")


@pytest.mark.parametrize(("compared", "words"), [("rungs", "Dots are rungs"), ("generations", "the ends of")])
def test_curves_say_what_their_dots_are(page: Page, compared: str, words: str) -> None:
    panel = opened(page, compared=compared)
    expect(panel.locator(".nb-plot-foot")).to_contain_text(words)
    expect(panel.locator(".nb-plot-foot")).to_contain_text("where the scheduler compared the trials.")


def test_keys_filter_in_the_head_of_a_column(page: Page, panel: Locator) -> None:
    header, keys = panel.get_by_role("columnheader", name="lr"), page.keyboard
    expect(header).to_have_attribute("title", re.compile(r"^lr\. Drag on the bars to filter\. With Shift"))
    panel.locator(".nb-rows .nb-cell").first.click()
    keys.press("Control+Home")
    keys.press("ArrowUp")
    for _ in range(4):
        keys.press("ArrowRight")
    expect(header).to_be_focused()
    keys.press("Shift+ArrowRight")
    expect(panel.locator(".nb-actions")).to_contain_text(" of 60")
    narrow = page.evaluate(f"{BRUSHES}['settings:lr']")
    keys.press("Shift+ArrowUp")
    wide = page.evaluate(f"{BRUSHES}['settings:lr']")
    assert (wide["low"], wide["high"]) == (pytest.approx(narrow["low"]), pytest.approx(wide["high"]))
    assert wide["high"] > narrow["high"]
    keys.press("0")
    expect(panel.get_by_role("grid")).to_have_attribute("aria-rowcount", "61")
    expect(header).to_be_focused()


def test_failed_trials_alone_have_their_errors_and_lines(panel: Locator) -> None:
    panel.get_by_role("button", name="Failed 5").click()
    expect(panel.get_by_role("columnheader").nth(2)).to_have_text("Error")
    expect(panel.locator(".nb-row[data-id=t19]")).to_contain_text("CUDA out of memory")
    expect(panel.locator(".nb-plot-foot")).to_contain_text("All 5 in colour.")
    expect(panel.locator(".nb-plot-foot")).not_to_contain_text("leave the picture")
    panel.get_by_role("button", name="Clear filters").click()
    expect(panel.get_by_role("columnheader", name="Error")).to_have_count(0)
    expect(panel.locator(".nb-plot-foot")).to_contain_text("5 best of 60 in colour, the others grey.")


def test_the_best_in_sight_have_the_colours(panel: Locator) -> None:
    panel.get_by_label("Find trials").fill("optimizer=sgd")
    expect(panel.locator(".nb-plot-foot")).to_contain_text(re.compile(r"^5 best of \d+ in colour"))
    expect(panel.locator(".nb-rows .nb-swatch")).to_have_count(5)
    expect(panel.locator(".nb-heading")).to_contain_text("t52, loss 0.1602")
