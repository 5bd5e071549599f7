"""Every picture that a document shows is one that docs/pictures.py makes, and is there."""

from __future__ import annotations

import re
from pathlib import Path

import pictures

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
PICTURE = re.compile(r"""(?:!\[[^\]]*\]\(|(?:src|srcset)=")(?!https?:)([^)"#]+)""")


def shown(text: str) -> set[str]:
    """Return the names of the pictures that a document shows."""
    return {Path(path).name for path in PICTURE.findall(text)}


def test_the_documents_show_exactly_the_pictures_of_the_script() -> None:
    assert set().union(*(shown(path.read_text()) for path in DOCUMENTS)) == pictures.NAMES
    assert {path.name for path in DOCS.rglob("*.png")} == pictures.NAMES


def test_a_page_that_shows_a_light_picture_shows_its_dark_one() -> None:
    for path in DOCUMENTS:
        names = shown(path.read_text())
        light = {name for name in names if not name.endswith("-dark.png")}
        assert {name.replace(".png", "-dark.png") for name in light} == names - light, path


def test_a_picture_of_another_place_is_seen_in_a_document() -> None:
    text = '![By hand](docs/by-hand.png) <img alt="x" src="a/b.png"> [![badge](https://c/d.svg)](https://c)'
    assert shown(text) == {"by-hand.png", "b.png"}
