"""The panel for people who do not use a mouse, or hear it rather than see it."""

from __future__ import annotations

import pytest
from axe_playwright_python.base import AxeResults
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, expect

from notebook.lab import Lab

pytestmark = pytest.mark.browser

RULES = {"runOnly": ["wcag2a", "wcag2aa", "best-practice"]}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""The rules that look at colours, which are all that a theme changes."""
THEMES = {"light": RULES, "dark": COLOURS, "dark high contrast": COLOURS}

# Axe takes for hidden what is outside the window or a box that scrolls, and all that is in a body without
# a height, as JupyterLab's is. What has an opacity it cannot judge: a colour as faint is put in its place.
IN_SIGHT = "body { height: 100vh; } .jp-OutputArea-output :not(img) { max-height: none !important; }"
JUDGED = """() => {
    for (const it of document.querySelectorAll('.jp-OutputArea-output *')) {
        const opacity = getComputedStyle(it).opacity;
        if (opacity > 0 && opacity < 1) {
            it.style.color = `color-mix(in srgb, currentcolor ${100 * opacity}%, transparent)`;
            it.style.opacity = 1;
        }
    }
}"""

FIGURE = """
import matplotlib.pyplot as plt, numpy
numbers = numpy.arange(1000)
figure, axes = plt.subplots()
axes.plot(numbers)
plt.close(figure)
%ckpt save figure -m 'a figure & more'
%ckpt save later
"""
TRAIN = """
import nbckpt
def train(config):
    for i in range(20):
        if config["lr"] == 1.0 and i == 9:
            raise ValueError("loss is <b>nan</b> & gone")
        nbckpt.report(loss=config["lr"] + 2 / (i + 1), checkpoint={"i": i + 1})
