"""A result of `%ckpt` is shown exactly once, wherever its line stands in the cell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kernels
from late import Library
from notebook.conftest import Notebook

if TYPE_CHECKING:
    from nbformat import NotebookNode

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


@pytest.mark.parametrize(("cell", "times"), CELLS.values(), ids=CELLS.keys())
def test_a_result_is_shown_once_anywhere_in_a_cell(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], cell: str, times: int
) -> None:
    notebook.run("x = 1")
    notebook.run(cell)
    assert len(re.findall("Saved [mn]@", capsys.readouterr().out)) == times


@pytest.mark.parametrize("cell", WARNING.values(), ids=WARNING.keys())
def test_a_semicolon_does_not_hide_skipped_variables(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], cell: str
) -> None:
    notebook.run("x = 1")
    notebook.run(cell)
    assert capsys.readouterr().out.count("not saved") == 1


def test_a_result_that_is_assigned_is_the_object(notebook: Notebook) -> None:
    notebook.run("x = 1\nr = %ckpt save n;\nl = %ckpt ls\nz = 1")
    assert str(notebook.names["r"].saved.ref) == "n@1"
    assert notebook.names["l"].total == 1


def test_the_last_line_is_still_the_result_of_its_cell(notebook: Notebook) -> None:
    notebook.run("x = 1")
    assert notebook.run("%ckpt save n") is notebook.names["_"]


def test_a_result_that_a_module_drops_is_shown(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "saves_it.py").write_text("def f(shell):\n    shell.run_line_magic('ckpt', 'save n')\n")
    notebook.run("import saves_it\nsaves_it.f(get_ipython())\nz = 1")
    assert capsys.readouterr().out.count("Saved n@1") == 1


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[NotebookNode]]:
    """The outputs of every cell in a kernel of its own."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    cells = {name: cell for name, (cell, _) in CELLS.items()} | {
        f"warns, {name}": WARNING[name] for name in WARNING
    }
    sources = [MAKE, *cells.values()]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    kernels.client_of(made, tmp_path).execute()
    return {name: cell.outputs for name, cell in zip(["make", *cells], made.cells, strict=True)}


@pytest.mark.slow
def test_in_a_kernel_a_result_is_shown_once(outputs: dict[str, list[NotebookNode]]) -> None:
    shown = {
        name: sum("Saved " in item.data["text/plain"] for item in output if "data" in item)
        for name, output in outputs.items()
    }
    wanted = {name: times for name, (_, times) in CELLS.items()} | {
        f"warns, {warned}": 1 for warned in WARNING
    }
    assert {name: shown[name] for name in wanted} == wanted


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
    assert [done.stdout.count(text) for text in ("Saved n@", "Saved m@", "as k@1", "checkpoints in")] == [
        2,
        1,
        1,
        0,
    ]


@pytest.mark.slow
def test_in_a_kernel_the_result_replaces_its_progress(tmp_path: Path) -> None:
    soon = "import nbckpt.notebook.magic as m\nm.CheckpointMagics.progress_delay = 0.0\nb = b'x' * 9_000_000"
    saves = ["%ckpt save n b", "r = %ckpt save n b", "%ckpt save n b\nz = 1", "%ckpt save n b;"]
    sources = [MAKE, soon, saves[0], "print(_.saved.ref)", *saves[1:]]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    kernels.client_of(made, tmp_path).execute()
    outputs = [cell.outputs for cell in made.cells]
    assert [len(output) for output in outputs] == [0, 0, 1, 1, 1, 1, 1]
    assert outputs[2][0].data["text/plain"].startswith("Saved n@1")
    assert outputs[3][0].text == "n@1\n"
    assert " of " in outputs[4][0].data["text/html"]
    assert outputs[5][0].data["text/plain"].startswith("Saved n@3")
    assert " of " in outputs[6][0].data["text/html"]


@pytest.mark.slow
def test_a_kernel_shows_each_experiment_once_also_in_a_loop(tmp_path: Path) -> None:
    """A magic in the middle of a cell shows its experiment once too."""
    define = "def f(config):\n    nbckpt.report(loss=1)"
    cells = [
        "%ckpt run f --name a --wait\nz = 1",
        "for i in range(2):\n    %ckpt run f --executor inline",
        "%ckpt trials a\nz = 1",
        "%ckpt trials a",
    ]
    sources = [MAKE, define, *cells]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    kernels.client_of(made, tmp_path).execute()
    data = [[output.data for output in cell.outputs if "data" in output] for cell in made.cells[2:]]
    # Below an experiment that still runs there is an empty place for its live table.
    shown = [[each for each in outputs if "data-nbckpt-place" not in each["text/html"]] for outputs in data]
    assert [len(outputs) for outputs in shown] == [1, 2, 1, 1]
    assert shown[0][0]["text/plain"].startswith("a: 1 trial, 1 done")
