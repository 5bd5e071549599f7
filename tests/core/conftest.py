"""Tests of core: what those of the page record share."""

from __future__ import annotations

import pytest

from nbckpt.core.memory.pages import page_record


@pytest.fixture
def recorded() -> None:
    """Skip the test where Linux's page record proves nothing, and say why."""
    if why := page_record().round().why_not:
        pytest.skip(f"no page record here: {why}")


@pytest.fixture(params=["record", "hashing"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with the page record, and without it."""
    if request.param == "hashing":
        monkeypatch.setenv("NBCKPT_PAGE_RECORD", "0")
    else:
        request.getfixturevalue("recorded")
    return str(request.param)
