"""track in a notebook: cells open, feed, fail and end a trial."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbckpt.trials import Catalog, Status
from nbckpt.trials.engine.open_trial import end_all, open_trials
from notebook.conftest import Notebook


@pytest.fixture
def cells(notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """A notebook that has imported nbckpt; no trial stays open."""
    monkeypatch.setenv("NBCKPT_STORE", str(tmp_path / "store"))
    notebook.run("import nbckpt\n%reload_ext nbckpt")
    yield notebook
    for trial in open_trials():
        trial.finish()
        trial.experiment.wait()


def trials() -> Any:
    return Catalog(Path(os.environ["NBCKPT_STORE"], "experiments")).open("e").trials


def test_later_cells_report_and_the_next_track_ends_the_trial(cells: Notebook) -> None:
    cells.run("run = nbckpt.track('e', lr=0.1)", "for i in range(3): nbckpt.report(loss=i)")
    cells.run("run = nbckpt.track('e', lr=0.2)")
    first, second = trials()
    assert (first.status, first.iteration, second.status) == (Status.TERMINATED, 3, Status.RUNNING)


def test_a_cell_that_runs_again_ends_what_it_opened(cells: Notebook) -> None:
    cells.run("name = 'e'", "run = nbckpt.track(name)", "name = 'other'", "run = nbckpt.track(name)")
    assert [trial.trial_name for trial in open_trials()] == ["other/t0"]


def test_two_trials_of_one_cell_stay_open(cells: Notebook) -> None:
    cells.run("a = nbckpt.track('a'); b = nbckpt.track('b')", "a.report(loss=1); b.report(loss=2)")
    assert len(open_trials()) == 2


def test_an_error_of_a_cell_that_reported_fails_the_trial(cells: Notebook) -> None:
    cells.run("run = nbckpt.track('e')")
    assert "division by zero" in cells.error("1 / 0")
    assert open_trials()
    cells.error("run.report(loss=1)\n1 / 0")
    (trial,) = trials()
    assert (trial.status, trial.error) == (Status.ERROR, "ZeroDivisionError: division by zero")
    assert "1 / 0" in trial.traceback
    assert "IPython" not in trial.traceback.splitlines()[1]
    assert not open_trials()


def test_an_error_after_a_report_of_a_thread_fails_nothing(cells: Notebook) -> None:
    cells.run("import threading\nrun = nbckpt.track('e')")
    cells.error(
        "thread = threading.Thread(target=run.report, kwargs={'loss': 1})\nthread.start(); thread.join()\n1/0"
    )
    assert open_trials()


@pytest.mark.parametrize("stop", ["KeyboardInterrupt", "__import__('asyncio').CancelledError"])
def test_stop_leaves_the_trial_open_and_the_end_pauses_it(stop: str, cells: Notebook) -> None:
    """Stop raises the one in a cell, and the other in a cell that awaits something."""
    cells.run("run = nbckpt.track('e')")
    cells.error(f"run.report(loss=1)\nraise {stop}")
    cells.run("run.report(loss=2)")
    assert trials()[0].iteration == 2
    cells.error(f"run.report(loss=3)\nraise {stop}")
    cells.shell.events.trigger("post_run_cell", None)  # so ends a cell that Stop ended before it began
    cells.shell.kernel = object()
    try:
        end_all()
    finally:
        del cells.shell.kernel
    assert trials()[0].status == Status.PAUSED


def test_a_cell_magic_runs_the_cell_as_the_trial(cells: Notebook) -> None:
    cells.run("lr = 0.5", "%%ckpt track e lr=lr\nfor i in range(3): nbckpt.report(loss=lr * i)\nlast = i")
    cells.error("%%ckpt track e lr=2\nnbckpt.report(loss=1)\n1 / 0")
    done, failed = trials()
    assert (done.status, done.config, done.iteration) == (Status.TERMINATED, {"lr": 0.5}, 3)
    assert (failed.status, cells.names["last"]) == (Status.ERROR, 2)


def test_a_line_magic_opens_a_trial_for_the_next_cells(cells: Notebook) -> None:
    cells.run("run = %ckpt track e lr=0.5", "run.report(loss=1)", "run.finish()")
    cells.run("run = %ckpt track e --resume")
    assert [trial.status for trial in trials()] == [Status.TERMINATED, Status.RUNNING]


def test_what_later_cells_print_is_in_the_log(cells: Notebook) -> None:
    cells.run("run = nbckpt.track('e')", "print('epoch 1')")
    assert trials()[0].log() == ["epoch 1"]


def test_one_quiet_line_follows_the_trial(cells: Notebook, published: list[dict[str, Any]]) -> None:
    cells.run("run = nbckpt.track('e', lr=0.1)", "for i in range(100): run.report(loss=i)", "1")
    cells.run("run.finish()\nrun")
    lines = [output for output in published if "e/t0" in output["data"].get("text/plain", "")]
    first, *updates = lines
    assert first["data"]["text/plain"] == "e/t0: open"
    assert lines[-1]["data"]["text/plain"].startswith("e/t0: done, 100 results, loss 99")
    assert not first.get("update")
    assert all(output.get("update") for output in updates)
    assert len({output["transient"]["display_id"] for output in lines}) == 1
    assert len(lines) < 20
