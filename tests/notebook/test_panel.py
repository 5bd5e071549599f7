"""The panel without a browser: what its buttons ask, what it shows, and what it leaves behind."""

from __future__ import annotations

import re
import sys
import threading
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import ipywidgets
import pytest
from comm import get_comm_manager

from attack import share
from nbckpt import Tracker
from nbckpt.notebook import panels
from nbckpt.notebook.panels import Panel, controller
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.engine import shutdown
from notebook.conftest import Notebook
from waiting import until

ASKED = """
import threading, nbckpt
gate = threading.Semaphore(0)
def train(config):
    for i in range(4):
        gate.acquire()
        nbckpt.report(loss=i, checkpoint={"i": i} if nbckpt.should_checkpoint() else None)
"""

HOSTILE = "<img src=x onerror=alert(1)>"

TRAIN = """
import threading, nbckpt
class Gate:
    def __init__(self):
        self.of = {lr: threading.Semaphore(0) for lr in (1, 2)}
    def release(self, number):
        for it in self.of.values():
            it.release(number)
gate = Gate()
def train(config):
    start = nbckpt.get_checkpoint()
    for i in range(start.to_dict()["i"] if start else 0, 4):
        gate.of[config["lr"]].acquire()
        nbckpt.report(loss=config["lr"] / (i + 1), checkpoint={"i": i + 1})
"""


def opened(notebook: Notebook, *cells: str, tab: str = "checkpoints") -> Any:
    """Run cells, show the panel and return it."""
    notebook.run(*cells, f"%ckpt panel {tab}")
    assert isinstance(notebook.magics.panel, Panel)
    return notebook.magics.panel


def below(widget: Any) -> list[Any]:
    return [widget, *(inner for child in getattr(widget, "children", ()) for inner in below(child))]


def press(panel: Any, name: str) -> None:
    """Press the button of this name that is seen in the tab in front."""
    front = panel.front.children[panel.front.selected_index]
    buttons = (widget for widget in seen(front) if isinstance(widget, ipywidgets.Button))
    (button,) = [button for button in buttons if button.description == name]
    button.click()


def seen(widget: Any) -> list[Any]:
    """Return a widget and what is in it, but for what is hidden."""
    if widget.layout is not None and widget.layout.display == "none":
        return []
    return [widget, *(inner for child in getattr(widget, "children", ()) for inner in seen(child))]


def shown(panel: Any) -> str:
    return " ".join(str(widget.value) for widget in seen(panel.widget) if isinstance(widget, ipywidgets.HTML))


@pytest.fixture
def running(notebook: Notebook) -> Any:
    """The panel with two trials that wait at their gates."""
    notebook.run(TRAIN, "%ckpt run train --grid lr=1,2 --name e --concurrent 2")
    panel = opened(notebook, tab="trials")
    until(lambda: "2 running" in shown(panel))
    return panel


@pytest.fixture
def saved(notebook: Notebook) -> Any:
    """The panel with one checkpoint, after x has changed."""
    return opened(notebook, "x = 1\n%ckpt save one\nx = 2")


def ticks() -> int:
    return [thread.name for thread in threading.enumerate()].count("nbckpt-panel")


def test_the_static_html_is_shown_before_the_panel(
    notebook: Notebook, published: list[dict[str, Any]]
) -> None:
    notebook.run("x = 1\n%ckpt save one")
    published.clear()
    panel = opened(notebook)
    static, live, *_ = [output["data"] for output in published]
    html = static["text/html"]
    assert "<details>" in html
    assert "one@1" in html
    assert live["text/plain"] == "Run this cell again to show the controls."
    assert live["application/vnd.jupyter.widget-view+json"]["model_id"] == panel.widget.model_id
    assert "one@1" in shown(panel)


def test_the_filter_searches_names_messages_and_variables(notebook: Notebook) -> None:
    notebook.run("alpha = 1\n%ckpt save one alpha -m first")
    panel = opened(notebook, "beta = 1\n%ckpt save two beta -m second")
    tab = panel.tabs[0]
    for wanted, left in [("ONE", "one@1: first"), ("second", "two@1: second"), ("beta", "two@1: second")]:
        tab.filter.value = wanted
        assert [label for label, _ in tab.chosen.options] == [left]
    tab.filter.value = "nothing of the kind"
    assert (tab.chosen.options, tab.chosen.value) == ((), None)


