#!/usr/bin/env python3
"""Make every picture of the README, the pages and the guides from the running product, light and dark.

    PYTHONPATH=tests python docs/pictures.py [NAME…]

It needs Playwright, Chromium and JupyterLab. The panel's pictures need no Jupyter: their trials are those of
tests/front/fake.mjs.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, expect, sync_playwright

from nbckpt.notebook.widget.parts import front_parts
from notebook.lab import ACTIVATE, Lab, served
from servers.files import served_folder

ROOT = Path(__file__).resolve().parents[1]
PANES = ("trials", "checkpoints", "history", "sync")
"""The tabs of the panel; see docs/decisions/0113."""
NOTEBOOK = "save-and-browse"
THEMES = {"": "light", "-dark": "dark"}
"""The themes, by the ending of a picture's name."""
NAMES = {
    f"{name}{ending}.png" for name in (NOTEBOOK, *(f"panel-{pane}" for pane in PANES)) for ending in THEMES
}
WIDTH = 1100
FRIENDLY = """() => {
  const walker = document.createTreeWalker(document.querySelector(".nbckpt"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode())
    if (walker.currentNode.data.includes("<img")) walker.currentNode.data = "as it came";
}"""
"""Gives a plain text to the rows that test hostile ones."""

UNSEEN = (
    """%load_ext nbckpt
import pandas as pd
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier

scans = load_digits(as_frame=True).frame
pixels, digit = scans.drop(columns="target"), scans["target"]
model = RidgeClassifier(alpha=100).fit(pixels[:1200], digit[:1200])
accuracy = round(model.score(pixels[1200:], digit[1200:]), 3)
figure = Figure(figsize=(7, 1.3), layout="constrained")
for axis, (_, scan) in zip(figure.subplots(1, 8), pixels.iterrows()):
    axis.imshow(scan.to_numpy().reshape(8, 8), cmap="gray_r")
    axis.axis("off")
%ckpt save baseline -m "ridge, a penalty of 100"
""",
    """model = RidgeClassifier(alpha=1).fit(pixels[:1200], digit[:1200])
accuracy = round(model.score(pixels[1200:], digit[1200:]), 3)
%ckpt save weaker -m "a penalty of 1 in place of 100"
""",
)
SEEN = (
    '%ckpt save result model accuracy figure -m "for the report"',
    "%ckpt ls",
    "%ckpt diff baseline weaker",
    "%ckpt show result",
)
"""The cells of the picture of a notebook, and those above them."""
ELSEWHERE = """([path, shown]) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) walker.currentNode.data = walker.currentNode.data.replaceAll(path, shown);
}"""
"""Shows another folder than the temporary one."""


def panel_pictures(browser: Browser, keep: Callable[[str], bool]) -> Iterator[Path]:
    """Take the pictures of the panel's tabs."""
    page = browser.new_page(viewport={"width": WIDTH + 32, "height": 760})
    with served_folder(ROOT) as address:
        for pane in PANES:
            for ending, theme in THEMES.items():
                if keep(name := f"panel-{pane}{ending}.png"):
                    yield panel_picture(page, f"{address}/tests/front/page.html", pane, theme, name)


def panel_picture(page: Page, address: str, pane: str, theme: str, name: str) -> Path:
    """Take the picture of one tab."""
    parts = ",".join(json.loads(front_parts()["names.json"]))
    asked = {"parts": parts, "traits": f'{{"pane": "{pane}"}}'} | ({"dark": "1"} if theme == "dark" else {})
    page.goto(f"{address}?{urlencode(asked)}")
    page.locator("body[data-ready]").wait_for()
    page.locator(".nb-rows .nb-row:visible, .nb-sync").first.wait_for()
    page.wait_for_function("document.getAnimations().length === 0")
    page.evaluate(FRIENDLY)
    file = ROOT / "docs" / name
    page.locator(".nbckpt").screenshot(path=file)
    return file


def notebook_pictures(browser: Browser, keep: Callable[[str], bool]) -> Iterator[Path]:
    """Take the pictures of a notebook in JupyterLab."""
    names = {f"{NOTEBOOK}{ending}.png": theme for ending, theme in THEMES.items()}
    if not any(map(keep, names)):
        return
    with jupyterlab(browser) as lab:
        lab.open("digits.ipynb", *UNSEEN, *SEEN)
        lab.command("application:toggle-left-area")
        for at in range(len(UNSEEN + SEEN)):
            lab.run(at)
        expect(lab.page.locator("[data-mime-type='application/vnd.jupyter.error']")).to_have_count(0)
        lab.page.evaluate(ACTIVATE, 0)  # the active cell has buttons
        for name, theme in names.items():
            if keep(name):
                lab.theme(theme)
                yield notebook_picture(lab, ROOT / "docs" / name)


@contextmanager
def jupyterlab(browser: Browser) -> Iterator[Lab]:
    """Run JupyterLab in a temporary folder."""
    with (
        tempfile.TemporaryDirectory() as work,
        tempfile.TemporaryDirectory() as home,
        served(sys.executable, Path(work), Path(home)) as url,
    ):
        page = browser.new_page(viewport={"width": WIDTH + 100, "height": 2400})
        folder = Path(work) / "work"
        folder.mkdir()
        yield Lab(page, url, folder)


def notebook_picture(lab: Lab, file: Path) -> Path:
    """Take the picture of the cells that are seen."""
    lab.page.evaluate(ELSEWHERE, [str(lab.folder), "/home/me/work"])
    cells = lab.page.locator(".jp-Notebook .jp-CodeCell")
    first, last = cells.nth(len(UNSEEN)).bounding_box(), cells.nth(len(UNSEEN + SEEN) - 1).bounding_box()
    assert first is not None
    assert last is not None
    height = last["y"] + last["height"] - first["y"]
    lab.page.screenshot(path=file, clip=first | {"height": height})
    return file


def main() -> None:
    """Take all pictures, or those that are named."""
    names = {*sys.argv[1:]} or NAMES
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for take in (panel_pictures, notebook_pictures):
            for file in take(browser, names.__contains__):
                print(file.relative_to(ROOT))
        browser.close()


if __name__ == "__main__":
    main()
