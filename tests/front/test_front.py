"""The modules of the panel: their types, their logic in Node, their size, and what they must not use."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nbckpt.notebook.widget.parts import FRONT, front_parts, loader

TOOLS = Path.home() / ".cache" / "nbckpt-front" / "node_modules" / ".bin"
INSTALL = f"npm install --prefix {TOOLS.parents[1]} typescript@7.0.2 @biomejs/biome@2.6.8"
OWN = sorted(FRONT.glob("*.js"))
LONGEST_MODULE = 350
LARGEST = 116_000
COMMENT = re.compile(r"/\*\*(?:(?!\*/).)*\*/|^[ \t]*//[^\n]*$", re.DOTALL | re.MULTILINE)
UNSAFE = (
    r"\beval\(|new Function|insertAdjacentHTML|outerHTML\s*=[^=]|document\.write"
    r"|\bfetch\(|XMLHttpRequest|WebSocket|localStorage"
)


def program(name: str, install: str) -> str:
    """Return the path of a program. Without it, tests fail where all must run, and are skipped elsewhere."""
    path = shutil.which(name, path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{name} is not installed: {install}")
    return path


def run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_logic_of_the_panel_passes_in_node() -> None:
    node = program("node", "apt install nodejs")
    run(node, "--test", *map(str, sorted(Path(__file__).parent.glob("*.test.mjs"))))


@pytest.mark.slow
def test_the_types_of_the_panel_are_right() -> None:
    run(program("tsc", INSTALL), "-p", str(FRONT))


@pytest.mark.slow
def test_the_modules_of_the_panel_are_linted() -> None:
    run(program("biome", INSTALL), "lint", "--error-on-warnings", ".", cwd=FRONT)


def test_all_that_the_browser_loads_is_small() -> None:
    loaded = [loader().encode(), *front_parts().values()]
    assert len(gzip.compress(b"".join(loaded))) <= LARGEST


def test_the_browser_gets_all_code_and_no_documentation() -> None:
    for path in OWN:
        written = path.read_text()
        sent = front_parts().get(path.name, b"").decode() or loader()
        assert COMMENT.sub("", sent).split() == COMMENT.sub("", written).split()
        assert sent.count("\n") == written.count("\n")
        assert "/**" not in sent


def test_no_text_of_the_panel_spans_lines() -> None:
    """Lines are sent without indentation, which would change such a text."""
    for path in OWN:
        lines = COMMENT.sub("", path.read_text()).splitlines()
        assert [line for line in lines if line.replace("\\`", "").count("`") % 2] == []


@pytest.mark.slow
def test_what_the_browser_gets_is_javascript(tmp_path: Path) -> None:
    own = {name: sent for name, sent in front_parts().items() if name.endswith(".js") and "/" not in name}
    for name, sent in own.items():
        (tmp_path / f"{name}.mjs").write_bytes(sent)
    everything = tmp_path / "all.mjs"
    everything.write_text("".join(f'import "./{name}.mjs";' for name in own))
    run(program("node", "apt install nodejs"), str(everything))


def test_modules_of_the_panel_stay_short() -> None:
    long = {path.name: len(path.read_text().splitlines()) for path in OWN}
    assert {name: lines for name, lines in long.items() if lines > LONGEST_MODULE} == {}


def test_text_of_the_kernel_never_becomes_markup_or_code() -> None:
    """One function puts HTML into the page, that of pages which the kernel has escaped."""
    assert [(path.name, unsafe) for path in OWN if (unsafe := re.findall(UNSAFE, path.read_text()))] == []
    assert {path.name for path in OWN if "innerHTML" in path.read_text()} == {"dom.js"}


def test_no_module_imports_another() -> None:
    """They come from the kernel one by one, so that none has a path to another."""
    imports = re.compile(r"^import\s|^export [^(]* from ['\"]", re.M)
    assert [path.name for path in OWN if imports.search(path.read_text())] == []
