"""The panel and the live table as widgets, and their static copies: what lasts, and how seldom it is made."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from comm import get_comm_manager

pytest.importorskip("ipywidgets", minversion="8")
pytest.importorskip("anywidget")

from nbckpt.core.history import History
from nbckpt.core.references import Entry
from nbckpt.notebook import static_copy
from nbckpt.notebook.live import View
from nbckpt.notebook.runner import CommandRunner
from nbckpt.notebook.widget.live_table import LiveTable
from nbckpt.notebook.widget.panel import WidgetPanel
from notebook.conftest import AUTO_ON, Notebook
from notebook.test_trials_live import Outputs, ended, join, made, outputs
from waiting import until

__all__ = ["outputs"]

RUN_OF_THREE = """
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
    notebook.run(RUN_OF_THREE)
    ran.clear()
    notebook.run("%ckpt panel")
    assert "trials -n 10" in ran


def test_the_line_of_the_copy_names_the_best_trial(notebook: Notebook, copy: Callable[[], str]) -> None:
    notebook.run(RUN_OF_THREE, "%ckpt panel trials")
    assert "Best: t0, loss 0.1429" in copy()


def test_the_best_trial_is_in_the_copy_if_not_all_fit(notebook: Notebook, copy: Callable[[], str]) -> None:
    notebook.run(RUN_OF_THREE.replace("[1, 2, 3]", "list(range(40, 0, -1))"), "%ckpt panel trials")
    html = copy()
    assert "Best: t39, loss 0.1429" in html
    assert "<td>t39</td>" in html
    assert "10 of 40 trials, the best by loss (min) first" in html


def test_a_cell_that_saves_nothing_runs_no_command(notebook: Notebook, ran: list[str]) -> None:
    notebook.run("a = 1")
    for pane in ("checkpoints", "trials", "history", "sync"):
        notebook.run(f"%ckpt panel {pane}")
        ran.clear()
        notebook.run("a += 1", "a += 1")
        assert ran == [], pane


def test_a_save_renews_the_copy(notebook: Notebook, copy: Callable[[], str]) -> None:
    notebook.run("a = 1", "%ckpt panel checkpoints", "%ckpt save kept")
    assert "kept@1" in copy()


def until_copied(copy: Callable[[], str], text: str) -> None:
    until(lambda: text in copy())
    until(lambda: "nbckpt-panel" not in [thread.name for thread in threading.enumerate()])


def test_the_copy_tells_the_end_of_trials_in_the_background(
    notebook: Notebook, copy: Callable[[], str]
) -> None:
    notebook.run(WAITS, "live = nbckpt.run(train, {'lr': nbckpt.grid_search([1, 2])}, name='back')")
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
    notebook.run(WAITS, "experiment = nbckpt.run(reports, {}, name='long');", "%ckpt panel")
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
    notebook.magics.panel.channel.hear({"kind": "follow", "pane": "checkpoints"}, [])
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
    notebook.run(f"text = 1\n%ckpt save text -m '{HOSTILE}'", FAILS, f"%ckpt panel {pane}")
    html = copy()
    assert "<img" not in html
    assert shown in html


RUN = "e = %ckpt run train --name e --grid lr=0.1,0.2"


def mounted(notebook: Notebook) -> list[LiveTable]:
    """Return the live tables that are open."""
    return [view.mounted for view in notebook.magics.live.mounted]


def table_of(notebook: Notebook) -> LiveTable:
    """Return the first live table, once it is there, with what it sends."""
    until(lambda: mounted(notebook))
    return mounted(notebook)[0]


