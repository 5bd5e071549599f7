"""The panel without a browser: what its buttons ask, what it shows, and what it leaves behind."""

from __future__ import annotations

import threading
from typing import Any

import ipywidgets
import pytest

from nbckpt.notebook.magic import CheckpointMagics
from nbckpt.notebook.panel import Panel
from notebook.conftest import Notebook
from waiting import until

HOSTILE = "<img src=x onerror=alert(1)>"

TRAIN = """
import threading, nbckpt
gate = threading.Semaphore(0)
def train(config):
    start = nbckpt.get_checkpoint()
    for i in range(start.to_dict()["i"] if start else 0, 4):
        gate.acquire()
        nbckpt.report(loss=config["lr"] / (i + 1), checkpoint={"i": i + 1})
"""


def opened(notebook: Notebook, tab: str = "checkpoints") -> Any:
    """Show the panel and return its parts."""
    notebook.run(f"%ckpt panel {tab}")
    magics = notebook.shell.magics_manager.registry[CheckpointMagics.__name__]
    assert isinstance(magics._panel, Panel)
    return magics._panel


def below(widget: Any) -> list[Any]:
    return [widget, *(it for child in getattr(widget, "children", ()) for it in below(child))]


def press(panel: Any, name: str) -> None:
    """Press the button of this name in the tab that is in front."""
    front = panel._front.children[panel._front.selected_index]
    (button,) = [
        it for it in below(front) if getattr(it, "description", None) == name and hasattr(it, "click")
    ]
    button.click()


def shown(panel: Any) -> str:
    return " ".join(str(it.value) for it in below(panel.widget) if isinstance(it, ipywidgets.HTML))


