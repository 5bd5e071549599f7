"""The static copy of the panel: its first line, and how seldom it is made."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ipywidgets", minversion="8")
pytest.importorskip("anywidget")

from nbckpt.core.history import History
from nbckpt.core.references import Entry
from nbckpt.notebook.runner import CommandRunner
from nbckpt.notebook.widget.panel import WidgetPanel
from notebook.conftest import AUTO_ON, Notebook

RUN = """
import nbckpt
def train(config):
    if config["lr"] == 3:
        nbckpt.report({"loss": 0.001})
        raise ValueError("diverged")
    nbckpt.report({"loss": config["lr"] / 7})
_ = nbckpt.run(train, {"lr": nbckpt.grid_search([1, 2, 3])}, name="tune", executor="inline")
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
    monkeypatch.setenv("NBCKPT_PANEL", "widget")
    return words


def copy_of(published: list[dict[str, Any]]) -> str:
    copies = [output["data"].get("text/html", "") for output in published]
    return str([html for html in copies if "data-nbckpt-copy" in html][-1])


def test_trials_are_in_front_if_there_are_some(
    notebook: Notebook, published: list[dict[str, Any]], ran: list[str]
) -> None:
    notebook.run("%ckpt panel")
    assert ran == ["ls -n 10"]
    notebook.run(RUN)
    ran.clear()
    notebook.run("%ckpt panel")
    assert "trials -n 10" in ran


def test_the_line_of_the_copy_names_the_best_trial(
    notebook: Notebook, published: list[dict[str, Any]], ran: list[str]
) -> None:
    notebook.run(RUN)
    notebook.run("%ckpt panel trials")
    assert "Best: t0, loss 0.1429" in copy_of(published)


def test_a_cell_that_saves_nothing_runs_no_command(
    notebook: Notebook, published: list[dict[str, Any]], ran: list[str]
) -> None:
    notebook.run("a = 1")
    for pane in ("checkpoints", "trials", "history", "sync"):
        notebook.run(f"%ckpt panel {pane}")
        ran.clear()
        notebook.run("a += 1")
        notebook.run("a += 1")
        assert ran == [], pane


def test_a_save_renews_the_copy(notebook: Notebook, published: list[dict[str, Any]], ran: list[str]) -> None:
    notebook.run("a = 1")
    notebook.run("%ckpt panel checkpoints")
    notebook.run("%ckpt save kept")
    assert "kept@1" in copy_of(published)


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
    monkeypatch.setenv("NBCKPT_PANEL", "widget")
    return ids


def test_a_copy_of_checkpoints_reads_the_rows_that_it_shows(
    notebook: Notebook, published: list[dict[str, Any]], read: list[str]
) -> None:
    for step in range(3 * SHOWN):
        notebook.run(f"step = {step}\n%ckpt save step")
    read.clear()
    notebook.run("%ckpt panel checkpoints")
    assert len(read) == SHOWN
    assert "30 checkpoints" in copy_of(published)


def test_a_copy_of_history_reads_the_rows_that_it_shows(
    notebook: Notebook, published: list[dict[str, Any]], read: list[str]
) -> None:
    notebook.run(AUTO_ON)
    for step in range(3 * SHOWN):
        notebook.run(f"step = {step}")
    notebook.run("%ckpt history")  # the last point is written
    read.clear()
    notebook.run("%ckpt panel history")
    assert len(set(read)) <= SHOWN + 1  # and where the variables are
    assert "older in the store" in copy_of(published)
