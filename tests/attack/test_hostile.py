"""Nothing that a stranger's store or archive says is used before it is known to be there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from attack.limits import run_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_hostile_store_or_archive_is_harmless(tmp_path: Path) -> None:
    lines = run_child("attack.hostile", tmp_path, seconds=850)
    wrong = lines[next((at for at, line in enumerate(lines) if line.startswith("WRONG")), len(lines)) :]
    assert wrong == [], "\n".join(wrong)
