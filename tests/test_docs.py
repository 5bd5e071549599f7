"""The documents say what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nbckpt.commands import TABLE
from nbckpt.core import reducers
from nbckpt.core.manifest import FORMAT

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md")])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_readme_names_every_command() -> None:
    table = (ROOT / "README.md").read_text().partition("## What it does")[2].partition("## ")[0]
    words = set(re.findall(r"[a-z]+", " ".join(re.findall(r"`([^`]+)`", table))))
    assert set(TABLE) - words - {"status"} == set()


def test_the_format_names_its_version_and_every_function_that_records_call() -> None:
    text = (ROOT / "FORMAT.md").read_text()
    made = [name for name in vars(reducers) if name.startswith(("make_", "fill_"))]
    assert f"version {FORMAT}" in text.splitlines()[0]
    assert [name for name in made if f"{name}`" not in text] == []


def test_the_architecture_names_every_layer() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    layers = [it.name for it in (ROOT / "nbckpt").iterdir() if it.is_dir() and not it.name.startswith("__")]
    assert [name for name in layers if f"`{name}/`" not in text] == []
