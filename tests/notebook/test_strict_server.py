"""A server whose Content-Security-Policy forbids scripts from `blob:` addresses, as some JupyterHubs do.

No anywidget works there. See docs/decisions/0171.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from notebook.lab import Lab, served

pytestmark = pytest.mark.browser

POLICY = "script-src 'self' 'unsafe-inline' 'unsafe-eval'"
SETTINGS = f'--ServerApp.tornado_settings={{"headers": {{"Content-Security-Policy": "{POLICY}"}}}}'
BEGIN = """
%load_ext nbckpt
import pathlib, time, nbckpt
%ckpt save first
def train(config):
    while not pathlib.Path("go").exists():
        time.sleep(0.05)
    nbckpt.report(loss=0.5)
"""
RUN = "%ckpt run train --name strict --wait"
AGAIN = "Run this cell again for the buttons."


@pytest.fixture(scope="module")
def server(
    chromium: str, python: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """Run a server with the strict policy, and with the panel that people get."""
    del chromium
    root = tmp_path_factory.mktemp("strict")
    folder = root / "notebooks"
    folder.mkdir()
    with served(python, root, tmp_path_factory.mktemp("home"), SETTINGS, NBCKPT_PANEL="") as url:
        yield url, folder


def test_the_copy_says_how_to_get_a_panel_that_works(lab: Lab) -> None:
    blocked: list[str] = []
    lab.own_page().on("console", lambda said: blocked.append(said.text) if "blob:" in said.text else None)
    panel = "%ckpt panel checkpoints"
    output = lab.opened("strict.ipynb", BEGIN, panel, "%env NBCKPT_PANEL=core", panel, run=2)
    expect(output.locator("[data-nbckpt-copy]")).to_contain_text("first@1")
    output.get_by_text(AGAIN).click()
    expect(output.get_by_text("%env NBCKPT_PANEL=core")).to_be_visible()
    lab.run(2, 3).get_by_role("button", name="Show", exact=True).wait_for()
    assert any("Content Security Policy" in said for said in blocked)


def test_the_table_of_a_run_is_there_as_html(lab: Lab) -> None:
    lab.opened("run.ipynb", BEGIN, RUN, run=1)
    output = lab.start(1)
    expect(output.locator("[data-nbckpt-copy]")).to_contain_text("1 trial, 1 running")
    Path(lab.folder, "go").touch()
    expect(output.locator("[data-nbckpt-copy]")).to_contain_text("1 trial, 1 done")
    expect(output.locator("[data-nbckpt-copy]")).to_be_visible()
    expect(output.locator(".nb-small")).to_have_count(0)
