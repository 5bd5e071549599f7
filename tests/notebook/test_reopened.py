"""A saved notebook that is opened elsewhere, untrusted and then trusted: readable, and nothing in it runs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from notebook.lab import LONGEST_MS, Lab, environment, picture, served
from waiting import until

pytestmark = pytest.mark.browser

HOSTILE = """'"><img src=x onerror="alert(1)"><script>alert(2)</script>"""
MAKES = f"""
import shlex, nbckpt
evil = {HOSTILE!r}
hostile = type(evil, (), {{"__repr__": lambda self: evil}})()
get_ipython().run_line_magic("ckpt", f"save hostile -m {{shlex.quote(evil)}}")
def train(config):
    print(evil)
    nbckpt.report({{evil: 0.5}})
    raise ValueError(evil)
nbckpt.run(train, {{evil: nbckpt.grid_search([evil, "b"])}}, name="evil").wait();
"""
CELLS = ("%ckpt panel", "%ckpt panel trials", "%ckpt show hostile", "%ckpt show evil/t0", "%ckpt trials")
ALERTS = "window.alerts = []; window.alert = it => window.alerts.push(it);"
OPEN = "it => it.querySelectorAll('details').forEach(fold => { fold.open = true; })"
TRUSTED = "window.jupyterapp.shell.currentWidget.content.widgets.every(cell => cell.model.trusted)"


@pytest.fixture
def saved(lab: Lab) -> str:
    """Return the name of a saved notebook with hostile words in each view, the panel's too."""
    lab.own_page().add_init_script(ALERTS)
    lab.open("hostile.ipynb", f"%load_ext nbckpt\n{MAKES}", *CELLS)
    for at in range(len(CELLS) + 1):
        lab.run(at)
    panel = lab.output(2)
    tabs = (
        ("Checkpoints", panel.get_by_role("combobox", name="checkpoint"), "hostile@1"),
        ("Trials", panel.get_by_role("listbox", name="trials"), "2 failed"),
    )
    for tab, choice, copied in tabs:
        panel.get_by_role("tab", name=tab).click()
        # The kernel may hear the next button in another thread, before it has turned to this tab.
        expect(panel.locator(".jp-OutputArea-child").first).to_contain_text(copied)
        choice.select_option(index=0)
        panel.get_by_role("button", name="Show", exact=True).locator("visible=true").click()
        expect(panel.get_by_role("region", name="details")).to_contain_text(HOSTILE)
    holds_hostile_words_as_text(lab.page)
    lab.command("docmanager:save")
    return "hostile.ipynb"


@pytest.fixture
def elsewhere(browser: Browser, lab: Lab, python: str, tmp_path: Path) -> Iterator[Lab]:
    """Give the test another server for the same notebooks, with a secret of its own."""
    with served(python, lab.folder.parent, tmp_path) as url:
        page = browser.new_page(viewport={"width": 1280, "height": 3000})
        page.set_default_timeout(LONGEST_MS)
        page.add_init_script(ALERTS)
        yield Lab(page, url, lab.folder)
        page.close()


def holds_hostile_words_as_text(page: Page) -> None:
    assert page.evaluate("window.alerts") == []
    expect(page.locator(".jp-OutputArea").locator("img[src=x], script")).to_have_count(0)


def is_readable(output: Locator, *words: str) -> None:
    for word in words:
        output.get_by_text(word).first.wait_for(state="attached")
    output.evaluate(OPEN)
    for word in words:
        output.get_by_text(word).locator("visible=true").first.wait_for()


def test_a_reopened_notebook_is_readable_and_runs_no_script(
    lab: Lab, elsewhere: Lab, saved: str, python: str, tmp_path: Path
) -> None:
    for trusted in (False, True):
        if trusted:
            trust = [python, "-m", "jupyter", "trust", lab.folder / saved]
            subprocess.run(trust, env=environment(tmp_path), check=True)
        elsewhere.enter(saved)
        until(lambda trusted=trusted: elsewhere.page.evaluate(TRUSTED) == trusted)
        is_readable(elsewhere.output(1), "hostile@1", HOSTILE)
        is_readable(elsewhere.output(2), "2 failed", f"ValueError: {HOSTILE}", "Traceback")
        is_readable(elsewhere.output(3), HOSTILE)
        is_readable(elsewhere.output(4), f"ValueError: {HOSTILE}", "Traceback")
        is_readable(elsewhere.output(5), "2 failed", f"ValueError: {HOSTILE}")
        if not trusted:  # where it is, JupyterLab says that the widget is gone
            is_readable(elsewhere.output(1), "run this cell again")
        holds_hostile_words_as_text(elsewhere.page)
        picture(elsewhere.page, f"reopened-{'trusted' if trusted else 'untrusted'}")
