"""The first five minutes in an environment that has only the wheel, and JupyterLab beside it.

NBCKPT_START_PYTHON names its Python; `nox -s start` and `.ci/run start` make it. Each block of docs/start.md
shows what the document says: in JupyterLab, in IPython in a terminal of 80 columns, and in a script.
"""

from __future__ import annotations

import os
import re
import select
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from test_start import BLOCKS

from blocks import script, shell
from notebook.lab import PICTURES, Lab

pytestmark = pytest.mark.browser

COLUMNS = 80
CELLS = [code for kind, code in BLOCKS if kind == "python"]
PROMPT = re.compile(rb"(In \[\d+\]| +\.\.\.): $")
LONGEST_S = 120.0
RULES = re.compile(r"^[- ]+$", re.MULTILINE)


@pytest.fixture(scope="module", autouse=True)
def only_the_wheel() -> Iterator[None]:
    """Hide this checkout, so that the wheel is what runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONPATH", raising=False)
        yield


@pytest.fixture(scope="module")
def python(only_the_wheel: None) -> str:
    """Return the Python that has the wheel."""
    del only_the_wheel
    return os.environ.get("NBCKPT_START_PYTHON") or pytest.skip("needs NBCKPT_START_PYTHON, with the wheel")


def expected() -> Iterator[tuple[str, str, str]]:
    """Yield each block of code: its kind, its code, and the text that it shows; "" for any."""
    for at, (kind, code) in enumerate(BLOCKS):
        if kind != "text":
            is_shown = at + 1 < len(BLOCKS) and BLOCKS[at + 1][0] == "text"
            yield kind, code, BLOCKS[at + 1][1] if is_shown else ""


def pattern(line: str) -> re.Pattern[str]:
    """Return a pattern of a line, in which `…` stands for anything and a space for any space."""
    parts = (r"\s+".join(map(re.escape, part.split())) for part in line.split("…"))
    return re.compile(r"[\s\S]*".join(parts))


def test_jupyterlab_shows_what_the_document_says(lab: Lab) -> None:
    lab.open("start.ipynb", *CELLS)
    texts = [text for kind, _, text in expected() if kind == "python"]
    for at, (code, text) in enumerate(zip(CELLS, texts, strict=True)):
        if at and code.startswith("%load_ext"):
            lab.restart()
        output = lab.run(at)
        for line in text.splitlines():
            expect(output).to_have_text(pattern(line))
        expect(output.locator("[data-mime-type='application/vnd.jupyter.stderr']")).to_have_count(0)
    height = 9000
    lab.page.set_viewport_size({"width": 1280, "height": height})
    lab.page.screenshot(path=PICTURES / "start.png", clip={"x": 0, "y": 0, "width": 1280, "height": 4000})


class Terminal:
    """IPython in a terminal of 80 columns."""

    def __init__(self, python: str, folder: Path) -> None:
        import fcntl
        import pty
        import termios

        self._fd, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        attributes = termios.tcgetattr(theirs)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        environment = {**os.environ, "IPYTHONDIR": str(folder / ".ipython"), "TERM": "dumb"}
        environment.pop("COLUMNS", None)
        self._process = subprocess.Popen(
            [python, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"],
            cwd=folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._until_prompt()

    def type(self, code: str) -> str:
        """Type a cell line by line; return what it shows."""
        shown = "".join(map(self._line, code.splitlines()))
        return shown + (self._line("") if self._continues else "")

    def _line(self, line: str) -> str:
        os.write(self._fd, f"{line}\n".encode())
        return self._until_prompt()

    def _until_prompt(self) -> str:
        data = b""
        while not (prompt := PROMPT.search(data)):
            assert select.select([self._fd], [], [], LONGEST_S)[0], data.decode()
            data += os.read(self._fd, 1 << 16)
        self._continues = prompt[0].endswith(b"...: ")
        return data[: prompt.start()].decode().replace("\r\n", "\n")

    def close(self) -> None:
        """End IPython."""
        os.write(self._fd, b"exit\n")
        self._process.wait(LONGEST_S)
        os.close(self._fd)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")
def test_ipython_at_80_columns_shows_what_the_document_says(python: str, tmp_path: Path) -> None:
    """A new IPython starts for each `%load_ext`; the shell and the script come after it."""
    terminal: Terminal | None = None
    everything = []
    for kind, code, text in expected():
        if code.startswith("%load_ext"):
            if terminal is not None:
                terminal.close()
            terminal = Terminal(python, tmp_path)
        assert terminal is not None
        if kind == "python":
            shown = terminal.type(code)
            assert max([len(rule) for rule in RULES.findall(shown)], default=0) <= COLUMNS
        else:
            shown = (script if kind == "py" else shell)(code, tmp_path, python)
        everything.append(f"{code}{shown}\n")
        for line in text.splitlines():
            assert pattern(line).search(shown), f"{line}\n---\n{shown}"
    assert terminal is not None
    terminal.close()
    PICTURES.mkdir(exist_ok=True, parents=True)
    (PICTURES / "start-80.txt").write_text("".join(everything))