def test_static_html_comes_first_and_then_the_panel(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    displayed: list[Any] = []
    monkeypatch.setattr("nbckpt.notebook.magic.display", displayed.append)
    notebook.run("x = 1\n%ckpt save one")
    panel = opened(notebook)
    assert [type(it).__name__ for it in displayed] == ["Listing", "Panel"]
    assert "application/vnd.jupyter.widget-view+json" in panel._repr_mimebundle_()
    assert "one@1" in shown(panel)


def test_the_filter_leaves_what_it_finds_in_names_messages_and_variables(notebook: Notebook) -> None:
    notebook.run("alpha = 1\n%ckpt save one alpha -m first")
    notebook.run("beta = 1\n%ckpt save two beta -m second")
    panel = opened(notebook)
    tab = panel._tabs[0]
    for wanted, left in [("ONE", "one@1: first"), ("second", "two@1: second"), ("beta", "two@1: second")]:
        tab._filter.value = wanted
        assert [label for label, _ in tab._chosen.options] == [left]
    tab._filter.value = "nothing of the kind"
    assert (tab._chosen.options, tab._chosen.value) == ((), None)


def test_a_restore_is_previewed_and_done_with_a_second_press(notebook: Notebook) -> None:
    notebook.run("x = 1\n%ckpt save one\nx = 2")
    panel = opened(notebook)
    press(panel, "Restore…")
    assert "would restore 1 variable" in shown(panel)
    assert notebook.names["x"] == 2
    press(panel, "Cancel")
    press(panel, "Restore…")
    press(panel, "Restore now")
    assert notebook.names["x"] == 1
    press(panel, "Undo")
    assert notebook.names["x"] == 2


def test_deleting_takes_two_presses_and_undo_brings_it_back(notebook: Notebook) -> None:
    notebook.run("x = 1\n%ckpt save one")
    panel = opened(notebook)
    press(panel, "Delete…")
    assert "one@1" in str(notebook.run("%ckpt ls"))
    press(panel, "Delete now")
    assert "no checkpoints" in str(notebook.run("%ckpt ls"))
    press(panel, "Undo")
    assert [label for label, _ in panel._tabs[0]._chosen.options] == ["one@1"]


def test_saving_and_naming_take_the_text_and_say_so_when_there_is_none(notebook: Notebook) -> None:
    notebook.run("x = 1")
    panel = opened(notebook)
    panel._tabs[0]._text.value = "clicked"
    press(panel, "Save")
    assert "saved clicked@1" in shown(panel)
    panel._tabs[0]._text.value = "best"
    press(panel, "Tag")
    assert "best@1" in str(notebook.run("%ckpt ls"))
    panel._tabs[0]._text.value = ""
    press(panel, "Export")
    assert "error: write the name or the file first" in shown(panel)


def test_an_error_is_one_line_in_the_panel(notebook: Notebook) -> None:
    panel = opened(notebook)
    press(panel, "Undo")
    assert "error: there is nothing to undo" in shown(panel)


def test_trials_are_followed_by_one_thread_that_ends_with_them(notebook: Notebook) -> None:
    notebook.run(TRAIN)
    notebook.run("%ckpt run train --grid lr=1,2 --name e --concurrent 2")
    panel = opened(notebook, "trials")
    assert [it.name for it in threading.enumerate()].count("nbckpt-panel") == 1
    notebook.run("gate.release(4)")
    press(panel, "Pause")
    notebook.run("gate.release(4)")
    until(lambda: "2 PAUSED" in shown(panel))
    until(lambda: "nbckpt-panel" not in [it.name for it in threading.enumerate()])
    press(panel, "Resume")
    notebook.run("gate.release(100)")
    until(lambda: "2 TERMINATED" in shown(panel))
    press(panel, "Best")
    assert "best of e by loss (min): e/t0" in shown(panel)
    assert panel._tabs[1]._trial.value == "t0"
    press(panel, "Show")
    assert "e/t0: TERMINATED" in shown(panel)
    press(panel, "Restore here")
    assert notebook.names["i"] == 4
    press(panel, "Curves")
    assert "loss of the trials of e" in shown(panel)
    until(lambda: "nbckpt-panel" not in [it.name for it in threading.enumerate()])


def test_stopping_takes_two_presses(notebook: Notebook) -> None:
    notebook.run(TRAIN)
    notebook.run("%ckpt run train lr=1 --name e")
    panel = opened(notebook, "trials")
    press(panel, "Stop…")
    press(panel, "Stop now")
    notebook.run("gate.release(1)")
    until(lambda: "1 TERMINATED" in shown(panel))
    until(lambda: "nbckpt-panel" not in [it.name for it in threading.enumerate()])


def test_the_sync_tab_sets_the_place_and_takes_it_away(notebook: Notebook, tmp_path: Any) -> None:
    notebook.run("x = 1\n%ckpt save one")
    panel = opened(notebook, "sync")
    press(panel, "Set")
    assert "error: write the place first" in shown(panel)
    panel._tabs[2]._url.value = str(tmp_path / "there")
    press(panel, "Set")
    until(lambda: "up to date" in shown(panel))
    press(panel, "Sync now")
    press(panel, "Off")
    assert "kept here only" in shown(panel)
    assert any((tmp_path / "there" / "checkpoints").glob("*.json"))
    until(lambda: "nbckpt-panel" not in [it.name for it in threading.enumerate()])


def test_a_hundred_panels_leave_no_more_widgets_or_threads_than_one(notebook: Notebook) -> None:
    notebook.run("x = 1\n%ckpt save one")
    opened(notebook)
    instances = ipywidgets.widgets.widget._instances
    before = len(instances)
    for _ in range(100):
        panel = opened(notebook)
        press(panel, "Restore…")
        press(panel, "Cancel")
    assert len(instances) == before
    notebook.run("%unload_ext nbckpt\n%load_ext nbckpt")
    assert len(instances) < before


def test_hostile_names_and_messages_are_text_in_every_view(notebook: Notebook) -> None:
    notebook.run(f"x = 1\n%ckpt save one -m '{HOSTILE}'")
    notebook.run(TRAIN + f"def fails(config): raise ValueError({HOSTILE!r})")
    notebook.run("%ckpt run fails --name e --wait")
    for tab in ("checkpoints", "trials"):
        panel = opened(notebook, tab)
        press(panel, "Show")
        assert "<img src=x" not in shown(panel)
        assert "&lt;img src=x" in shown(panel)
    panel._desk.say(HOSTILE, is_error=True)
    assert "<img src=x" not in panel._desk.message.value


def test_the_function_shows_the_panel_too(notebook: Notebook) -> None:
    notebook.run("import nbckpt\nnbckpt.panel('sync')")
    magics = notebook.shell.magics_manager.registry[CheckpointMagics.__name__]
    assert magics._panel._front.selected_index == 2


def test_there_are_three_tabs_and_no_other(notebook: Notebook) -> None:
    assert "there are checkpoints, trials, sync" in notebook.error("%ckpt panel nothing")
    panel = opened(notebook)
    assert [panel._front.get_title(at) for at in range(3)] == ["Checkpoints", "Trials", "Sync"]
    panel._front.selected_index = 1
    assert "no experiments yet" in shown(panel)