def test_a_restore_is_previewed_and_done_with_a_second_press(notebook: Notebook, saved: Any) -> None:
    press(saved, "Restore…")
    assert "Would restore 1 variable" in shown(saved)
    assert notebook.names["x"] == 2
    press(saved, "Cancel")
    press(saved, "Restore…")
    press(saved, "Restore now")
    assert notebook.names["x"] == 1
    press(saved, "Undo")
    assert notebook.names["x"] == 2


def test_deleting_takes_two_presses_and_undo_reverts_it(notebook: Notebook, saved: Any) -> None:
    press(saved, "Delete…")
    assert "one@1" in str(notebook.run("%ckpt ls"))
    press(saved, "Delete now")
    assert "No checkpoints" in str(notebook.run("%ckpt ls"))
    press(saved, "Undo")
    assert [label for label, _ in saved.tabs[0].chosen.options] == ["one@1"]


def test_a_question_disappears_when_another_action_is_chosen(notebook: Notebook) -> None:
    panel = opened(notebook, "x = 1\n%ckpt save one\n%ckpt save two")

    def asked() -> bool:
        return "Delete now" in [getattr(widget, "description", "") for widget in seen(panel.widget)]

    press(panel, "Delete…")
    assert asked()
    press(panel, "Show")
    assert not asked()
    press(panel, "Delete…")
    panel.tabs[0].chosen.value = "one@1"
    assert not asked()
    press(panel, "Delete…")
    assert "Would remove" in shown(panel)
    panel.front.selected_index = 2
    panel.front.selected_index = 0
    assert not asked()
    assert "Would remove" not in shown(panel)


def test_the_list_has_the_newest_all_or_no_trial_checkpoints(notebook: Notebook) -> None:
    notebook.run("import nbckpt\nx = 1\n%ckpt save one")
    notebook.run("def train(config):\n    for i in (1, 2): nbckpt.report(loss=i, checkpoint={'i': i})")
    panel = opened(notebook, "%ckpt run train --grid x=1,2 --name e --wait")
    tab = panel.tabs[0]
    newest = {"e/t0@2", "e/t1@2", "one@1"}
    for which, refs in (("--newest", newest), ("--all", newest | {"e/t0@1", "e/t1@1"}), ("", {"one@1"})):
        tab.trials.value = which
        assert {ref for _, ref in tab.chosen.options} == refs


def test_save_and_tag_use_the_text_and_export_without_it_fails(notebook: Notebook) -> None:
    panel = opened(notebook, "x = 1")
    panel.tabs[0].text.value = "clicked"
    press(panel, "Save")
    assert "Saved clicked@1" in shown(panel)
    panel.tabs[0].text.value = "best"
    press(panel, "Tag")
    assert "best@1" in str(notebook.run("%ckpt ls"))
    panel.tabs[0].text.value = ""
    press(panel, "Export")
    assert "error: First write a name or a file" in shown(panel)


def test_an_error_is_one_line_in_the_panel(notebook: Notebook) -> None:
    panel = opened(notebook)
    press(panel, "Undo")
    assert "error: there is nothing to undo" in shown(panel)


@pytest.mark.slow
def test_trials_are_followed_by_one_thread_that_ends_with_them(notebook: Notebook, running: Any) -> None:
    assert ticks() == 1
    notebook.run("gate.release(2)")
    press(running, "Pause")
    notebook.run("gate.release(1)")
    until(lambda: "2 paused" in shown(running))
    until(lambda: not ticks())
    press(running, "Resume")
    notebook.run("gate.release(100)")
    until(lambda: "2 done" in shown(running))
    press(running, "Best")
    assert "Best of e by loss (min): e/t0" in shown(running)
    assert running.tabs[1].trials.value == ("t0",)
    press(running, "Show")
    assert "e/t0: done" in shown(running)
    press(running, "Restore here")
    assert notebook.names["i"] == 4
    press(running, "Curves")
    assert "data:image/svg+xml" in shown(running)
    until(lambda: not ticks())


