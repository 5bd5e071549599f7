"""docs/start.md and docs/commands.md: what they tell a new user to type works, and shows what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from late import Library
from nbckpt.cli import main

nbclient, nbformat = Library("nbclient"), Library("nbformat.v4")

ROOT = Path(__file__).parents[1]
START = (ROOT / "docs/start.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", START, re.MULTILINE | re.DOTALL)


def outputs(cells: list[str], folder: Path) -> Iterator[str]:
    """Run cells in a new kernel; yield the text below each."""
    notebook = nbformat.new_notebook(cells=[nbformat.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
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


def walked(folder: Path) -> Iterator[str]:
    """Run all blocks in their order; yield what each shows. Each `%load_ext` begins in a new kernel."""
    kernels, kinds = 0, []
    for kind, code in BLOCKS:
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


@pytest.mark.slow
def test_each_block_of_the_start_shows_what_it_says(tmp_path: Path) -> None:
    shown = walked(tmp_path)
    text = ""
    for kind, content in BLOCKS:
        if kind == "text":
            assert shows(text, content), f"{content}\n---\n{text}"
        else:
            text = next(shown)
    assert {kind for kind, _ in BLOCKS} == {"python", "py", "sh", "text"}


def test_the_start_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = START.partition("| with | works |")[2]
    missing = [name for name in project["optional-dependencies"] if f"[{name}]" not in table]
    assert missing == ["test", "dev"]


def test_the_exit_statuses_are_those_of_the_documents(tmp_path: Path) -> None:
    documented = re.findall(r"^\| (\d+) \| (.+) \|$", (ROOT / "docs/commands.md").read_text(), re.MULTILINE)
    assert [int(status) for status, _ in documented] == [0, 1, 2, 130]
    store = ["--store", str(tmp_path)]
    assert main(["ls", *store]) == 0
    assert main(["show", "nothing", *store]) == 1
