"""The pages of the site: every block of code is run, or the page says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocks import KINDS, blocks_of, check

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {
    str(path.relative_to(DOCS)): path.read_text()
    for path in sorted([*DOCS.glob("*.md"), *DOCS.glob("guides/*.md"), *DOCS.glob("coming-from/*.md")])
}
RUN = [name for name, text in PAGES.items() if blocks_of(text) and name != "start.md"]


def test_a_block_is_left_out_only_with_its_reason() -> None:
    run, left = "```sh\nls\n```\n", "_Not run here: it needs a bucket of yours._\n\n```sh\naws\n```\n"
    assert blocks_of(left + run) == [("sh", "ls\n")]
    assert blocks_of("_Not run here: ._\n\n" + run) == [("sh", "ls\n")]


def test_every_block_of_the_pages_has_a_kind_that_is_run() -> None:
    kinds = {name: {kind for kind, _ in blocks_of(text)} - KINDS for name, text in PAGES.items()}
    assert len(kinds) > 20
    assert {name: unknown for name, unknown in kinds.items() if unknown} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_each_block_of_a_page_shows_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBCKPT_PROVENANCE", "1")
    check(blocks_of(PAGES[name]), tmp_path)