def test_another_experiment_closes_the_details_of_the_former(notebook: Notebook) -> None:
    notebook.run("def train(config): yield {'loss': 1}")
    for name in ("first", "second"):
        notebook.run(f"%ckpt run train --name {name} --wait")
    panel = opened(notebook, tab="trials")
    tab = panel.tabs[1]
    press(panel, "Best")
    assert "Best of second" in shown(panel)
    press(panel, "Refresh")
    assert "Best of second" in shown(panel)
    tab.experiment.value = "first"
    assert "Best of second" not in shown(panel)
    press(panel, "Best")
    notebook.run("%ckpt run train --name third --wait")
    until(lambda: tab.experiment.value == "third")
    assert "Best of first" not in shown(panel)


@pytest.mark.slow
def test_a_new_experiment_leaves_the_details_of_one_that_runs(notebook: Notebook) -> None:
    panel = opened(notebook, TRAIN, "%ckpt run train lr=1 --name e", tab="trials")
    notebook.run("gate.release(1)")
    until(lambda: panel.tabs[1].metric.value == "loss")
    press(panel, "Best")
    notebook.run("def short(config): yield 1\n%ckpt run short --name other --wait")
    until(lambda: ("other", "other") in panel.tabs[1].experiment.options)
    assert "Best of e by loss" in shown(panel)
    notebook.run("gate.release(9)")
    until(lambda: not ticks())


@pytest.mark.slow
def test_stopping_takes_two_presses_and_stops_the_chosen_trial(notebook: Notebook, running: Any) -> None:
    running.tabs[1].trials.value = ("t1",)
    press(running, "Stop…")
    assert "Stop t1 of e? A stopped trial is finished." in shown(running)
    press(running, "Stop now")
    notebook.run("gate.release(1)")
    until(lambda: "1 stopped" in shown(running))
    assert "1 running" in shown(running)
    running.tabs[1].trials.value = ("t0",)
    press(running, "Pause")
    press(running, "Stop…")
    press(running, "Cancel")
    notebook.run("gate.release(9)")
    until(lambda: not ticks())
    assert "1 paused" in shown(running)
    assert "1 stopped" in shown(running)


@pytest.mark.slow
def test_a_button_requests_a_checkpoint_now(notebook: Notebook) -> None:
    panel = opened(notebook, ASKED, "%ckpt run train lr=1 --name e", tab="trials")
    until(lambda: "1 running" in shown(panel))
    press(panel, "Checkpoint now")
    assert "t0 of e" in shown(panel)
    notebook.run("gate.release(2)")
    until(lambda: "@1" in shown(panel) or "@2" in shown(panel))
    notebook.run("gate.release(9)")
    until(lambda: not ticks())


@pytest.mark.slow
def test_one_button_resumes_all_interrupted_or_paused_trials(notebook: Notebook) -> None:
    notebook.run(TRAIN, "%ckpt run train --grid lr=1,2 --name e --concurrent 2")
    notebook.run("gate.release(2)\n%ckpt pause e\ngate.release(4)\n_ = e0 = None")
    panel = opened(notebook, tab="trials")
    until(lambda: "2 paused" in shown(panel))
    until(lambda: not ticks())
    notebook.run("gate.release(99)")
    press(panel, "Resume 2 interrupted or paused trials")
    until(lambda: "2 done" in shown(panel))
    until(lambda: not ticks())
    assert not [each for each in seen(panel.widget) if "interrupted" in getattr(each, "description", "")]


def test_a_button_retries_failed_trials(notebook: Notebook) -> None:
    notebook.run("def train(config):\n    open('needed').close()\n    yield 1")
    notebook.run("%ckpt run train --grid x=1,2 --name e --wait\nopen('needed', 'w').close()")
    panel = opened(notebook, tab="trials")
    press(panel, "Try 2 failed trials again")
    until(lambda: "2 done" in shown(panel))
    until(lambda: not ticks())


