"""The blocks of code in a document: run in their order, and compared with what the document says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import kernels
from late import Library

nbformat = Library("nbformat.v4")

Block = tuple[str, str]
"""The kind of a block and its content. `python` is a cell of a notebook, `py` a script, `sh` commands of a
shell, and `text` a part of what the block before it shows."""

KINDS = {"python", "py", "sh", "text"}
NOT_RUN = re.compile(r"^_Not run here: \S[^\n]{10,}_\n\n```\w+\n.*?^```$\n?", re.M | re.S)


def blocks_of(document: str) -> list[Block]:
    """Return the blocks of a document, without those that it says are not run here, and why."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", NOT_RUN.sub("", document), re.M | re.S)


def outputs(cells: list[str], folder: Path) -> Iterator[str]:
    """Run cells in a new kernel; yield the text below each."""
    notebook = nbformat.new_notebook(cells=[nbformat.new_code_cell(cell) for cell in cells])
    kernels.client_of(notebook, folder).execute()
    for cell in notebook.cells:
        texts = (
            output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs
        )
        yield "\n".join(texts)


def shell(commands: str, folder: Path, python: str = sys.executable) -> str:
    """Run the commands of a shell, with the programs of a Python's environment first on the path."""
    environment = os.environ | {"PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-ec", commands], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def script(code: str, folder: Path, python: str = sys.executable) -> str:
    """Run a script and return what it prints."""
    (folder / "rates.py").write_text(code)
    return shell(f"'{python}' rates.py", folder)


def walked(blocks: Sequence[Block], folder: Path) -> Iterator[str]:
    """Run all blocks in their order; yield what each shows. Each `%load_ext` begins in a new kernel."""
    kernels, kinds = 0, []
    for kind, code in blocks:
        kernels += kind == "python" and code.startswith("%load_ext")
        if kind != "text":
            kinds.append(((kind, kernels), code))
    for (kind, _), group in groupby(kinds, key=lambda block: block[0]):
        codes = [code for _, code in group]
        if kind == "python":
            yield from outputs(codes, folder)
        else:
            yield from (script(code, folder) if kind == "py" else shell(code, folder) for code in codes)


def shows(text: str, expected: str) -> bool:
    """Tell whether every expected line is in a text; `…` stands for anything on the line."""
    patterns = (".*".join(map(re.escape, line.split("…"))) for line in expected.splitlines())
    return all(re.search(pattern, text) for pattern in patterns)


def check(blocks: Sequence[Block], folder: Path) -> None:
    """Run all blocks; fail if one does not show what stands below it."""
    shown = walked(blocks, folder)
    text = ""
    for kind, content in blocks:
        if kind == "text":
            assert shows(text, content), f"{content}\n---\n{text}"
        else:
            text = next(shown)
