"""Many saves in one kernel: the last one does no more than an early one, and leaves no more behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

import pytest

from attack import share
from attack.limits import run_child

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="what is read and written is counted by Linux"
)

SAVES = share.of(1500, 80)
PER_SAVE = {"objects": 3, "blocks": 40}
"""What a save may add to what a kernel holds: where its blobs are, and what pandas keeps for a while."""
CALLS = 50
"""How many more functions a save may call than the one before: it lists versions, packs and their folders."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_cost_of_a_save_does_not_grow_with_their_number(tmp_path: Path) -> None:
    saves = [json.loads(line) for line in run_child("attack.saving", tmp_path, str(SAVES), seconds=850)]
    assert len(saves) == SAVES
    early, late = saves[SAVES // 10 :][:20], saves[-20:]
    assert early[0].keys() >= {"open", "rchar", "syscr", "syscw"}
    apart = {*PER_SAVE, "rchar", "os.scandir", "pack folders", "calls"}
    for count in {name for save in saves for name in save} - apart:
        assert max(save.get(count, 0) for save in late) <= max(save.get(count, 0) for save in early), count
    # Sizes and numbers have a few digits more.
    assert max(save["rchar"] for save in late) <= max(save["rchar"] for save in early) + 16
    # Packs are in up to 256 folders, one of which may be new.
    scans = [max(save["os.scandir"] - save["pack folders"] for save in some) for some in (early, late)]
    assert scans[1] <= scans[0] + 1
    calls = [median(save["calls"] for save in some) for some in (early, late)]
    assert calls[1] - calls[0] <= CALLS * SAVES
    held = [save for save in saves if "objects" in save]
    for count, most in PER_SAVE.items():
        grown = held[-1][count] - held[len(held) // 8][count]
        assert grown <= most * SAVES + 500, count
