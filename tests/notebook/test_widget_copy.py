"""The static copy of the panel: its first line, and how seldom it is made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("ipywidgets", minversion="8")
pytest.importorskip("anywidget")

from nbckpt.core.history import History
from nbckpt.core.references import Entry
from nbckpt.notebook import static_copy
from nbckpt.notebook.magic import CheckpointMagics
from nbckpt.notebook.runner import CommandRunner
from nbckpt.notebook.widget.panel import WidgetPanel
from notebook.conftest import AUTO_ON, Notebook
from waiting import until

RUN = """
import nbckpt
def train(config):
    if config["lr"] == 3:
        nbckpt.report({"loss": 0.001})
        raise ValueError("diverged")
    nbckpt.report({"loss": config["lr"] / 7})
_ = nbckpt.run(train, {"lr": nbckpt.grid_search([1, 2, 3])}, name="tune", executor="inline")
"""
WAITS = """
import nbckpt, threading, time
gate = threading.Semaphore(0)
def train(config):
    nbckpt.report(loss=config["lr"])
    assert gate.acquire(timeout=60)
def reports(config):
    for step in range(30):
        nbckpt.report(loss=step)
        time.sleep(0.1)
"""


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that the panel ran."""
    words: list[str] = []
    run = CommandRunner.run

    def noted(self: CommandRunner, *command: str, **more: Any) -> Any:
        words.append(" ".join(command))
        return run(self, *command, **more)

    monkeypatch.setattr(CommandRunner, "run", noted)
    return words


