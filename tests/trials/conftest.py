"""Fixtures for the tests of trials: what a trial is to leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def nothing_temporary_left(tmp_path: Path) -> Iterator[None]:
    """Hold that no staged folder and no temporary checkpoint is left below the test's folder."""
    yield
    left = [*tmp_path.rglob(".*nbckpt-tmp*"), *tmp_path.rglob("checkpoint_tmp*")]
    # A store keeps the folder of this very name, empty, for its next write.
    assert not [
        str(path.relative_to(tmp_path)) for path in left if path.name != ".nbckpt-tmp" or any(path.iterdir())
    ]
