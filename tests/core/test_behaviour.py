"""Whatever a notebook makes still works after a restore, in this kernel and in a new one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.behaviour import CHAPTERS, ROWS, missing


def asked(step: str, folder: Path, chapter: str) -> dict[str, dict[str, str]]:
    """Return what each row gives in a new kernel that runs `save` or `load`."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", f"from core.behaviour import {step}; {step}({str(folder)!r}, {chapter!r})"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=folder,
        env=os.environ | {"IPYTHONDIR": str(folder / "ipython"), "MPLBACKEND": "agg", "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_restored_values_behave_as_before(chapter: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    saved, loaded = (asked(step, tmp_path, chapter) for step in ("save", "load"))
    for row in ROWS:
        if row.chapter == chapter:
            with subtests.test(row.case):
                if library := missing(row):
                    pytest.skip(f"needs {library}")
                warnings = saved[row.case].pop("warnings")
                assert row.warning in warnings if row.warning else not warnings
                given = saved[row.case] | loaded[row.case]
                assert [given[moment] for moment in row.moments if given[moment].startswith("raised")] == []
                assert given == {when: given[when.partition(",")[0]] for when in given}
