"""What strangers wrote, in a real browser: it is readable, nothing in it runs, and nothing is requested."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from nbckpt.render import Frame, Result, html_of
from nbckpt.render.document import Section, document
from nbckpt.render.page import Page as OnePage
from notebook.lab import LONGEST_MS, Lab, environment, picture, served
from waiting import until

pytestmark = pytest.mark.browser

HOSTILE = """
<meta http-equiv="Content-Security-Policy" content="default-src * 'unsafe-inline'">
<base href="URL/base/"><meta http-equiv="refresh" content="0;url=URL/refresh">
<script>top.hit = 1; fetch('URL/script')</script>
<img src="x" onerror="top.hit = 2; new Image().src = 'URL/onerror'"><img src="URL/img" srcset="URL/srcset 2x">
<style>@import url(URL/import); body { background: url(URL/css) }</style>
<style>@font-face { font-family: f; src: url(URL/font) } p { font-family: f }</style>
<link rel="stylesheet" href="URL/link"><link rel="prefetch" href="URL/prefetch">
<link rel="preload" as="image" href="URL/preload"><link rel="icon" href="URL/icon">
<iframe src="URL/frame"></iframe><iframe src="data:text/html,<script>top.hit = 3</script>"></iframe>
<iframe srcdoc="<script>top.hit = 4</script><img src='URL/inner'>"></iframe>
<object data="URL/object"></object><embed src="URL/embed">
<video src="URL/video" poster="URL/poster" autoplay></video><audio src="URL/audio" autoplay></audio>
<svg onload="top.hit = 5"><image href="URL/svg"/><use href="URL/use#a"/><script>top.hit = 6</script></svg>
<form action="URL/form"><input autofocus onfocus="this.form.submit()"></form>
<details open ontoggle="top.hit = 7"></details><body onload="top.hit = 8">
<a href="javascript:top.hit = 9" target="_top">link</a>
</iframe><script>top.hit = 10</script><img src="URL/breakout">
"></iframe><script>top.hit = 11</script>'></iframe><script>top.hit = 12</script>
&quot;&gt;&lt;script&gt;top.hit = 13&lt;/script&gt; --></style></script></title></textarea>
<p>the end</p>
"""
DEEP = f"{'<a><div>' * 249}deep inside"
"""As deep as a page shows it; see nbckpt/media/nesting.py."""


class Attacker(ThreadingHTTPServer):
    """A server that answers everything, and keeps the paths that were requested."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.paths: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: Attacker

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def attacker() -> Iterator[Attacker]:
    with Attacker() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


class Shown(Result):
    """A result with frames."""

    def __init__(self, *frames: str) -> None:
        self.frames = frames

    def page(self) -> OnePage:
        return OnePage("a result", frames=tuple(Frame("page", html) for html in self.frames))


def test_hostile_markup_neither_runs_nor_requests_anything(page: Page, attacker: Attacker) -> None:
    page.set_content(html_of(Shown(HOSTILE.replace("URL", attacker.url), DEEP)))
    first, deep = page.frame_locator("iframe").nth(0), page.frame_locator("iframe").nth(1)
    expect(first.get_by_text("the end")).to_be_visible()
    expect(deep.get_by_text("deep inside")).to_be_attached()
    first.get_by_text("link", exact=True).click()
    assert page.evaluate("window.hit") is None
    assert page.url == "about:blank"
    assert attacker.paths == []
    expect(page.locator("iframe")).to_have_count(2)


def test_the_same_markup_acts_outside_a_sandbox(page: Page, attacker: Attacker) -> None:
    """So the test above would notice what a sandbox lets through."""
    without = HOSTILE.replace('<meta http-equiv="refresh" content="0;url=URL/refresh">', "")
    without = without.replace('<form action="URL/form">', "<form>").replace(
        "this.form.submit()", "top.hit = 14"
    )
    page.set_content(without.replace("URL", attacker.url))
    until(lambda: {"/base/x", "/css", "/img", "/frame"} <= {*attacker.paths})
    assert page.evaluate("window.hit") is not None


def test_an_exported_page_shows_markup_without_any_request(
    page: Page, attacker: Attacker, tmp_path: Path
) -> None:
    part = OnePage("a trial", frames=(Frame("page", HOSTILE.replace("URL", attacker.url)),))
    folded = OnePage("another", notes=("a note in a fold",))
    sections = [Section("first", part), Section("second", folded, folded=True)]
    (tmp_path / "page.html").write_bytes(document("html", "<b>all</b>", sections, None))
    page.goto((tmp_path / "page.html").as_uri())
    expect(page.get_by_role("heading", name="<b>all</b>")).to_be_visible()
    expect(page.frame_locator("iframe").get_by_text("the end")).to_be_visible()
    expect(page.get_by_text("a note in a fold")).to_be_hidden()
    page.get_by_text("second").click()
    expect(page.get_by_text("a note in a fold")).to_be_visible()
    assert page.evaluate("window.hit") is None
    assert attacker.paths == []


TRAIN = """
import nbckpt
def train(config):
    nbckpt.report(loss=1.0, page=nbckpt.media.Html({html!r}), note="x" * 3000)
%ckpt run train --name e --wait
"""


def test_notebook_and_panel_show_pages_in_a_sandbox(lab: Lab, attacker: Attacker) -> None:
    html = HOSTILE.replace("URL", attacker.url)
    cells = ("%load_ext nbckpt\n" + TRAIN.format(html=html), "%ckpt show e/t0", "%ckpt panel trials")
    output = lab.opened("media.ipynb", *cells, run=2)
    expect(output.frame_locator("iframe").get_by_text("the end")).to_be_visible()
    panel = lab.run(2)
    panel.get_by_role("listbox", name="trials").select_option(["t0"])
    panel.get_by_role("button", name="Show", exact=True).locator("visible=true").click()
    shown = panel.get_by_role("region", name="details")
    expect(shown.frame_locator("iframe").get_by_text("the end")).to_be_visible()
    expect(shown.locator("iframe")).to_have_attribute("sandbox", "")
    expect(shown).to_contain_text("3,000 characters")
    assert lab.page.evaluate("window.hit") is None
    assert attacker.paths == []


HOSTILE_TEXT = """'"><img src=x onerror="alert(1)"><script>alert(2)</script>"""
MAKES = f"""
import shlex, nbckpt
evil = {HOSTILE_TEXT!r}
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
    lab.opened("hostile.ipynb", f"%load_ext nbckpt\n{MAKES}", *CELLS, run=len(CELLS) + 1)
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
        expect(panel.get_by_role("region", name="details")).to_contain_text(HOSTILE_TEXT)
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
        is_readable(elsewhere.output(1), "hostile@1", HOSTILE_TEXT)
        is_readable(elsewhere.output(2), "2 failed", f"ValueError: {HOSTILE_TEXT}", "Traceback")
        is_readable(elsewhere.output(3), HOSTILE_TEXT)
        is_readable(elsewhere.output(4), f"ValueError: {HOSTILE_TEXT}", "Traceback")
        is_readable(elsewhere.output(5), "2 failed", f"ValueError: {HOSTILE_TEXT}")
        if not trusted:  # where it is, JupyterLab says that the widget is gone
            is_readable(elsewhere.output(1), "run this cell again")
        holds_hostile_words_as_text(elsewhere.page)
        picture(elsewhere.page, f"reopened-{'trusted' if trusted else 'untrusted'}")