@pytest.mark.slow
def test_a_button_for_one_trial_needs_a_chosen_trial(notebook: Notebook) -> None:
    panel = opened(notebook, TRAIN, "%ckpt run train lr=1 --name e\ngate.release(9)", tab="trials")
    until(lambda: not ticks())
    for name in ("Show", "Restore here"):
        press(panel, name)
        assert "error: First choose a trial in the list" in shown(panel)


def test_the_best_first_by_the_metric_that_is_chosen(notebook: Notebook) -> None:
    notebook.run("def train(config):\n    yield {'loss': config['x'], 'gain': config['x']}")
    notebook.run("%ckpt run train --grid x=2,1,3 --name e --wait --metric loss --mode min")
    panel = opened(notebook, tab="trials")
    tab = panel.tabs[1]

    def order() -> list[str]:
        return re.findall(r">(t\d)</th>", tab.table.value)

    assert order() == ["t0", "t1", "t2"]
    tab.sort.value = True
    assert order() == ["t1", "t0", "t2"]
    tab.metric.value, tab.mode.value = "gain", "max"
    assert order() == ["t2", "t0", "t1"]


def test_the_trials_pane_shows_notes_and_tags(notebook: Notebook) -> None:
    notebook.run("def train(config): yield config['x']")
    notebook.run("%ckpt run train --grid x=1,2 --name e --wait", "%ckpt tag e/t0 good")
    tab = opened(notebook, tab="trials").tabs[1]
    assert ">good<" in tab.table.value
    notebook.run('%ckpt note e/t1 "better <b>edges</b>"')
    tab.refresh()
    assert "better &lt;b&gt;edges&lt;/b&gt;" in tab.table.value


@pytest.mark.slow
def test_a_long_table_is_paged(notebook: Notebook) -> None:
    notebook.run("def train(config): yield config['x']")
    notebook.run("import nbckpt\ngrid = nbckpt.grid_search(list(range(230)))")
    notebook.run("nbckpt.run(train, {'x': grid}, name='e', executor='inline').wait()")
    panel = opened(notebook, tab="trials")
    tab = panel.tabs[1]
    assert "page 1 of 3" in shown(panel)
    press(panel, "Next")
    press(panel, "Next")
    assert "page 3 of 3" in shown(panel)
    assert re.findall(r">(t\d+)</th>", tab.table.value) == [f"t{at}" for at in range(200, 230)]
    press(panel, "Next")
    press(panel, "Previous")
    assert "page 2 of 3" in shown(panel)


@pytest.mark.slow
def test_the_log_of_a_trial_that_is_shown_is_followed(notebook: Notebook) -> None:
    notebook.run(TRAIN.replace("nbckpt.report(", "print('step', i)\n        nbckpt.report("))
    panel = opened(notebook, "%ckpt run train lr=1 --name e", tab="trials")
    until(lambda: "1 running" in shown(panel))
    panel.tabs[1].trials.value = ("t0",)
    press(panel, "Show")
    notebook.run("gate.release(2)")
    until(lambda: "step 1" in shown(panel))
    notebook.run("gate.release(9)")
    until(lambda: "step 3" in shown(panel))
    press(panel, "Pause")
    until(lambda: not ticks())


def test_undo_is_refused_while_a_cell_runs(notebook: Notebook, saved: Any) -> None:
    notebook.names["press"] = lambda: press(saved, "Undo")
    notebook.run("import threading\nit = threading.Thread(target=press)\nit.start()\nit.join()")
    assert "error: A cell is running. Press again when it has ended: undo uses its variables" in shown(saved)


def test_an_experiment_is_started_from_the_panel(notebook: Notebook) -> None:
    panel = opened(notebook, "def train(config): yield config['x']", tab="trials")
    tab = panel.tabs[1]
    for line, said in [
        ("", "error: First write what to run"),
        ("nothing", "error: there is no function"),
        ("train 'x", "close the quotation marks"),
    ]:
        tab.run.value = line
        press(panel, "Run")
        assert said in shown(panel)
    tab.run.value = "train --grid x=1,2 --name clicked"
    press(panel, "Run")
    until(lambda: "clicked: 2 trials, 2 done" in shown(panel))
    until(lambda: not ticks())


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "nbckpt.run(lambda config: None, name='before').wait()"])
def test_the_panel_follows_runs_that_it_started(notebook: Notebook, before: str) -> None:
    panel = opened(notebook, f"{ASKED}\n{before}", tab="trials")
    panel.tabs[1].run.value = "train --name clicked"
    press(panel, "Run")
    until(lambda: "clicked: 1 trial, 1 running" in shown(panel))
    notebook.names["gate"].release(4)
    until(lambda: "clicked: 1 trial, 1 done" in shown(panel))
    until(lambda: not ticks())


