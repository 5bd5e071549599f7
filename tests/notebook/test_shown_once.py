"""A result of `%ckpt` is shown once, wherever its line stands in the cell, and replaces its progress."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kernels
from late import Library
from nbckpt.notebook import progress
from nbckpt.render import Page, Result
from nbckpt.sync.progress import Progress
from notebook.conftest import Notebook
from notebook.typed import Clock

nbformat = Library("nbformat")

MAKE = "import nbckpt\n%load_ext nbckpt\nx = 1"
BAD = "g = (i for i in ())"
CELLS = {
    "last": ("%ckpt save n", 1),
    "first": ("%ckpt save n\nz = 1", 1),
    "twice": ("%ckpt save n\n%ckpt save n", 2),
    "loop": ("for i in range(3):\n    %ckpt save n", 3),
    "branch": ("if x:\n    %ckpt save n\nelse:\n    pass", 1),
    "function": ("def f():\n    %ckpt save n\nf()\nf()", 2),
    "try": ("try:\n    %ckpt save n\nfinally:\n    z = 1", 1),
    "call": ("get_ipython().run_line_magic('ckpt', 'save n')\nz = 1", 1),
    "last call": ("get_ipython().run_line_magic('ckpt', 'save n')", 1),
    "aliased": ("magic = get_ipython().run_line_magic\nmagic('ckpt', 'save n')\ndel magic", 1),
    "kept": ("r = %ckpt save n", 0),
    "kept call": ("r = [get_ipython().run_line_magic('ckpt', 'save n')]", 0),
    "in a cell magic": ("%%ckpt save n\n%ckpt save m\nz = 1", 2),
    "timed": ("%%time\n%ckpt save n\nz = 1", 1),
    "silenced": ("%ckpt save n;", 0),
    "silenced first": ("%ckpt save n;\nz = 1", 0),
    "silenced call": ("get_ipython().run_line_magic('ckpt', 'save n');", 0),
}
WARNING = {
    "last": f"{BAD}\n%ckpt save n",
    "silenced": f"{BAD}\n%ckpt save n;",
    "silenced first": f"{BAD}\n%ckpt save n;\nz = 1",
    "silenced call": f"{BAD}\nget_ipython().run_line_magic('ckpt', 'save n');",
    "first": f"{BAD}\n%ckpt save n\nz = 1",
}


def test_a_result_is_shown_once_anywhere_in_a_cell(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    notebook.run("x = 1")
    for name, (cell, times) in CELLS.items():
        with subtests.test(name):
            notebook.run(cell)
            assert len(re.findall("Saved [mn]@", capsys.readouterr().out)) == times


def test_a_semicolon_does_not_hide_skipped_variables(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    notebook.run("x = 1")
    for name, cell in WARNING.items():
        with subtests.test(name):
            notebook.run(cell)
            assert capsys.readouterr().out.count("not saved") == 1


def test_a_result_that_is_assigned_is_the_object(notebook: Notebook) -> None:
    notebook.run("x = 1\nr = %ckpt save n;\nl = %ckpt ls\nz = 1")
    assert str(notebook.names["r"].saved.ref) == "n@1"
    assert notebook.names["l"].total == 1


def test_the_last_line_is_still_the_result_of_its_cell(notebook: Notebook) -> None:
    assert notebook.run("x = 1", "%ckpt save n") is notebook.names["_"]


def test_a_result_that_a_module_drops_is_shown(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "saves_it.py").write_text("def f(shell):\n    shell.run_line_magic('ckpt', 'save n')\n")
    notebook.run("import saves_it\nsaves_it.f(get_ipython())\nz = 1")
    assert capsys.readouterr().out.count("Saved n@1") == 1


SOON = "import nbckpt.notebook.magic as m\nm.CheckpointMagics.progress_delay = 0.0\nb = b'x' * 9_000_000"
SAVE = "%ckpt save p b"
PROGRESS = [SAVE, "print(_.saved.ref)", f"r = {SAVE}", f"{SAVE}\nz = 1", f"{SAVE};"]
TRIALS = [
    "%ckpt run f --name a --wait\nz = 1",
    "for i in range(2):\n    %ckpt run f --executor inline",
    "%ckpt trials a\nz = 1",
    "%ckpt trials a",
]


@pytest.mark.slow
def test_in_a_kernel_a_result_is_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    define = "def f(config):\n    nbckpt.report(loss=1)"
    sources = [MAKE, *(cell for cell, _ in CELLS.values()), *WARNING.values(), define, *TRIALS]
    sources += [SOON, *PROGRESS]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    kernels.client_of(made, tmp_path).execute()
    outputs = (cell.outputs for cell in made.cells)
    assert next(outputs) == []
    wanted = [*CELLS.items(), *((f"warns, {name}", (cell, 1)) for name, cell in WARNING.items())]
    for name, (_, times) in wanted:
        with subtests.test(name):
            data = [output["data"] for output in next(outputs) if "data" in output]
            assert sum("Saved " in each["text/plain"] for each in data) == times
    with subtests.test("an experiment"):
        assert next(outputs) == []
        data = [[output.data for output in next(outputs) if "data" in output] for _ in TRIALS]
        # Below an experiment that still runs there is an empty place for its live table.
        shown = [[each for each in cell if "data-nbckpt-place" not in each["text/html"]] for cell in data]
        assert [len(cell) for cell in shown] == [1, 2, 1, 1]
        assert shown[0][0]["text/plain"].startswith("a: 1 trial, 1 done")
    with subtests.test("a result replaces its progress"):
        assert [len(cell.outputs) for cell in made.cells[-6:]] == [0, 1, 1, 1, 1, 1]
        saved, printed, kept, first, silenced = (cell.outputs[0] for cell in made.cells[-5:])
        assert saved.data["text/plain"].startswith("Saved p@1")
        assert printed.text == "p@1\n"
        assert " of " in kept.data["text/html"]
        assert first.data["text/plain"].startswith("Saved p@3")
        assert " of " in silenced.data["text/html"]


@pytest.mark.slow
def test_in_terminal_ipython_a_result_is_shown_once(tmp_path: Path) -> None:
    lines = [*MAKE.split("\n"), "for i in range(2):", "    %ckpt save n", "", "%ckpt save m", "r = %ckpt ls"]
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--colors=nocolor", "--simple-prompt"],
        input="\n".join([*lines, "%ckpt tag m k\n"]),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"IPYTHONDIR": str(tmp_path), "TERM": "dumb"},
        check=True,
        timeout=120,
    )
    shown = ("Saved n@", "Saved m@", "as k@1", "checkpoints in")
    assert [done.stdout.count(text) for text in shown] == [2, 1, 1, 0]


class Moved(Result):
    """A result."""

    def page(self) -> Page:
        return Page("2 files moved")


def test_short_work_shows_nothing(published: list[dict[str, Any]], clock: Clock) -> None:
    with progress.ProgressLine(clock) as report:
        report(1, 2)
        report(2, 2)
    assert published == []


def test_long_work_shows_a_line_that_its_result_replaces(
    published: list[dict[str, Any]], clock: Clock
) -> None:
    with progress.ProgressLine(clock) as report:
        for done in range(100):
            clock.time += 0.05
            report(done * 1_000_000, 100_000_000)
    assert report.become(Moved())
    assert 10 <= len(published) <= 20
    assert '<progress value="13000000" max="100000000"' in published[0]["data"]["text/html"]
    assert published[-1]["data"]["text/plain"] == "2 files moved"


def test_a_line_without_a_result_shows_the_last_progress(
    published: list[dict[str, Any]], clock: Clock
) -> None:
    with progress.ProgressLine(clock) as report:
        clock.time = 5
        report(1_000_000, 2_000_000)
    report.end()
    assert published[-1]["data"]["text/plain"] == "1 MB of 2 MB"
    assert not progress.ProgressLine(clock).become(Moved())


def test_a_line_shows_the_progress_at_the_failure(published: list[dict[str, Any]], clock: Clock) -> None:
    def work() -> None:
        with progress.ProgressLine(clock) as report:
            clock.time = 5
            report(1, 2)
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        work()
    assert published[-1]["data"]["text/plain"] == "stopped at 1 bytes of 2 bytes"


def test_a_terminal_shows_one_line_that_is_erased(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with progress.ProgressLine(clock) as report:
        clock.time = 5
        report(1_000_000, 2_000_000)
    assert capsys.readouterr().err.startswith("\r1 MB of 2 MB")


def test_a_transfer_shows_files_rate_time_left_and_current_file(
    published: list[dict[str, Any]], clock: Clock
) -> None:
    transfer = Progress(10, 2, 40_000_000, 10_000_000, "packs/<b>", seconds=5)
    with progress.ProgressLine(clock) as report:
        clock.time = 5
        report(transfer.done, transfer.size, transfer)
    said = "2 of 10 files, 10 MB of 40 MB, 2 MB/s, 15 s left: packs/&lt;b&gt;"
    assert published[0]["data"]["text/html"].startswith('<progress value="10000000" max="40000000"')
    assert published[0]["data"]["text/html"].endswith(f"</progress> {said}")


def test_first_bytes_give_no_remaining_time_and_names_are_cut() -> None:
    said = str(Progress(37, 1, 288_000_000, 99, "packs/" + 64 * "a", seconds=2))
    assert said == f"1 of 37 files, 99 bytes of 288 MB, 50 bytes/s: packs/{33 * 'a'}…"
