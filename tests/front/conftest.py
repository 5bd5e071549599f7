"""The panel in Chromium, on a page without Jupyter, with a kernel that is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from nbckpt.notebook.widget.parts import front_parts
from notebook.lab import browser, chromium
from servers.files import served_folder

__all__ = ["browser", "chromium"]

PARTS = ",".join(json.loads(front_parts()["names.json"]))
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""The rules that look at colours, which are all that a theme changes."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served_folder(Path(__file__).parents[2]) as address:
        yield f"{address}/tests/front/page.html"


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page for `opened`. It fails the test if it has an error, or asks something."""
    page = browser.new_page(base_url=address)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    yield page
    page.close()
    assert errors == []


def opened(page: Page, pane: str = "", *, width: int = 1200, **options: object) -> Locator:
    """Open the panel in a page, and return it."""
    page.set_viewport_size({"width": width + 32, "height": 760})
    traits = json.dumps({"pane": pane} if pane else {})
    page.goto(f"?{urlencode({'parts': PARTS, 'traits': traits, **options})}")
    expect(page.locator("body[data-ready]")).to_have_count(1)
    return page.locator(".nbckpt")


@pytest.fixture
def panel(page: Page) -> Locator:
    """The panel with 60 trials."""
    return opened(page)


@pytest.fixture
def checkpoints(page: Page) -> Locator:
    """The panel with its checkpoints in front."""
    return opened(page, "checkpoints")


@pytest.fixture
def history(page: Page) -> Locator:
    """The panel with its history in front."""
    return opened(page, "history")


@pytest.fixture
def sync(page: Page) -> Locator:
    """The panel with its sync in front."""
    return opened(page, "sync")


def names(panel: Locator) -> Locator:
    return panel.locator(".nb-rows .nb-name")


def beyond(panel: Locator) -> list[str]:
    """Return the controls that leave the panel to the right."""
    controls: list[str] = panel.evaluate(
        """(root) => [...root.querySelectorAll("button, input, select, .nb-answer")]
        .filter((one) => !one.closest(".nb-grid, .nb-scroll") && one.getBoundingClientRect().width)
        .filter((one) => one.getBoundingClientRect().right > root.getBoundingClientRect().right)
        .map((one) => one.outerHTML)"""
    )
    return controls


def axe(page: Page, within: str = ".nbckpt", look: str = "light") -> list[tuple[str, str]]:
    """Return each rule for people who use no mouse or no eyes that is broken, and where first."""
    options = {"resultTypes": ["violations"], **({} if look == "light" else COLOURS)}
    report = Axe().run(page, within, options)
    return [(rule["id"], rule["nodes"][0]["html"]) for rule in report.response["violations"]]
