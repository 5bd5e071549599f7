"""docs/start.md and docs/commands.md: what they tell a new user to type works, and shows what they say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from blocks import blocks_of, check
from nbckpt.cli import main

ROOT = Path(__file__).parents[1]
START = (ROOT / "docs/start.md").read_text()
BLOCKS = blocks_of(START)


@pytest.mark.slow
def test_each_block_of_the_start_shows_what_it_says(tmp_path: Path) -> None:
    check(BLOCKS, tmp_path)
    assert {kind for kind, _ in BLOCKS} == {"python", "py", "sh", "text"}


def test_the_start_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = START.partition("| with | works |")[2]
    missing = [name for name in project["optional-dependencies"] if f"[{name}]" not in table]
    assert missing == ["test", "docs", "dev"]


def test_the_exit_statuses_are_those_of_the_documents(tmp_path: Path) -> None:
    documented = re.findall(r"^\| (\d+) \| (.+) \|$", (ROOT / "docs/commands.md").read_text(), re.MULTILINE)
    assert [int(status) for status, _ in documented] == [0, 1, 2, 130]
    store = ["--store", str(tmp_path)]
    assert main(["ls", *store]) == 0
    assert main(["show", "nothing", *store]) == 1
