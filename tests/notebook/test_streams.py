"""Streams and figures: a redirected stdout follows undo, and a restored figure shows its picture."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from notebook.conftest import AUTO_ON, Notebook
from notebook.test_in_kernels import folder, kernel

__all__ = ["folder"]

TEE = """
class Tee:
    def __init__(self): self.lines = []
    def write(self, text): self.lines.append(text)
    def flush(self): pass
buf = Tee()
"""


@pytest.fixture(autouse=True)
def stdout() -> Iterator[None]:
    former = sys.stdout
    yield
    sys.stdout = former


@pytest.mark.parametrize(
    ("make", "text"), [("buf = io.StringIO()", "buf.getvalue()"), (TEE, "''.join(buf.lines)")]
)
def test_what_print_wrote_is_undone(notebook: Notebook, make: str, text: str) -> None:
    notebook.run("import io, sys", AUTO_ON, make, "sys.stdout = buf", "print('one')", "print('two')")
    stream = notebook.names["buf"]
    notebook.run("%ckpt undo;")
    assert eval(text, notebook.names) == "one\n"
    assert sys.stdout is stream is notebook.names["buf"]
    notebook.run("%ckpt redo;")
    assert eval(text, notebook.names) == "one\ntwo\n"


def test_what_the_root_logger_wrote_is_undone(notebook: Notebook) -> None:
    notebook.run("import io, logging", AUTO_ON, "buf = io.StringIO(); handler = logging.StreamHandler(buf)")
    notebook.run("logging.root.addHandler(handler)", "logging.warning('one')", "logging.warning('two')")
    try:
        assert "two" in notebook.names["buf"].getvalue()
        assert "one" in notebook.after("%ckpt undo;")["buf"].getvalue()
        assert "two" not in notebook.names["buf"].getvalue()
    finally:
        notebook.run("logging.root.removeHandler(handler)")


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["figure", "axes.figure"])
def test_a_figure_of_another_kernel_shows_its_picture(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cell: str
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    with kernel(folder) as first:
        first.run(
            "from matplotlib import pyplot; figure, axes = pyplot.subplots(); pyplot.close(); del pyplot"
        )
        first.run("%ckpt save drawn")
    with kernel(folder) as second:
        assert second.value("import sys; 'matplotlib' in sys.modules") == "False"
        second.run("%ckpt restore drawn")
        assert "image/png" in second.run(cell)[-1][1]["data"]
