#!/usr/bin/env python3
"""Make the pictures of the panel in the README and the guide from the panel's own modules.

It needs Playwright and Chromium, and no Jupyter: the trials are those of tests/front/fake.mjs.
"""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
FRONT = ROOT / "nbckpt" / "notebook" / "widget" / "front"
PICTURES = (("trials", False), ("trials", True), ("checkpoints", False), ("history", False), ("sync", False))
"""The panes, and whether the theme is the dark one; see docs/decisions/0113."""
WIDTH = 1100
FRIENDLY = """() => {
  const walker = document.createTreeWalker(document.querySelector(".nbckpt"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode())
    if (walker.currentNode.data.includes("<img")) walker.currentNode.data = "as it came";
}"""
"""Gives a plain text to the rows that test hostile ones."""


class Files(http.server.SimpleHTTPRequestHandler):
    """The files of the repository."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served() -> Iterator[str]:
    """Serve the repository; yield the address of the page with the panel."""
    handler = functools.partial(Files, directory=str(ROOT))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/tests/front/page.html"
        server.shutdown()


def photograph(page: Page, address: str, pane: str, *, is_dark: bool) -> Path:
    """Take the picture of one pane."""
    parts = ",".join(sorted(file.name for file in FRONT.glob("*.js")))
    asked = {"parts": parts, "traits": f'{{"pane": "{pane}"}}'} | ({"dark": "1"} if is_dark else {})
    page.goto(f"{address}?{urlencode(asked)}")
    page.locator("body[data-ready]").wait_for()
    page.locator(".nb-rows .nb-row:visible, .nb-sync").first.wait_for()
    page.wait_for_function("document.getAnimations().length === 0")
    page.evaluate(FRIENDLY)
    file = ROOT / "docs" / f"panel-{pane}{'-dark' if is_dark else ''}.png"
    page.locator(".nbckpt").screenshot(path=file)
    return file


def main() -> None:
    """Take all pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH + 32, "height": 760})
        for pane, is_dark in PICTURES:
            print(photograph(page, address, pane, is_dark=is_dark).relative_to(ROOT))
        browser.close()


if __name__ == "__main__":
    main()