%ckpt run train --grid lr=0.1,0.3,1.0 --name grid --metric loss --mode min --wait
"""


def press(panel: Locator, name: str) -> None:
    panel.get_by_role("button", name=name, exact=True).locator("visible=true").click()


def details(panel: Locator) -> Locator:
    return panel.get_by_role("region", name="details")


def checkpoints(lab: Lab, panel: Locator) -> None:
    panel.get_by_label("checkpoint", exact=True).select_option(label="figure@1: a figure & more")
    press(panel, "Delete…")
    panel.get_by_role("button", name="Delete now").wait_for()
    press(panel, "Show")
    details(panel).locator("img").first.wait_for()


def trials(lab: Lab, panel: Locator) -> None:
    panel.get_by_role("tab", name="Trials").click()
    panel.get_by_text("1 failed").locator("visible=true").first.wait_for()
    press(panel, "Curves")
    details(panel).locator("img").first.wait_for()


def sync(lab: Lab, panel: Locator) -> None:
    panel.get_by_role("tab", name="Sync").click()
    place = panel.get_by_label("location")
    place.fill(str(lab.folder / "there"))
    place.press("Enter")
    press(panel, "Set")
    panel.get_by_text("Last push").locator("visible=true").first.wait_for()


TABS = {"checkpoints": checkpoints, "trials": trials, "sync": sync}


def row(panel: Locator, text: str) -> Locator:
    return panel.locator(".nb-rows .nb-row", has_text=text).first


def widget_checkpoints(lab: Lab, panel: Locator) -> None:
    row(panel, "figure@1").click()
    expect(panel.locator(".nb-values")).to_contain_text("numbers")
    panel.get_by_role("button", name="Delete…").click()
    panel.locator("[data-action=confirm]").wait_for()


def widget_trials(lab: Lab, panel: Locator) -> None:
    expect(row(panel, "t2")).to_contain_text("Failed")
    row(panel, "t0").locator(".nb-check").click()
    panel.locator("[data-action=restore]").wait_for()


def widget_history(lab: Lab, panel: Locator) -> None:
    row(panel, "marked = 1").click()
    expect(panel.locator(".nb-detail")).to_contain_text("If you go here now:")


def widget_sync(lab: Lab, panel: Locator) -> None:
    panel.get_by_label("Place").fill(str(lab.folder / "widget there"))
    panel.get_by_role("button", name="Turn on").click()
    expect(panel.locator(".nb-sync")).to_contain_text("Everything is also in")


PANES = {"checkpoints": widget_checkpoints, "trials": widget_trials}
PANES |= {"history": widget_history, "sync": widget_sync}


CONTROLS = "button:enabled, input:enabled, select:enabled, summary"
REACHED = """panel => {
    const at = document.activeElement;
    at.dataset.reached = 'yes';
    return panel.contains(at);
}"""


def opened(lab: Lab, name: str) -> Locator:
    cells = (f"%load_ext nbckpt\n{FIGURE}", TRAIN, "%ckpt panel", "print(len(numbers))")
    panel = lab.opened(name, *cells, run=3)
    panel.get_by_role("button", name="Restore…").wait_for()
    return panel


def opened_widget(lab: Lab, name: str, tab: str) -> Locator:
    # A store of its own: from several versions on, those of other tests would be one row.
    begin = f"import os\nos.environ |= dict(NBCKPT_PANEL='widget', NBCKPT_STORE='{name}.store')\n"
    begin += f"%load_ext nbckpt\n{FIGURE}"
    mark = "%ckpt auto on --budget 1000000%", "marked = 1", "marked = 2"
    panel = lab.opened(name, begin, TRAIN, *mark, f"%ckpt panel {tab}", run=6).locator(".nb-panel")
    expect(panel.locator(".nb-state")).to_have_text("● Live")
    return panel


def nodes(results: AxeResults, kind: str, rule: str) -> list[str]:
    """Return the elements about which a rule said this."""
    return [
        node["html"]
        for rule_result in results.response[kind]
        if rule_result["id"] == rule
        for node in rule_result["nodes"]
    ]


def tab_to(lab: Lab, target: Locator) -> None:
    """Press Tab until *target* has the focus."""
    for _ in range(100):
        if target.evaluate("it => it === document.activeElement"):
            return
        lab.page.keyboard.press("Tab")
    pytest.fail(f"Tab does not lead to {target}")


def key_press(lab: Lab, panel: Locator, name: str, key: str = "Enter") -> None:
    tab_to(lab, panel.get_by_role("button", name=name, exact=True).locator("visible=true"))
    lab.page.keyboard.press(key)


def choose_second(lab: Lab, choice: Locator) -> None:
    """Choose the second option; the list is opened first, as the arrows alone move from cell to cell."""
    tab_to(lab, choice)
    for key in ("Space", "Home", "ArrowDown", "Enter"):
        lab.page.keyboard.press(key)
    expect(choice).to_have_js_property("selectedIndex", 1)


def turn_to_trials(lab: Lab, panel: Locator) -> None:
    tab_to(lab, panel.get_by_role("tab", name="Checkpoints"))
    lab.page.keyboard.press("ArrowRight")
    lab.page.keyboard.press("Enter")
    expect(panel.get_by_role("tab", name="Trials")).to_have_attribute("aria-selected", "true")


def test_axe_finds_no_accessibility_problem_in_any_theme(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1280, "height": 4000})
    panel = opened(lab, "axe.ipynb")
    lab.page.add_style_tag(content=IN_SIGHT)
    for tab, fill in TABS.items():
        fill(lab, panel)
        panel.evaluate("it => it.querySelectorAll('details').forEach(fold => { fold.open = true; })")
        for theme, rules in THEMES.items():
            lab.theme(theme)
            lab.page.evaluate(JUDGED)
            results = Axe().run(lab.page, ".jp-OutputArea-output", rules)
            assert not results.violations_count, f"{tab}, {theme}: {results.generate_report()}"
            contrast = {kind: nodes(results, kind, "color-contrast") for kind in ("passes", "incomplete")}
            assert len(contrast["passes"]) > 20
            unclear = [
                node for node in contrast["incomplete"] if not node.startswith("<select")
            ]  # their arrow
            assert unclear == []


def test_axe_finds_nothing_in_the_widget_in_any_theme(lab: Lab) -> None:
    lab.page.set_viewport_size({"width": 1280, "height": 4000})
    panel = opened_widget(lab, "axe-widget.ipynb", "checkpoints")
    lab.page.add_style_tag(content="body { height: 100vh; }")  # see IN_SIGHT
    for pane, fill in PANES.items():
        panel.get_by_role("tab", name=pane.title()).click()
        fill(lab, panel)
        for theme, rules in THEMES.items():
            lab.theme(theme)
            results = Axe().run(lab.page, ".nb-panel", rules)
            assert not results.violations_count, f"{pane}, {theme}: {results.generate_report()}"
            assert len(nodes(results, "passes", "color-contrast")) > 5


MOVES = """(panel) => [...panel.querySelectorAll("*")].filter((element) => {
    const { transitionDuration, animationName } = getComputedStyle(element);
    return transitionDuration !== "0s" || animationName !== "none";
}).length"""
OUTLINE = """() => {
    const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(document.activeElement);
    return [outlineStyle, outlineWidth, outlineColor === "rgba(0, 0, 0, 0)"];
}"""


def test_the_widget_is_still_on_request_and_shows_the_focus(lab: Lab) -> None:
    lab.own_page()  # its media are changed
    panel = opened_widget(lab, "media.ipynb", "trials")
    widget_trials(lab, panel)
    lab.page.emulate_media(reduced_motion="no-preference")
    assert panel.evaluate(MOVES) > 0
    lab.page.emulate_media(reduced_motion="reduce")
    assert panel.evaluate(MOVES) == 0
    for colors in ("none", "active"):
        lab.page.emulate_media(forced_colors=colors)
        tab = panel.get_by_role("tab", name="Trials")
        tab.focus()
        for key in ("Shift+Tab", "Tab", "ArrowRight", "Tab", "Tab"):
            lab.page.keyboard.press(key)
            if panel.evaluate("(panel) => panel.contains(document.activeElement)"):
                assert lab.page.evaluate(OUTLINE) == ["solid", "2px", False], key


def test_tab_leads_to_every_control(lab: Lab) -> None:
    panel = opened(lab, "reached.ipynb")
    for tab in ("Checkpoints", "Trials"):
        if tab == "Trials":
            turn_to_trials(lab, panel)
            panel.get_by_text("1 failed").locator("visible=true").first.wait_for()
        tab_to(lab, panel.get_by_role("tab", name=tab))
        for _ in range(100):
            if not panel.evaluate(REACHED):
                break
            lab.page.keyboard.press("Tab")
        else:
            pytest.fail("Tab does not lead out of the panel")
        controls = panel.locator(".widget-tab").locator(CONTROLS).locator("visible=true")
        expect(controls.nth(8)).to_be_visible()
        expect(controls.and_(lab.page.locator(":not([data-reached])"))).to_have_text([])


def test_the_keyboard_finds_shows_and_restores_a_checkpoint(lab: Lab) -> None:
    panel = opened(lab, "keys.ipynb")
    tab_to(lab, panel.get_by_label("filter"))
    table = panel.get_by_role("region", name="checkpoints")
    expect(table).to_contain_text("grid")
    lab.page.keyboard.type("figure")
    lab.page.keyboard.press("Enter")
    expect(table).not_to_contain_text("grid")  # the table comes after the options
    choose_second(lab, panel.get_by_label("checkpoint", exact=True))
    key_press(lab, panel, "Show")
    details(panel).get_by_role("rowheader", name="numbers").wait_for()
    key_press(lab, panel, "Restore…", "Space")
    panel.get_by_text("Would restore").wait_for()
    key_press(lab, panel, "Restore now")
    panel.get_by_text("Restored 5 variables").wait_for()
    expect(lab.run(3)).to_have_text("1000")


def test_trials_are_compared_chosen_and_restored_without_a_mouse(lab: Lab) -> None:
    panel = opened(lab, "keys-trials.ipynb")
    turn_to_trials(lab, panel)
    key_press(lab, panel, "Curves", "Space")
    details(panel).locator("img").first.wait_for()
    trials = panel.get_by_role("listbox", name="trials")
    tab_to(lab, trials)
    for key in ("Home", "Control+ArrowDown", "Control+Space"):  # the arrows alone move from cell to cell
        lab.page.keyboard.press(key)
    expect(trials.locator("option:checked")).to_have_count(2)
    key_press(lab, panel, "Show")
    details(panel).get_by_text("grid/t0: done").first.wait_for()
    key_press(lab, panel, "Restore here")
    panel.get_by_text("Restored 1 variable").first.wait_for()
