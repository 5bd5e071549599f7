"""Every row of the correctness table, in the live kernel and in a new one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.rows import ROWS, Row

CASES = [pytest.param(row, id=row.case) for row in ROWS if not row.warning]
WARNED = [pytest.param(row, id=row.case) for row in ROWS if row.warning]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What every row gave when it was saved, after a restore there, and in another process."""
    folder = tmp_path_factory.mktemp("rows")
    answers: dict[str, str] = {}
    for step in ("save", "load"):
        command = [sys.executable, str(Path(__file__).with_name("rows.py")), step, str(folder)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=240, check=False, env=_env(folder)
        )
        assert done.returncode == 0, done.stderr
        answers |= json.loads(done.stdout.splitlines()[-1])
    return answers


def _env(folder: Path) -> dict[str, str]:
    import os

    return {**os.environ, "NBCKPT_SECRET_FILE": str(folder / "secret")}


@pytest.mark.slow
@pytest.mark.parametrize("row", CASES)
@pytest.mark.parametrize("kernel", ["live", "new"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_restore_reproduces_the_saved_values(
    row: Row, moment: str, kernel: str, answers: dict[str, str]
) -> None:
    assert answers[f"{row.case}/{moment}/{kernel}"] == answers[f"{row.case}/{moment}"]


@pytest.mark.slow
@pytest.mark.parametrize("row", WARNED)
def test_a_save_warns_about_values_that_cannot_be_restored(row: Row, answers: dict[str, str]) -> None:
    assert row.warning in answers[f"{row.case}/warnings"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "row", [case for case in CASES if case.values[0].case != "changed by a background thread"]
)
def test_a_save_does_not_warn_about_restorable_values(row: Row, answers: dict[str, str]) -> None:
    assert answers[f"{row.case}/warnings"] == ""
