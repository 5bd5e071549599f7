"""The site: no page loads anything from another host, and each is readable in a browser, narrow and dark too.

NBCKPT_SITE names the folder that MkDocs made; `nox -s site` and `.ci/run site` make it.
See docs/decisions/0114.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from notebook.lab import PICTURES, browser, chromium
from servers.files import served_folder

__all__ = ["browser", "chromium"]  # fixtures

FOLDER = Path(os.environ.get("NBCKPT_SITE", "no site"))
HTML = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.html") if "lite" not in path.parts)
PAGES = [page for page in HTML if not re.match(r"404|decisions/0|(.*/)?lite/", page)]
LOADING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "srcset", "video": "src"}
WIDTHS = (400, 1400)
TASKS = {
    "save frame": "guides/save-and-restore.html",
    "resume after crash": "guides/search.html",
    "compare runs": "guides/reproduce-and-compare.html",
    "trust": "guides/trust.html",
    "ray tune": "coming-from/ray-tune.html",
    "log training loop": "guides/track.html",
    "undo cell": "guides/time-travel.html",
    "free disk space": "guides/storage.html",
}
"""What a reader types into the search, and the page that has the answer."""

needs_site = pytest.mark.skipif(not HTML, reason="needs NBCKPT_SITE, the folder of a built site")


class Links(HTMLParser):
    """What a page loads, and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("rel") not in {"canonical", "prev", "next"}:
            self.loads += filter(None, [values.get(LOADING.get(tag, ""))])
        if tag == "a":
            self.leads += filter(None, [values.get("href")])


def test_the_reader_of_pages_finds_what_they_load() -> None:
    links = Links('<script src="https://a/x.js"></script><img src="b.png"><a href="https://c">c</a>')
    assert links.loads == ["https://a/x.js", "b.png"]
    assert links.leads == ["https://c"]


@needs_site
def test_no_page_loads_anything_from_another_host() -> None:
    texts = {page: (FOLDER / page).read_text() for page in HTML}
    loads = {
        page: [url for url in Links(text).loads if re.match(r"(\w+:)?//", url)]
        for page, text in texts.items()
    }
    assert len(loads) > 50
    assert {page: urls for page, urls in loads.items() if urls} == {}
    styles = [path for path in FOLDER.rglob("*.css") if "lite" not in path.parts]
    assert [
        path.name for path in styles if re.search(r"(url\(|@import) *[\"']?(https?:)?//", path.read_text())
    ] == []


@needs_site
def test_every_file_that_a_page_loads_or_leads_to_is_there() -> None:
    for page in PAGES:
        links = Links((FOLDER / page).read_text())
        files = [
            re.sub(r"[?#].*", "", url) for url in links.loads + links.leads if not re.match(r"\w+:", url)
        ]
        assert [url for url in files if not ((FOLDER / page).parent / url).exists()] == [], page


@needs_site
def test_the_external_links_are_listed() -> None:
    links = {
        url for page in HTML for url in Links((FOLDER / page).read_text()).leads if url.startswith("http")
    }
    listed = "\n".join(sorted(links))
    (FOLDER.parent / "external-links.txt").write_text(f"{listed}\n")
    assert not [url for url in links if url.startswith("http://") and "localhost" not in url]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served_folder(FOLDER) as address:
        yield address


@needs_site
@pytest.mark.browser
@pytest.mark.timeout(900)  # more than fifty pages
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_each_page_fits_and_asks_no_other_host(
    browser: Browser, address: str, width: int, scheme: Any
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    wide = [name for name in PAGES if too_wide(page, f"{address}/{name}", picture(name, width, scheme))]
    page.close()
    assert len(asked) > len(PAGES) > 40
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    assert errors == []
    assert wide == []


def picture(name: str, width: int, scheme: str) -> Path:
    return PICTURES / "site-pages" / f"{name[:-5].replace('/', '-')}-{width}-{scheme}.png"


def too_wide(page: Page, address: str, picture: Path) -> bool:
    """Open a page and keep its picture; tell whether it is wider than the window."""
    page.goto(address)
    page.screenshot(path=picture)
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@needs_site
@pytest.mark.browser
def test_a_search_for_a_task_finds_its_guide_first(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    for words, guide in TASKS.items():
        page.goto(f"{address}/index.html")
        page.locator(".md-search__input").press_sequentially(words)
        first = page.locator(".md-search-result__item > a").first
        expect(first).to_have_attribute("href", re.compile(re.escape(f"/{guide}")))
    page.close()


@needs_site
@pytest.mark.browser
def test_every_page_leads_to_every_guide_with_one_click(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    for name in ("index.html", "commands.html", "coming-from/ray-tune.html"):
        page.goto(f"{address}/{name}")
        for guide in TASKS.values():
            expect(page.locator(f".md-nav--primary a[href$='{Path(guide).name}']").first).to_be_visible()
    page.close()