@pytest.fixture(autouse=True)
def copy(published: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Ask for the panel as one widget; return what returns its newest copy."""
    monkeypatch.setenv("NBCKPT_PANEL", "widget")

    def newest() -> str:
        copies = [output["data"].get("text/html", "") for output in published]
        return str([html for html in copies if "data-nbckpt-copy" in html][-1])

    return newest


def test_trials_are_in_front_if_there_are_some(notebook: Notebook, ran: list[str]) -> None:
    notebook.run("%ckpt panel")
    assert ran == ["ls -n 10"]
    notebook.run(RUN)
    ran.clear()
    notebook.run("%ckpt panel")
    assert "trials -n 10" in ran


def test_the_line_of_the_copy_names_the_best_trial(notebook: Notebook, copy: Callable[[], str]) -> None:
    notebook.run(RUN)
    notebook.run("%ckpt panel trials")
    assert "Best: t0, loss 0.1429" in copy()


def test_the_best_trial_is_in_the_copy_if_not_all_fit(notebook: Notebook, copy: Callable[[], str]) -> None:
    notebook.run(RUN.replace("[1, 2, 3]", "list(range(40, 0, -1))"))
    notebook.run("%ckpt panel trials")
    html = copy()
    assert "Best: t39, loss 0.1429" in html
    assert "<td>t39</td>" in html
    assert "10 of 40 trials, the best by loss (min) first" in html


def test_a_cell_that_saves_nothing_runs_no_command(notebook: Notebook, ran: list[str]) -> None:
    notebook.run("a = 1")
    for pane in ("checkpoints", "trials", "history", "sync"):
        notebook.run(f"%ckpt panel {pane}")
        ran.clear()
        notebook.run("a += 1")
        notebook.run("a += 1")
        assert ran == [], pane


def test_a_save_renews_the_copy(notebook: Notebook, copy: Callable[[], str]) -> None:
    notebook.run("a = 1")
    notebook.run("%ckpt panel checkpoints")
    notebook.run("%ckpt save kept")
    assert "kept@1" in copy()


def until_copied(copy: Callable[[], str], text: str) -> None:
    until(lambda: text in copy())
    until(lambda: "nbckpt-panel" not in [thread.name for thread in threading.enumerate()])


def test_the_copy_tells_the_end_of_trials_in_the_background(
    notebook: Notebook, copy: Callable[[], str]
) -> None:
    notebook.run(WAITS)
    notebook.run("live = nbckpt.run(train, {'lr': nbckpt.grid_search([1, 2])}, name='back')")
    until(lambda: [trial.status for trial in notebook.names["live"].trials] == ["RUNNING"] * 2)
    notebook.run("%ckpt panel")
    assert "2 running" in copy()
    notebook.names["gate"].release(2)  # no later cell, and no browser
    until_copied(copy, "2 done")


def test_a_long_run_renews_the_copy_once_a_period_at_most(
    notebook: Notebook,
    published: list[dict[str, Any]],
    copy: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(static_copy, "PERIOD_S", 1.0)
    notebook.run(WAITS)
    notebook.run("experiment = nbckpt.run(reports, {}, name='long');")
    notebook.run("%ckpt panel")
    before, began = len(published), time.monotonic()
    until_copied(copy, "1 done")
    assert 1 < len(published) - before <= 3 + (time.monotonic() - began) / static_copy.PERIOD_S


def test_a_turn_to_another_tab_renews_the_copy(
    notebook: Notebook,
    published: list[dict[str, Any]],
    ran: list[str],
    copy: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(static_copy, "PERIOD_S", 0.5)
    notebook.run("kept_value = 1\n%ckpt save kept\n%ckpt panel sync")
    assert "not synced" in copy()
    panel = notebook.shell.magics_manager.registry[CheckpointMagics.__name__].panel
    panel.channel.hear({"kind": "follow", "pane": "checkpoints"}, [])
    until(lambda: "kept@1" in copy())
    before = len(published), len(ran)
    time.sleep(static_copy.PERIOD_S + 0.5)  # a browser looks, and nothing changes
    assert (len(published), len(ran)) == before


def test_a_tab_that_is_not_there_is_refused() -> None:
    with pytest.raises(Exception, match="there is no tab 'x'"):
        WidgetPanel(lambda: pytest.fail("no session is needed"), lambda: False, "x")


SHOWN = 10
"""The rows of a copy."""


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the manifests that were read."""
    ids: list[str] = []
    look = History.read

    def noted(self: History, entry: Entry) -> Any:
        ids.append(entry.id)
        return look(self, entry)

    monkeypatch.setattr(History, "read", noted)
    return ids


def test_a_copy_of_checkpoints_reads_the_rows_that_it_shows(
    notebook: Notebook, read: list[str], copy: Callable[[], str]
) -> None:
    for step in range(3 * SHOWN):
        notebook.run(f"step = {step}\n%ckpt save step")
    read.clear()
    notebook.run("%ckpt panel checkpoints")
    assert len(read) == SHOWN
    assert "30 checkpoints" in copy()


def test_a_copy_of_history_reads_the_rows_that_it_shows(
    notebook: Notebook, read: list[str], copy: Callable[[], str]
) -> None:
    notebook.run(AUTO_ON)
    for step in range(3 * SHOWN):
        notebook.run(f"step = {step}")
    notebook.run("%ckpt history")  # the last point is written
    read.clear()
    notebook.run("%ckpt panel history")
    assert len(set(read)) <= SHOWN + 1  # and where the variables are
    assert "older in the store" in copy()


HOSTILE = "</pre></details><img src=x onerror=alert(1)>"
FAILS = f"""
import nbckpt
def train(config):
    nbckpt.report({{"loss": 1.0, {HOSTILE!r}: 2.0}})
    raise ValueError({HOSTILE!r})
_ = nbckpt.run(train, {{"name": {HOSTILE!r}}}, name="tune", metric="loss", executor="inline")
%ckpt note tune/t0 "{HOSTILE}"
"""


@pytest.mark.parametrize(
    ("pane", "shown"), [("checkpoints", "&lt;/pre&gt;&lt;/details&gt;"), ("trials", "onerror=alert(1)&gt;")]
)
def test_hostile_texts_are_no_markup_in_a_copy(
    notebook: Notebook, copy: Callable[[], str], pane: str, shown: str
) -> None:
    notebook.run(f"text = 1\n%ckpt save text -m '{HOSTILE}'")
    notebook.run(FAILS)
    notebook.run(f"%ckpt panel {pane}")
    html = copy()
    assert "<img" not in html
    assert shown in html
