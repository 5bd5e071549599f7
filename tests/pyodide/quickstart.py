"""What a notebook in the browser does: run by quickstart.mjs, under Pyodide."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import nbckpt

TRAIN = """
import nbckpt
def train(config, checkpoint_dir=None):
    for step in range(1, 4):
        nbckpt.report(loss=config["lr"] / step, checkpoint={"step": step})
"""
NOTE = "threads cannot start here: trials run one after the other in the cell"


def check_the_place():
    """Hold that this is where nothing compiled and no thread is to be had."""
    assert sys.platform == "emscripten"
    assert importlib.util.find_spec("blake3") is None
    try:
        threading.Thread(target=print).start()
    except RuntimeError:
        return
    raise AssertionError("a thread was started")


class Notebook:
    """A shell whose cells are run one by one."""

    def __init__(self):
        self.shell = InteractiveShell.instance(colors="nocolor")

    def run(self, *cells):
        for cell in cells:
            result = self.shell.run_cell(cell, store_history=True)
            result.raise_error()
        return result.result

    def html(self, cell):
        return self.run(cell)._repr_mimebundle_()["text/html"]


def checkpoints(notebook):
    run = notebook.run
    run("words, counts = ['pack', 'blob'] * 50_000, {n: [n] * 3 for n in range(1000)}\nalias = counts[1]")
    run("memory = bytearray(3_000_000)\nclass Point:\n    x = 1\npoint = Point()")
    assert "Saved base@1" in str(run("%ckpt save base -m '<b>first</b>'"))
    assert json.loads(Path(".nbckpt/store.json").read_text())["digest"] == "blake2b-256"
    run("words.append('new'); counts[1].append(4); memory[7] = 7; point.x = 2")
    differing = str(run("%ckpt diff base"))
    assert all(name in differing for name in ("words", "counts", "memory", "point")), differing
    run("%ckpt save more", "%ckpt restore base")
    then = run("len(words), counts[1], alias is counts[1], memory[7], point.x")
    assert then == (100_000, [1, 1, 1], True, 0, 1), then
    assert run("%ckpt undo", "words[-1], memory[7], point.x") == ("new", 7, 2)
    assert str(run("%ckpt verify")).startswith("Everything verified: ")
    html = notebook.html("%ckpt ls")
    assert "<caption" in html, html
    assert "&lt;b&gt;first&lt;/b&gt;" in html, html


def elsewhere(notebook):
    run = notebook.run
    run("%ckpt export base base.zip", "%ckpt --store other import base.zip", "%ckpt push copy")
    assert run("%ckpt --store copy restore base words --as copied_", "len(copied_words)") == 100_000
    assert "so each %ckpt sync pushes once" in str(run("%ckpt sync there"))


def time_travel(notebook):
    run = notebook.run
    run("%ckpt auto on --budget 1000000%", "steps = [1]; held = {'steps': steps}", "steps.append(2)")
    assert run("%ckpt undo", "held['steps'] is steps, steps") == (True, [1])
    assert run("%ckpt redo", "steps") == [1, 2]
    run("%ckpt auto off")


def kept_cells(notebook):
    run = notebook.run
    cell = "%%ckpt cell made\nprint('it runs')\nmade = [number, held]\nheld.append(number)\nmade"
    for number, text in ((1, "it runs"), (2, "it runs"), (1, "Restored")):
        run(f"number, held = {number}, []")
        with capture_output() as shown:
            run(cell)
        said = shown.stdout + str([output.data for output in shown.outputs])
        assert text in said, said
        assert run("made[0], held, made[1] is held") == (number, [number], True)
    assert "it runs" in said, "what the cell printed comes back too"


def forms():
    made = nbckpt.Checkpoint.from_dict({"a": [1, 2]})
    with made.as_directory() as folder, made.as_directory() as again:
        assert folder == again
        assert nbckpt.Checkpoint.from_directory(folder).to_dict() == {"a": [1, 2]}
    assert nbckpt.Checkpoint.from_bytes(made.to_bytes()).to_dict() == {"a": [1, 2]}


def trials(notebook):
    notebook.run(TRAIN)
    runs = notebook.run("runs = nbckpt.run(train, {'lr': nbckpt.grid_search([1.0, 2.0])}, name='grid')\nruns")
    assert [trial.status for trial in runs.trials] == ["TERMINATED"] * 2, runs
    assert NOTE in str(runs), runs
    assert runs.best("loss", "min").config == {"lr": 1.0}
    assert [trial.iteration for trial in runs.trials] == [3, 3]
    html = notebook.html("%ckpt trials grid")
    assert "done" in html, html


def main():
    check_the_place()
    notebook = Notebook()
    notebook.run("%load_ext nbckpt")
    checkpoints(notebook)
    elsewhere(notebook)
    time_travel(notebook)
    kept_cells(notebook)
    forms()
    trials(notebook)
    notebook.run("%ckpt panel")
    python = sys.version.split()[0]
    print(f"nbckpt {nbckpt.__version__}: the quickstart ran under Pyodide, Python {python}")


if __name__ == "__main__":
    main()
