"""The live table below the cell that runs an experiment: a widget below a copy, which lasts."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from comm import get_comm_manager

pytest.importorskip("ipywidgets", minversion="8")
pytest.importorskip("anywidget")

from nbckpt.notebook.live import View
from nbckpt.notebook.magic import CheckpointMagics
from nbckpt.notebook.widget.live_table import LiveTable
from notebook.conftest import Notebook
from notebook.test_trials_live import Outputs, ended, join, made, outputs
from waiting import until

RUN = "e = %ckpt run train --name e --grid lr=0.1,0.2"


__all__ = ["outputs"]


@pytest.fixture(autouse=True)
def _tables(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let live tables be shown."""
    monkeypatch.delenv("NBCKPT_PANEL")


def live_of(notebook: Notebook) -> Any:
    return notebook.shell.magics_manager.registry[CheckpointMagics.__name__].live


def mounted(notebook: Notebook) -> list[LiveTable]:
    """Return the live tables that are open."""
    return [view.mounted for view in live_of(notebook).mounted]


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
    assert [answer["text"] for answer in answers if answer["kind"] == "answer"] == [
        "Pausing all trials of e."
    ]
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
    (view,) = live_of(notebook).mounted
    heard(table, FOLLOW, act("pause"))
    notebook.run("gate.release(2)")
    join()
    assert "2 paused" in outputs[-1]["data"]["text/plain"]
    notebook.run("gate.release(1000); e.resume(); assert e.wait()")
    live_of(notebook).start(notebook.names["e"], view)  # the deed is over; so are the trials
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
    until(lambda: not live_of(notebook).views[notebook.names["e"]][0].is_new)
    ended(notebook)
    assert "2 trials, 2 done" in outputs[-1]["data"]["text/html"]


def test_an_experiment_of_another_folder_has_no_buttons(
    notebook: Notebook, outputs: Outputs, tmp_path: Any
) -> None:
    """Commands would not reach it, or would reach another one of the same name."""
    notebook.run(f"e = nbckpt.run(train, {{}}, name='e', folder={str(tmp_path / 'far')!r})\ne")
    until(lambda: not live_of(notebook).views[notebook.names["e"]][0].is_new)
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
    views = live_of(notebook).views[notebook.names["e"]]
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
    views = live_of(notebook).views[notebook.names["e"]]
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
