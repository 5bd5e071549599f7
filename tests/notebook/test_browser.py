"""nbckpt in a real JupyterLab, driven through a real browser."""

from __future__ import annotations

import pytest

from notebook.lab import Lab, pictures

pytestmark = pytest.mark.browser

BADGE = ".jp-Completer-typeExtended"

HOSTILE = "<img src=x onerror=\"window.hacked='yes'\">"
HOSTILE_CELL = f"""
Hostile = type({HOSTILE!r}, (), {{"__repr__": lambda self: {HOSTILE!r}}})
hostile = Hostile()
%ckpt save hostile hostile -m '<script>window.hacked="yes"</script>'
"""


def test_a_checkpoint_is_listed_and_restored_after_a_restart(lab: Lab) -> None:
    lab.open(
        "restart.ipynb",
        "%load_ext nbckpt",
        "import numpy\nsquares = numpy.arange(1000) ** 2\nname = 'digits'",
        "%ckpt save cleaned -m 'after cleaning'",
        "%ckpt ls",
        "%ckpt restore cleaned",
        "print(name, int(squares[-1]))",
    )
    lab.run(0)
    lab.run(1)
    assert "Saved cleaned@1" in lab.run(2).inner_text()
    lab.restart()
    lab.run(0)
    table = lab.run(3).locator("table")
    assert table.locator("caption").count() == 1
    assert table.locator("th[scope=col]").count() >= 5
    assert "cleaned@1" in table.locator("th[scope=row]").inner_text()
    lab.run(4)
    assert lab.run(5).inner_text().strip() == "digits 998001"
    pictures(lab, "restart")


def test_tab_offers_verbs_and_references_with_our_badge(lab: Lab) -> None:
    lab.open(
        "complete.ipynb",
        "%load_ext nbckpt\nnumber = 1",
        "%ckpt save cleaned",
        "%ckpt res",
        "%ckpt show cle",
    )
    lab.run(0)
    lab.run(1)
    assert lab.complete(2) == {"restore": "nbckpt", "resume": "nbckpt"}
    lab.page.keyboard.press("Escape")
    offered = lab.complete(3)
    assert {"cleaned", "cleaned@1"} <= offered.keys()
    assert set(offered.values()) == {"nbckpt"}


def test_hostile_html_is_shown_as_text(lab: Lab) -> None:
    lab.open("hostile.ipynb", "%load_ext nbckpt", HOSTILE_CELL, "%ckpt ls hostile", "%ckpt show hostile")
    lab.run(0)
    lab.run(1)
    assert "<script>" in lab.run(2).inner_text()
    assert HOSTILE in lab.run(3).inner_text()
    assert lab.page.locator(".jp-OutputArea img[src=x], .jp-OutputArea script").count() == 0
    assert lab.page.evaluate("window.hacked") is None
    pictures(lab, "hostile")


TRAIN = """import threading, nbckpt
gate = threading.Semaphore(0)
def train(config):
    start = nbckpt.get_checkpoint()
    for i in range(start.to_dict()["i"] if start else 0, 40):
        gate.acquire()
        if config["lr"] == 1.0 and i == 9:
            raise ValueError("loss is <b>nan</b> & gone")
        loss = config["lr"] + 2 / (i + 1) + 0.05 * (i % 3)
        checkpoint = {"i": i + 1} if i % 4 == 3 else None
        nbckpt.report(loss=loss, accuracy=1 - loss / 4, norm=1e3 * i, checkpoint=checkpoint)
def let(n):
    gate.release(n)"""


def test_the_table_of_the_cell_follows_a_paused_and_resumed_grid(lab: Lab) -> None:
    lab.open(
        "trials.ipynb",
        f"%load_ext nbckpt\n{TRAIN}",
        "%ckpt run train --grid lr=0.1,0.3,1.0 --grid optimizer='sgd','adam' --name grid --concurrent 6 "
        "--metric loss --mode min",
        "let(24)",
        "%ckpt pause grid",
        "let(30)",
        "%ckpt resume",
        "let(1000)",
        "%ckpt best",
        "%ckpt restore t0@8",
        "print(i)",
    )
    lab.run(0)
    table = lab.run(1).locator("table")
    assert table.locator("tbody tr").count() == 6
    lab.run(2)
    table.locator("text=@4").first.wait_for()
    assert "running" in table.inner_text()
    assert table.locator("img[src^='data:image/svg+xml']").count() >= 6
    pictures(lab, "trials-running")
    assert "Pausing t0, t1, t2, t3, t4, t5 of grid" in lab.run(3).inner_text()
    lab.run(4)
    lab.output(1).locator("text=Resume: %ckpt resume grid").wait_for()
    assert "running" not in table.inner_text()
    pictures(lab, "trials-paused")
    second = lab.run(5)
    lab.run(6)
    second.locator("text=6 trials, 4 done, 2 failed").wait_for()
    fold = second.locator("details").first
    assert "ValueError: loss is <b>nan</b> & gone" in fold.locator("summary").inner_text()
    fold.locator("summary").click()
    assert "Traceback" in fold.locator("pre").inner_text()
    assert second.locator("div.nbckpt").evaluate("it => it.scrollWidth <= it.clientWidth")
    pictures(lab, "trials-ended")
    assert "Best of grid by loss (min): grid/t" in lab.run(7).inner_text()
    assert "Restored 1 variable from grid/t0@8" in lab.run(8).inner_text()
    assert lab.run(9).inner_text().strip() == "8"
    pictures(lab, "trials-best")
    assert lab.output(1).locator(".jp-OutputArea-child").count() == 1
