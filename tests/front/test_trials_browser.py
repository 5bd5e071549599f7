"""The pane of trials in Chromium, with a kernel that is none: its table, its plots and their tables."""

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


PICTURES = {"Best so far": "trial", "Settings": "lr (exp", "Two settings": "width", "Parallel lines": "depth"}


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
    kept = page.evaluate(f"{BRUSHES}['settings:lr']")
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
    assert page.evaluate(f"{BRUSHES}['settings:optimizer'].values") == ["rmsprop", "adam"]


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