def heard(table: LiveTable, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Let a table hear messages; return what it answers."""
    sent: list[dict[str, Any]] = []
    table.widget.send = lambda message, _: sent.append(message)
    for message in messages:
        table.channel.hear(message, [])
    return sent


FOLLOW = {"kind": "follow", "pane": "trials", "experiment": None, "metric": None}


def act(verb: str) -> dict[str, Any]:
    return {"kind": "act", "n": 1, "verb": verb, "ids": [], "options": {"experiment": "e"}, "pane": "trials"}


def test_a_run_shows_a_copy_and_the_place_of_its_table(notebook: Notebook, outputs: Outputs) -> None:
    notebook.run(RUN)
    copy, place = outputs[:2]
    assert "2 trials" in copy["data"]["text/plain"]
    assert list(place["data"]) == ["text/html"]
    (name,) = re.findall(r'^<div data-nbckpt-place="(\w+)"></div>$', place["data"]["text/html"])
    assert copy["data"]["text/html"].startswith(f'<div data-nbckpt-copy="{name}">')
    widget = table_of(notebook).widget
    assert (widget.form, widget.pane, widget.place) == ("live", "trials", name)
    ended(notebook)
    assert len(made(outputs)) == 2
    assert f'data-nbckpt-copy="{name}"' in outputs[-1]["data"]["text/html"]
    assert "2 trials, 2 done" in outputs[-1]["data"]["text/html"]


def test_the_table_shows_its_experiment_whatever_is_asked_for(notebook: Notebook, outputs: Outputs) -> None:
    notebook.run("%ckpt run train --name other;")
    other = table_of(notebook)  # each has a thread, so the second one may come first
    notebook.run(RUN)
    until(lambda: len(mounted(notebook)) == 2)
    (table,) = (table for table in mounted(notebook) if table is not other)
    for name in (None, "other"):
        trials = heard(table, FOLLOW | {"experiment": name})[0]
        assert (trials["experiment"], trials["total"]) == ("e", 2)


def test_a_pause_and_a_resume_in_the_table_are_followed(notebook: Notebook, outputs: Outputs) -> None:
    notebook.run(RUN)
    table = table_of(notebook)
    answers = heard(table, FOLLOW, act("pause"))
    (answer,) = [answer["text"] for answer in answers if answer["kind"] == "answer"]
    assert answer == "Pausing all trials of e."
    notebook.run("gate.release(2)")
    join()
    assert "2 paused" in outputs[-1]["data"]["text/plain"]
    heard(table, act("resume"))
    ended(notebook)
    assert "2 trials, 2 done" in outputs[-1]["data"]["text/plain"]
    assert len(made(outputs)) == 2


def test_trials_that_end_as_soon_as_they_resume_are_shown(notebook: Notebook, outputs: Outputs) -> None:
    notebook.run(RUN)
    table = table_of(notebook)
    (view,) = notebook.magics.live.mounted
    heard(table, FOLLOW, act("pause"))
    notebook.run("gate.release(2)")
    join()
    assert "2 paused" in outputs[-1]["data"]["text/plain"]
    notebook.run("gate.release(1000); e.resume(); assert e.wait()")
    notebook.magics.live.start(notebook.names["e"], view)  # the deed is over; so are the trials
    assert "2 done" in outputs[-1]["data"]["text/plain"]


@pytest.mark.parametrize("reason", ["NBCKPT_PANEL=core", "no anywidget", "old ipywidgets"])
def test_without_the_widget_the_output_is_updated_in_place(
    notebook: Notebook, outputs: Outputs, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    import ipywidgets

    if reason == "NBCKPT_PANEL=core":
        monkeypatch.setenv("NBCKPT_PANEL", "core")
    elif reason == "no anywidget":
        monkeypatch.setitem(sys.modules, "anywidget", None)
    else:
        monkeypatch.setattr(ipywidgets, "__version__", "7.8.5")
    notebook.run(RUN)
    ended(notebook)
    assert mounted(notebook) == []
    assert len(made(outputs)) == 1 + (reason == "old ipywidgets")  # which is seen only after the import
    assert "2 trials, 2 done" in outputs[-1]["data"]["text/html"]


def test_a_table_that_cannot_be_made_leaves_the_output(
    notebook: Notebook, outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no comm")

    monkeypatch.setattr(LiveTable, "__init__", fails)
    notebook.run(RUN)
    until(lambda: not notebook.magics.live.views[notebook.names["e"]][0].is_new)
    ended(notebook)
    assert "2 trials, 2 done" in outputs[-1]["data"]["text/html"]


def test_an_experiment_of_another_folder_has_no_buttons(
    notebook: Notebook, outputs: Outputs, tmp_path: Any
) -> None:
    """Commands would not reach it, or would reach another one of the same name."""
    notebook.run(f"e = nbckpt.run(train, {{}}, name='e', folder={str(tmp_path / 'far')!r})\ne")
    until(lambda: not notebook.magics.live.views[notebook.names["e"]][0].is_new)
    assert mounted(notebook) == []


def test_what_has_ended_and_other_tables_have_no_widget(notebook: Notebook, outputs: Outputs) -> None:
    notebook.run(RUN)
    table_of(notebook)
    outputs.clear()
    notebook.run("%ckpt trials --sort best")
    ended(notebook)
    notebook.run("e")
    assert len(mounted(notebook)) == 1
    assert not any("nbckpt-place" in output["data"].get("text/html", "") for output in outputs)


@pytest.mark.slow
def test_a_cell_that_runs_again_closes_its_former_table(
    notebook: Notebook, outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook.shell, "get_parent", lambda: {"metadata": {"cellId": "a"}}, raising=False)
    notebook.run(RUN)
    first = table_of(notebook)
    notebook.run("e")
    until(lambda: mounted(notebook) and mounted(notebook)[0] is not first)
    assert first.widget.comm is None
    assert len(mounted(notebook)) == 1


@pytest.mark.slow
def test_runs_that_follow_each_other_quickly_have_one_table(
    notebook: Notebook, outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook.run(RUN)
    table_of(notebook)
    monkeypatch.setattr(notebook.shell, "get_parent", lambda: {"metadata": {"cellId": "a"}}, raising=False)
    for _ in range(6):
        notebook.run("e")
    views = notebook.magics.live.views[notebook.names["e"]]
    until(lambda: views[-1].mounted)
    assert [bool(view.mounted) for view in views] == [True, *[False] * 5, True]


@pytest.mark.slow
def test_four_tables_stay_and_none_after_the_extension(notebook: Notebook, outputs: Outputs) -> None:
    comms = get_comm_manager().comms
    before = len(comms)
    notebook.run(RUN)
    first = table_of(notebook)
    for _ in range(6):
        notebook.run("e")
    views = notebook.magics.live.views[notebook.names["e"]]
    until(lambda: all(view.mounted for view in views[-4:]) and first.widget.comm is None)
    assert len(mounted(notebook)) == 4
    ended(notebook)
    notebook.run("%unload_ext nbckpt")
    assert len(comms) == before
    notebook.run("%load_ext nbckpt")


def test_a_hidden_copy_is_renewed_every_two_seconds(notebook: Notebook, outputs: Outputs) -> None:
    from nbckpt.notebook.widget.place import Place

    times = iter((0.0, 0.25, 0.5, 1.9, 2.0, 2.0, 2.25, 4.0, 4.0, 4.1, 4.2, 4.3))
    inside = SimpleNamespace(version=0)
    experiment: Any = SimpleNamespace(_internals=inside)
    view = View(notebook.run("%ckpt help"), experiment, Place(line=""), lambda: next(times))
    view.show()
    outputs.clear()
    watched = SimpleNamespace(is_watched=lambda: True)
    view.mounted = watched  # type: ignore[assignment]
    for _ in range(6):  # 0.25, 0.5, 1.9, 2, 2.25 and 4 seconds after the first
        inside.version += 1
        view.tick()
    assert len(outputs) == 2
    watched.is_watched = lambda: False
    for _ in range(3):  # nobody looks: the copy is what people see
        inside.version += 1
        view.tick()
    assert len(outputs) == 5


def test_captured_output_is_not_shown_elsewhere(notebook: Notebook, outputs: Outputs) -> None:
    outputs.clear()
    notebook.run("%%capture caught\ne = nbckpt.run(train, {}, name='e')\ndisplay(e)")
    assert not made(outputs)
    assert len(notebook.names["caught"].outputs) == 2