@pytest.mark.slow
def test_the_panel_follows_and_pauses_trials_of_another_kernel(notebook: Notebook) -> None:
    notebook.run(f"{ASKED}\nhere = nbckpt.run(train, name='far')")
    here, gate = notebook.names["here"], notebook.names["gate"]
    shutdown.live.pop(here.folder)  # the panel knows of it what another kernel would
    panel = opened(notebook, tab="trials")
    assert "far: 1 trial, 1 running" in shown(panel)
    gate.release()
    until(lambda: ">1</td>" in shown(panel))
    press(panel, "Pause")
    gate.release()
    until(lambda: "far: 1 trial, 1 paused" in shown(panel))
    until(lambda: not ticks())
    assert here.wait(60)


@pytest.mark.slow
def test_a_long_list_has_pages_and_the_filter_searches_all(notebook: Notebook) -> None:
    with Tracker() as tracker:
        for at in range(101):
            tracker.save({"x": at}, f"n{at}")
    panel = opened(notebook)
    tab = panel.tabs[0]
    press(panel, "Next")
    assert "page 2 of 2" in shown(panel)
    assert [label for label, _ in tab.chosen.options] == ["n0@1"]
    tab.filter.value = "n77"
    assert [label for label, _ in tab.chosen.options] == ["n77@1"]
    assert " of 2" not in shown(panel)
    tab.filter.value = ""
    press(panel, "Next")
    press(panel, "Delete…")
    press(panel, "Delete now")
    assert len(tab.chosen.options) == 100


def test_freeing_space_takes_two_presses(notebook: Notebook) -> None:
    panel = opened(notebook, "x = bytes(100_000)\n%ckpt save one\n%ckpt rm one")
    press(panel, "Free space…")
    assert "Would free" in shown(panel)
    press(panel, "Free now")
    assert "Freed" in shown(panel)
    press(panel, "Verify")
    assert "0 checkpoints" in shown(panel)


@pytest.mark.slow
def test_an_untrusted_export_is_imported_and_trusted(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    panel = opened(notebook, "x = 1\n%ckpt save one")
    panel.tabs[0].text.value = "one.nbckpt"
    press(panel, "Export")
    notebook.run("%ckpt rm one\n%ckpt gc")
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "another"))
    panel = opened(notebook, "%unload_ext nbckpt\n%load_ext nbckpt\nx = 2")
    panel.tabs[0].text.value = "one.nbckpt"
    press(panel, "Import")
    press(panel, "Restore…")
    press(panel, "Restore now")
    assert "error: " in shown(panel)
    assert notebook.names["x"] == 2
    press(panel, "Trust")
    press(panel, "Restore…")
    press(panel, "Restore now")
    assert notebook.names["x"] == 1


def test_the_panel_shows_changes_of_other_cells(notebook: Notebook) -> None:
    panel = opened(notebook)
    assert "No checkpoints" in shown(panel)
    notebook.run("x = 1\n%ckpt save one")
    assert "one@1" in shown(panel)


def test_the_panel_follows_runs_of_plain_cells(notebook: Notebook) -> None:
    panel = opened(notebook, TRAIN, tab="trials")
    assert "No experiments yet" in shown(panel)
    notebook.run("e = nbckpt.run(train, {'lr': 1}, name='e')")
    until(lambda: "1 running" in shown(panel))
    notebook.run("gate.release(9)\ne.wait()")
    until(lambda: "1 done" in shown(panel))
    until(lambda: not ticks())


