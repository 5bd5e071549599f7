"""The limits of %ckpt auto: how they are written, and which are refused."""

from __future__ import annotations

import pytest

from nbckpt.timeline.retention import Limits
from notebook.conftest import Notebook

WRITTEN = {
    "": Limits(0.05, 200),
    "--budget 5%": Limits(0.05, 200),
    "--budget 0.5%": Limits(0.005, 200),
    "--keep 200": Limits(0.05, 200),
    "--keep 5": Limits(0.05, 5),
    "--max 2GB": Limits(0.05, None, 2 * 10**9),
    "--budget 150% --max '1.5 MB'": Limits(1.5, None, 1_500_000),
}


def test_limits_are_as_they_are_written(notebook: Notebook, subtests: pytest.Subtests) -> None:
    for words, limits in WRITTEN.items():
        with subtests.test(words):
            assert notebook.run(f"%ckpt auto on {words}").limits == limits


@pytest.mark.parametrize("keep", [5, 200, 0])
def test_keep_and_max_together_are_refused(notebook: Notebook, keep: int) -> None:
    error = notebook.error(f"%ckpt auto on --keep {keep} --max 2GB")
    assert error.startswith(f"UsageError: --keep {keep} and --max 2GB exclude each other: give one")
    assert notebook.run("%ckpt auto").limits is None
