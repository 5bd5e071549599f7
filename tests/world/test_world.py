"""Objects of other people's libraries come back, are named at the save, or are listed as not yet right."""

from __future__ import annotations

import re
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from core.behaviour import ROWS, WORLD, Row, asked, chapters, missing, wrong_answers
from world.guide import GUIDE


@pytest.mark.slow
@pytest.mark.skipif(find_spec("dill") is None, reason="`.ci/run world` has the libraries")
@pytest.mark.timeout(1800)  # imports of large libraries on a busy machine
@pytest.mark.parametrize("chapter", chapters(WORLD))
def test_each_object_comes_back_or_is_named(chapter: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    saved, loaded = (asked(step, tmp_path, chapter) for step in ("save", "load"))
    for row in WORLD:
        if row.chapter == chapter:
            with subtests.test(row.case):
                if library := missing(row):
                    pytest.skip(f"needs {library}")
                outcome, reason = ended(row, saved[row.case] | loaded[row.case])
                assert outcome == row.outcome, reason
                assert row.warning in reason


def ended(row: Row, answers: dict[str, str]) -> tuple[str, str]:
    """Return how a row ended, and why: its warnings, or its wrong answers."""
    warnings = answers.pop("warnings")
    broken = [answers.get(moment, "raised") for moment in row.moments]
    broken = [answer for answer in broken if answer.startswith("raised")]
    if broken:
        return "does not run", str(broken)
    wrong = wrong_answers(row, answers)
    if warnings:
        return "named", warnings
    return ("not yet", str(wrong)) if wrong else ("right", "")


def test_rows_have_their_own_names_and_a_reason() -> None:
    names = Counter(row.case for row in WORLD)
    assert len(WORLD) >= 120
    assert {name for name, count in names.items() if count > 1} == set()
    assert not {*chapters(ROWS)} & {*chapters(WORLD)}
    assert [row.case for row in WORLD if row.outcome == "not yet" and not row.mark[len("not yet: ") :]] == []


def test_the_guide_lists_each_row_as_the_table_does() -> None:
    text = GUIDE.read_text("utf-8")
    lines = re.findall(r"^\| (?!---)(.+?) \| (right|named|not yet)\b.*? \|", text, re.MULTILINE)
    assert lines == [(row.case, row.outcome) for row in WORLD]
