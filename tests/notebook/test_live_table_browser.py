"""The live table in real front ends: while trials run, after them, and when the kernel is gone."""

from __future__ import annotations

import ast

import pytest
from playwright.sync_api import Locator, expect

from notebook.lab import LAB, NOTEBOOK, Lab, page_errors, pictures, text_of

pytestmark = pytest.mark.browser

BEGIN = """
%load_ext nbckpt
import os, threading, time, nbckpt
os.environ["NBCKPT_PANEL"] = ""
gate = threading.Semaphore(4)
def train(config):
    for step in range(6):
        assert gate.acquire(timeout=3000)
        nbckpt.report(loss=1 / (step + 1), checkpoint={"i": step})
"""
RUN = "%ckpt run train --name {} --grid lr=0.1,0.01"
GO_ON = "gate.release(1000)"


def begun(lab: Lab, name: str, *cells: str, front_end: str = LAB) -> Locator:
    """Open a notebook and run two trials, which wait; return the output, with its live table.

    The experiment has the name of the notebook: others may still run.
    """
    output = lab.opened(f"{name}.ipynb", BEGIN, RUN.format(name), *cells, front_end=front_end, run=2)
    expect(output.get_by_role("row").filter(has_text="t0")).to_contain_text("Running")
    return output


def shows_the_copy(output: Locator, text: str) -> None:
    """Check that the copy is all that is there, with this text."""
    expect(output.locator("[data-nbckpt-copy]")).to_be_visible()
    expect(output).to_contain_text(text)
    expect(output.locator(".nb-small")).to_have_count(0)
    expect(output.get_by_text("Error displaying widget")).to_have_count(0)


@pytest.mark.parametrize("front_end", [LAB, NOTEBOOK])
def test_trials_are_paused_resumed_and_seen_to_their_end(lab: Lab, front_end: str) -> None:
    errors = page_errors(lab.own_page())
    name = front_end.partition("/")[0]
    output = begun(lab, name, GO_ON, front_end=front_end)
    expect(output.locator("[data-nbckpt-copy]")).to_be_hidden()
    output.get_by_role("button", name="Pause all").click()
    expect(output).to_contain_text(f"Pausing all trials of {name}.")
    lab.run(2)
    output.get_by_role("button", name="Resume 2").click()
    expect(output).to_contain_text("All trials have ended.")
    expect(output.get_by_role("row").filter(has_text="t1")).to_contain_text("Done")
    expect(output.locator("[data-nbckpt-copy]")).to_contain_text("2 trials, 2 done")
    assert errors == []


def test_stop_asks_first_and_is_heard_while_the_cell_waits(lab: Lab) -> None:
    lab.open("waits.ipynb", BEGIN, f"{RUN.format('waits')} --wait")
    lab.run(0)
    output = lab.start(1)
    output.get_by_role("button", name="Stop…").click()
    output.get_by_role("button", name="Stop all").click()
    expect(output).to_contain_text("Stopping all trials of waits.")
    pictures(lab, "live-table")


def test_after_the_kernel_was_killed_the_copy_is_there(lab: Lab) -> None:
    output = begun(lab, "killed", "os.kill(os.getpid(), 9)")
    expect(output.locator("[data-nbckpt-copy]")).to_contain_text("2 trials, 2 running")
    lab.start(2)
    shows_the_copy(output, "2 trials, 2 running")


def test_a_reopened_notebook_shows_the_copy_alone(lab: Lab) -> None:
    output = begun(lab, "reopened", GO_ON)
    lab.run(2)
    expect(output).to_contain_text("All trials have ended.")
    expect(output.locator("[data-nbckpt-copy]")).to_contain_text("2 trials, 2 done")
    lab.command("docmanager:save")
    lab.restart()
    shows_the_copy(output, "2 trials, 2 done")
    lab.enter("reopened.ipynb")
    shows_the_copy(lab.output(1), "2 trials, 2 done")


HELD = """
from ipywidgets.widgets.widget import _instances
import comm
def held():
    names = [thread.name for thread in threading.enumerate()]
    threads = [names.count(f"nbckpt-{name}") for name in ("live", "panel")]
    return len(_instances), len(comm.get_comm_manager().comms), threads
print(held())
"""


@pytest.mark.slow
def test_a_cell_that_runs_again_has_one_live_table(lab: Lab) -> None:
    lab.open("again.ipynb", BEGIN, f"again = {RUN.format('again')}", "again", HELD)
    lab.run(0)
    lab.run(1).locator(".nb-small").wait_for()
    output = lab.run(2)
    output.locator(".nb-small").wait_for()
    widgets, comms, _ = ast.literal_eval(text_of(lab.run(3)))
    for _ in range(20):
        lab.run(2)
    output.locator(".nb-small").wait_for()
    expect(lab.page.locator(".nb-small")).to_have_count(2)
    left = ast.literal_eval(text_of(lab.run(3)))
    assert left[:2] == (widgets, comms)
    # One thread follows, and each of the two tables has one, which ends while it has nothing to do.
    assert all(map(int.__le__, left[2], (1, 2)))


FAST = """
from nbckpt.notebook.widget.mounted import Mounted
sent, send = [], Mounted.send
def counted(self, content, buffers=None):
    sent.append(content["kind"])
    send(self, content, buffers)
Mounted.send = counted
def fast(config):
    for i in range(4000):
        nbckpt.report(loss=1 / (i + 1))
        time.sleep(0.001)
began = time.monotonic()
"""
COUNTED = "[kind for kind in sent if kind in {'trials', 'sparks', 'points'}]"


def test_a_thousand_reports_a_second_send_four_messages(lab: Lab) -> None:
    run = "%ckpt run fast --name fast --wait\nseconds = time.monotonic() - began"
    lab.opened("fast.ipynb", BEGIN, FAST, run, f"print(seconds, len({COUNTED}))", run=2)
    expect(lab.run(2)).to_contain_text("All trials have ended.")
    seconds, messages = map(float, text_of(lab.run(3)).split())
    full = 3  # the table came into sight
    assert 3 <= messages <= 4 * (seconds + 3) + full
