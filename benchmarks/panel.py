"""Panel: the longest task of the page's main thread while 10,000 trials are sorted, selected and filtered."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from benchmarks.process import REPOSITORY
from benchmarks.suite import OURS
from nbckpt.notebook.widget.parts import front_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.suite import Bench, Measured

WORKLOAD = "panel"
"""The name of the workload in the measurements."""
SORTED = "a plain sort"
TRIALS = 10_000
QUICK_TRIALS = 1_000
TASKS = ("sort", "select", "filter")

_LEAST_MS = 50
"""Browsers tell of no shorter task, so this is the most that a task took of which they tell nothing."""
_ADDRESS = "http://panel.test/tests/front/page.html"
_KINDS = {".js": "text/javascript", ".mjs": "text/javascript", ".html": "text/html", ".css": "text/css"}
_OBSERVE = """() => {
  globalThis.tasks = [];
  const told = (list) => tasks.push(...list.getEntries().map((entry) => entry.duration));
  new PerformanceObserver(told).observe({ type: "longtask" });
}"""
_SETTLED = """() => new Promise((done) =>
  requestIdleCallback(() => requestAnimationFrame(() => setTimeout(done, 100))))"""
_PLAIN = """(count) => {
  const rows = Array.from({ length: count }, (_, n) => ({ id: `t${(n * 7919) % count}`, value: n / 7 }));
  const natural = new Intl.Collator("en", { numeric: true });
  const began = performance.now();
  rows.sort((a, b) => natural.compare(a.id, b.id));
  const table = document.createElement("table");
  for (const row of rows.slice(0, 40)) {
    const line = table.insertRow();
    for (let at = 0; at < 10; at += 1) line.insertCell().textContent = `${row.id} ${row.value.toFixed(at)}`;
  }
  document.body.append(table);
  table.getBoundingClientRect();
  const took = performance.now() - began;
  table.remove();
  return took;
}"""


def measure(bench: Bench, trials: int) -> None:
    """Measure the longest tasks, and a plain sort with a plain table as the floor. Add their times.

    Args:
        bench: Where and how to measure.
        trials: The number of trials.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        bench.say("panel: not measured, because playwright is not installed")
        return
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for _ in bench.each_round("panel"):
            with _opened(browser, trials) as page:
                _round(bench.measured, page, trials)
        browser.close()


def _round(measured: Measured, page: Any, trials: int) -> None:
    deeds = {
        "sort": lambda: page.get_by_role("columnheader", name="lr").click(),
        "select": lambda: page.locator(".nb-check").nth(3).click(),
        "filter": lambda: page.get_by_label("Find trials").fill("adamw"),
    }
    for task in TASKS:
        floor = page.evaluate(_PLAIN, trials)
        page.evaluate("tasks.length = 0")
        deeds[task]()
        page.evaluate(_SETTLED)
        longest = max([_LEAST_MS, *page.evaluate("tasks")])
        measured.seconds[WORKLOAD, SORTED, task].append(floor / 1000)
        measured.seconds[WORKLOAD, OURS, task].append(longest / 1000)


@contextmanager
def _opened(browser: Any, trials: int) -> Iterator[Any]:
    """Open the panel with a kernel that is none."""
    page = browser.new_page(viewport={"width": 1232, "height": 760})
    page.route("http://panel.test/**", _give)
    parts = ",".join(json.loads(front_parts()["names.json"]))
    page.goto(f"{_ADDRESS}?parts={parts}&count={trials}")
    page.get_by_text(f"All {trials:,}").wait_for()
    page.locator("canvas").wait_for()
    page.evaluate(_SETTLED)
    page.evaluate(_OBSERVE)
    yield page
    page.close()


def _give(route: Any) -> None:
    file = REPOSITORY / urlsplit(route.request.url).path.lstrip("/")
    route.fulfill(body=file.read_bytes(), content_type=_KINDS.get(file.suffix, "text/plain"))
