"""Whatever a notebook makes still works after a restore, in this kernel and in a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.behaviour import ROWS, asked, chapters, missing, wrong_answers


@pytest.mark.slow
@pytest.mark.parametrize("chapter", chapters(ROWS))
def test_restored_values_behave_as_before(chapter: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    saved, loaded = (asked(step, tmp_path, chapter) for step in ("save", "load"))
    for row in ROWS:
        if row.chapter == chapter:
            with subtests.test(row.case):
                if library := missing(row):
                    pytest.skip(f"needs {library}")
                warnings = saved[row.case].pop("warnings")
                assert row.warning in warnings if row.warning else not warnings
                assert wrong_answers(row, saved[row.case] | loaded[row.case]) == {}
