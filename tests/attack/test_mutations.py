"""Every kind of file, mutated: what comes back is right, or one of our errors; nothing hangs or eats memory.

Set NBCKPT_ATTACK=full to try all cases. `attack/mutations.py` says how to try one.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from attack import share
from attack.limits import run_child
from attack.samples import V1

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")

SHARES = share.of([(start, start + 500) for start in range(0, 5000, 500)], [(0, 40)])


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the secret with which the samples were signed."""
    shutil.copy(V1 / "secret", tmp_path / "secret")
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(tmp_path / "secret"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("share", SHARES, ids=lambda share: f"{share[0]} to {share[1]}")
@pytest.mark.usefixtures("secret")
def test_a_mutated_file_gives_right_data_or_our_error(share: tuple[int, int], tmp_path: Path) -> None:
    lines = run_child("attack.mutations", tmp_path / "files", *map(str, share), seconds=850)
    wrong = [at for at, line in enumerate(lines) if line.startswith("WRONG")]
    assert not wrong, "\n".join(lines[wrong[0] : wrong[0] + 40])
    assert len(lines) >= share[1] - share[0]
