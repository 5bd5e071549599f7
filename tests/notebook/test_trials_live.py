"""Experiments in a notebook: one output each, that follows them to their end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kernels
from nbckpt.notebook.live import Live, View
from notebook.conftest import Notebook

TRAIN = """
import threading, nbckpt
gate = threading.Semaphore(0)
def train(config):
    for i in range(config.get("n", 3)):
        gate.acquire()
        nbckpt.report(loss=i, checkpoint={"i": i})
"""

Outputs = list[dict[str, Any]]


def join() -> None:
    """Wait for what follows experiments."""
    for thread in threading.enumerate():
        if thread.name == "nbckpt-live":
            thread.join(60)


@pytest.fixture
def outputs(notebook: Notebook, published: Outputs) -> Iterator[Outputs]:
    """Define train(); return the outputs that the shell publishes."""
    notebook.run(TRAIN)
    yield published
    notebook.run("gate.release(1000)")
    join()


def made(outputs: Outputs) -> list[str]:
    """Return the ids of the outputs that were made, not changed."""
    return [output["transient"]["display_id"] for output in outputs if not output["update"]]


def ended(notebook: Notebook) -> None:
    notebook.run("gate.release(1000)")
    join()


def test_a_run_is_shown_once_and_followed_to_its_end(notebook: Notebook, outputs: Outputs) -> None:
    experiment = notebook.run("%ckpt run train --grid lr=0.1,0.2")
    assert len(made(outputs)) == 1
    assert "2 trials" in outputs[0]["data"]["text/plain"]
    ended(notebook)
    assert experiment.wait(0)
    assert set(made(outputs)) == {output["transient"]["display_id"] for output in outputs}
    assert len(made(outputs)) == 1
    assert "2 trials, 2 done" in outputs[-1]["data"]["text/html"]


def test_a_run_assigned_to_a_variable_shows_its_table(notebook: Notebook, outputs: Outputs) -> None:
    notebook.run("e = %ckpt run train n=1\nx = 1")
    assert len(made(outputs)) == 1
    ended(notebook)
    assert notebook.names["e"].trials[0].status == "TERMINATED"
    notebook.run("e")
    assert len(made(outputs)) == 2


def test_a_repeated_cell_has_a_new_table_and_the_same_thread(notebook: Notebook, outputs: Outputs) -> None:
    """One thread updates both tables."""
    for _ in range(2):
        notebook.run("%ckpt trials --sort best" if outputs else "%ckpt run train --name e")
        assert [thread.name for thread in threading.enumerate()].count("nbckpt-live") == 1
    ended(notebook)
    assert len(set(made(outputs))) == 2
    last = {output["transient"]["display_id"]: output["data"]["text/plain"] for output in outputs}
    assert all("1 done" in shown for shown in last.values())


def test_a_run_started_from_python_is_followed(notebook: Notebook, outputs: Outputs) -> None:
    notebook.run("nbckpt.run(train, {'n': 2})")
    assert len(made(outputs)) == 1
    ended(notebook)
    assert "1 done" in outputs[-1]["data"]["text/plain"]


def test_a_finished_experiment_is_shown_but_not_followed(notebook: Notebook, outputs: Outputs) -> None:
    notebook.run("gate.release(3)\n%ckpt run train --wait")
    join()
    outputs.clear()
    notebook.run("%ckpt trials")
    assert [output["update"] for output in outputs] == [False]
    assert "nbckpt-live" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("kept", ["", "e = "])
def test_a_cell_that_waits_ends_with_the_final_table(
    notebook: Notebook, outputs: Outputs, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    monkeypatch.setattr(Live, "follow", lambda *_: None)  # it may come too late
    notebook.run(f"gate.release(3)\n{kept}%ckpt run train --wait")
    assert len(made(outputs)) == 1
    assert "1 trial, 1 done" in outputs[-1]["data"]["text/plain"]


class Changing:
    """An experiment that changes a thousand times while one waits for it, as often as *left* says."""

    running = True

    def __init__(self, left: int, changes: int) -> None:
        self.version = 0
        self.left = left
        self.changes = changes
        self.waited: list[float | None] = []
        self._internals = self

    def wait(self, timeout: float | None) -> bool:
        self.waited.append(timeout)
        self.version += self.changes
        self.left -= 1
        self.running = self.left > 0
        return not self.running


@pytest.mark.parametrize(("changes", "updates"), [(1000, 5), (0, 0)])
def test_updates_need_a_change_and_come_at_most_four_per_second(
    notebook: Notebook, outputs: Outputs, changes: int, updates: int
) -> None:
    result = notebook.run("%ckpt help")
    outputs.clear()
    experiment: Any = Changing(5, changes)
    live = Live(notebook.shell)
    view = View(result, experiment)
    live.views[experiment] = [view]
    view.refresh()
    live.follow(experiment)
    assert [output["update"] for output in outputs] == [False] + [True] * updates
    assert min(experiment.waited) >= 0.25
    assert live.views == {}


def test_a_terminal_prints_the_result_once(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.run(TRAIN, "gate.release(3)")
    capsys.readouterr()
    notebook.run("%ckpt run train --name once --wait")
    assert capsys.readouterr().out.count("once: 1 trial, 1 done") == 1


@pytest.mark.slow
def test_an_interrupt_pauses_trials_and_a_second_one_stops_them(tmp_path: Path) -> None:
    with kernels.lent(tmp_path) as (manager, client):
        client.execute_interactive(f"%load_ext nbckpt\nfrom pathlib import Path\n{SLOW}", timeout=60)
        paused = interrupt(manager, client, "%ckpt run train --name e --wait", tmp_path, 1)
        assert paused == ["interrupted: 1 trial, 1 paused. Resume: %ckpt resume e"]
        stopped = interrupt(manager, client, "%ckpt resume e --wait", tmp_path, 2)
        assert stopped == ["interrupted: 1 trial, 1 stopped. Show: %ckpt trials e"]


SLOW = """
import time, nbckpt
def train(config):
    start = nbckpt.get_checkpoint()
    i = start.to_dict()["i"] if start else 0
    print("it runs")
    while True:
        while not Path("go").exists():
            time.sleep(0.01)
        i += 1
        nbckpt.report(i=i, checkpoint={"i": i})
"""


def interrupt(manager: Any, client: Any, code: str, folder: Path, times: int) -> list[str]:
    """Run a cell, interrupt it when its trial and its table are there, and again when the table says that
    it took note; let the trial go on then, and return the traceback that the cell shows."""
    waited = [{"it runs", "1 trial"}, {"pausing"}, {"stopping"}][: times + 1]

    def look(message: dict[str, Any]) -> None:
        content = message["content"]
        text = content.get("text") or content.get("data", {}).get("text/plain", "")
        if waited:
            waited[0] -= {part for part in waited[0] if part in text}
            if not waited[0]:
                waited.pop(0)
                manager.interrupt_kernel() if waited else (folder / "go").touch()

    (folder / "go").unlink(missing_ok=True)
    reply = client.execute_interactive(code, timeout=60, output_hook=look)
    assert reply["content"]["status"] == "error"
    return reply["content"]["traceback"]