def test_without_ipywidgets_html_and_an_install_hint_are_shown(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.run("x = 1\n%ckpt save one")
    for name in [name for name in sys.modules if name.startswith(("ipywidgets", "nbckpt.notebook.panels"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    notebook.run("%ckpt panel")
    out, err = capsys.readouterr()
    assert "one@1" in out
    assert "the panel needs ipywidgets: pip install ipywidgets" in err


def test_stopping_the_last_trial_ends_the_updates(notebook: Notebook) -> None:
    panel = opened(notebook, TRAIN, "%ckpt run train lr=1 --name e", tab="trials")
    until(lambda: "1 running" in shown(panel))
    press(panel, "Stop…")
    press(panel, "Stop now")
    notebook.run("gate.release(1)")
    until(lambda: "1 stopped" in shown(panel))
    until(lambda: not ticks())


@pytest.mark.slow
def test_the_sync_tab_turns_sync_on_and_off(notebook: Notebook, tmp_path: Any) -> None:
    panel = opened(notebook, "x = 1\n%ckpt save one", tab="sync")
    press(panel, "Set")
    assert "error: First write a location" in shown(panel)
    panel.tabs[2].url.value = str(tmp_path / "there")
    press(panel, "Set")
    until(lambda: "Last push" in shown(panel))
    press(panel, "Sync now")
    press(panel, "Off")
    assert "not synced" in shown(panel)
    assert any((tmp_path / "there" / "checkpoints").glob("*.json"))
    until(lambda: not ticks())


def test_a_panel_closes_in_the_moment_when_its_thread_ends(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = opened(notebook, TRAIN + "%ckpt run train lr=1 --name e", tab="trials")
    until(lambda: ticks() == 1)

    def current_thread() -> threading.Thread:
        until(lambda: not ticks())
        return threading.current_thread()

    monkeypatch.setattr(panels, "threading", SimpleNamespace(current_thread=current_thread))
    panel.close()
    notebook.run("gate.release(9)")


@pytest.mark.slow
def test_many_panels_leave_the_widgets_and_threads_of_one(notebook: Notebook) -> None:
    notebook.run("x = 1\n%ckpt save one")
    opened(notebook)
    comms = get_comm_manager().comms
    before = len(comms)
    for _ in range(share.of(100, 20)):
        panel = opened(notebook)
        press(panel, "Restore…")
        press(panel, "Cancel")
    assert len(comms) == before
    notebook.run("%unload_ext nbckpt\n%load_ext nbckpt")
    assert len(comms) < before


def test_hostile_names_and_messages_are_text_in_every_view(notebook: Notebook) -> None:
    notebook.run(f"x = 1\n%ckpt save one -m '{HOSTILE}'")
    notebook.run(TRAIN + f"def fails(config): raise ValueError({HOSTILE!r})")
    notebook.run("%ckpt run fails --name e --wait")
    for tab in ("checkpoints", "trials"):
        panel = opened(notebook, tab=tab)
        press(panel, "Show")
        assert "<img src=x" not in shown(panel)
        assert "&lt;img src=x" in shown(panel)
    panel.controller.say(HOSTILE, is_error=True)
    assert "<img src=x" not in panel.controller.message.value


def test_the_panel_has_three_tabs(notebook: Notebook) -> None:
    assert "there are checkpoints, trials, sync" in notebook.error("%ckpt panel nothing")
    panel = opened(notebook)
    assert [panel.front.get_title(at) for at in range(3)] == ["Checkpoints", "Trials", "Sync"]
    panel.front.selected_index = 1
    assert "No experiments yet" in shown(panel)
    notebook.run("import nbckpt\nnbckpt.notebook.panel('sync')")
    assert notebook.magics.panel.front.selected_index == 2


def test_a_help_option_in_the_panel_shows_the_help(notebook: Notebook) -> None:
    panel = opened(notebook)
    panel.tabs[0].text.value = "--help"
    press(panel, "Save")
    assert "usage: %ckpt save" in shown(panel)
    assert "save …" not in shown(panel)


@pytest.mark.slow
def test_an_unexpected_error_is_shown_and_the_next_press_works(
    notebook: Notebook, saved: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (OSError(5, "broken disk"), "OSError: [Errno 5] broken disk")
    for error, said in (broken, (KeyboardInterrupt(), "")):
        with monkeypatch.context() as patch:
            patch.setattr("nbckpt.notebook.runner.parse", raising(error))
            with suppress(KeyboardInterrupt):
                press(saved, "Verify")
        assert f"error: {said or 'KeyboardInterrupt'}" in shown(saved)
    press(saved, "Verify")
    assert not saved.controller.message.value


def raising(error: BaseException) -> Any:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.slow
def test_the_panel_follows_trials_after_an_error(
    notebook: Notebook, running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "names", raising(OSError(5, "broken disk")))
        until(lambda: "error: OSError: [Errno 5] broken disk" in shown(running))
        assert "Saved one@1" in str(notebook.run("%ckpt save one"))
    assert ticks() == 1
    notebook.run("gate.release(99)")
    until(lambda: "2 done" in shown(running))
    until(lambda: not ticks())


@pytest.mark.slow
def test_a_question_keeps_its_trial_while_the_list_changes(
    notebook: Notebook, running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook.run("def other(config): yield 1\n%ckpt run other --name z --wait")
    tab = running.tabs[1]
    tab.trials.value = ("t1",)
    press(running, "Stop…")
    monkeypatch.setattr("nbckpt.notebook.panels.trials.label", lambda trial: f"{trial.id}, as it is now")
    notebook.run("gate.release(2)")
    # The panel's thread sets the options first, and then the value.
    until(lambda: tab.trials.options[0][0] == "t0, as it is now" and bool(tab.trials.value))
    assert tab.trials.value == ("t1",)
    assert "Stop t1 of e?" in shown(running)
    tab.experiment.value = "z"
    press(running, "Stop now")
    tab.experiment.value = "e"
    notebook.run("gate.release(9)")
    until(lambda: not ticks())
    assert [trial.stopped_early for trial in tab.open().trials] == [False, True]


def test_each_experiment_is_shown_with_its_own_metric_and_mode(notebook: Notebook) -> None:
    notebook.run("def train(config): yield {'loss': config['x'], 'gain': config['x']}")
    for name, metric, mode in [("a", "loss", "min"), ("b", "gain", "max")]:
        notebook.run(f"%ckpt run train --grid x=1,2 --name {name} --wait --metric {metric} --mode {mode}")
    panel = opened(notebook, tab="trials")
    tab = panel.tabs[1]
    for name, metric, mode, best in [("a", "loss", "min", "t0"), ("b", "gain", "max", "t1")]:
        tab.experiment.value = name
        assert (tab.metric.value, tab.mode.value) == (metric, mode)
        press(panel, "Best")
        assert tab.trials.value == (best,)


def test_a_removed_experiment_disappears_from_the_panel(notebook: Notebook) -> None:
    notebook.run("def train(config): yield {'loss': 1}\n%ckpt run train --name e --wait")
    panel = opened(notebook, tab="trials")
    panel.tabs[1].trials.value = ("t0",)
    notebook.run("%ckpt rm e")
    assert "No experiments yet" in shown(panel)
    errors = {"Show": "First choose a trial", "Curves": "No metric was", "Pause": "there is no exp"}
    for name, said in errors.items():
        press(panel, name)
        assert f"error: {said}" in shown(panel)


def test_a_panel_can_show_another_store(notebook: Notebook) -> None:
    notebook.run("x = 1\n%ckpt save here\n%ckpt --store other save there")
    panel = opened(notebook, tab="--store other")
    assert [ref for _, ref in panel.tabs[0].chosen.options] == ["there@1"]


def test_the_html_of_an_empty_panel_stays_in_the_panels_cell(
    notebook: Notebook, published: list[dict[str, Any]]
) -> None:
    panel = opened(notebook, tab="trials")
    static, *_ = published
    notebook.run("def train(config): yield 1\n%ckpt run train --name e --wait")
    panel.controller.static_copy.flush()
    same = [output for output in published if output["transient"] == static["transient"]]
    assert [output["update"] for output in same] == [False] + [True] * (len(same) - 1)
    assert "e: 1 trial" in same[-1]["data"]["text/html"]


def test_long_messages_and_values_have_short_labels(notebook: Notebook) -> None:
    notebook.run(f"x = 1\n%ckpt save one -m '{'m' * 9_999}'")
    notebook.run(f"import nbckpt\nnbckpt.run(lambda config: 1, {{'x': '{'v' * 9_999}'}}, name='e').wait()")
    panel = opened(notebook)
    panel.front.selected_index = 1
    for choice in (panel.tabs[0].chosen, panel.tabs[0].against, panel.tabs[1].trials):
        assert max(len(label) for label, _ in choice.options) < 100


def test_an_error_of_one_trial_is_shown_until_the_next_press(notebook: Notebook) -> None:
    """The error is shown although the action on the other chosen trial succeeds."""
    notebook.run(TRAIN.replace("gate.of", "config['lr'] == 1 or gate.of"))
    panel = opened(notebook, "%ckpt run train --grid lr=1,2 --name e --concurrent 2", tab="trials")
    until(lambda: "1 done" in shown(panel))
    panel.tabs[1].trials.value = ("t0", "t1")
    press(panel, "Pause")
    assert "error: there is nothing to pause in e/t0" in shown(panel)
    assert "Pausing t1 of e" in shown(panel)
    press(panel, "Refresh")
    assert not panel.controller.message.value
    notebook.run("gate.release(9)")
    until(lambda: not ticks())


@pytest.mark.parametrize("failures", [2, 100])
def test_an_update_that_fails_at_the_end_is_tried_again(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """One that always fails ends, and says why."""
    panel = opened(notebook, tab="trials")
    tries: list[int] = []

    def refresh() -> None:
        tries.append(len(tries))
        if len(tries) <= failures:
            raise OSError("the disk is gone")

    tab: Any = SimpleNamespace(is_alive=False, refresh=refresh)
    monkeypatch.setattr(Panel, "tab", tab)
    monkeypatch.setattr(panel.closed, "wait", lambda _: panel.closed.is_set())
    panel.tick()
    if failures == 2:
        assert tries == [0, 1, 2]
    else:
        assert "the disk is gone" in shown(panel)


def test_an_experiment_that_ends_during_an_update_shows_its_end(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = opened(notebook, tab="trials")
    updates: list[bool] = []
    tab: Any = SimpleNamespace(is_alive=True)

    def refresh() -> None:
        updates.append(tab.is_alive)
        tab.is_alive = False  # it ends after the tab has read it

    tab.refresh = refresh
    monkeypatch.setattr(Panel, "tab", tab)
    panel.refresh()
    until(lambda: not ticks())
    assert updates == [True, False]


def test_a_press_comes_the_way_that_a_choice_comes(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ipykernel 7.4 hears each widget where it last sent to it: two ways would let a press overtake."""
    notebook.run("x = 1\n%ckpt save one\n%ckpt save two")
    panel, sent = opened(notebook), list[Any]()
    tab = panel.tabs[0]
    header = {"msg_type": "comm_msg", "subshell_id": "one"}
    kernel = SimpleNamespace(get_parent=lambda: {"header": header})
    monkeypatch.setattr(controller, "current_shell", lambda: SimpleNamespace(kernel=kernel))
    sends = ipywidgets.Widget.send_state

    def send(self: Any, key: str) -> None:
        sent.append(self) if key == "disabled" else sends(self, key)

    monkeypatch.setattr(ipywidgets.Widget, "send_state", send)
    buttons = {each for each in below(panel.front) if isinstance(each, ipywidgets.Button)}
    tab.chosen.value = tab.chosen.options[1][1]
    assert buttons | {tab.chosen} < {*sent}
    sent.clear()
    tab.chosen.value = tab.chosen.options[0][1]  # the same way
    header |= {"msg_type": "execute_request", "subshell_id": None}
    tab.chosen.value = tab.chosen.options[1][1]  # a cell sets it, not the panel
    assert sent == []
    header |= {"msg_type": "comm_msg"}
    panel.front.selected_index = 1
    assert buttons < {*sent}
