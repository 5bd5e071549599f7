"""Tests of core: stores of both kinds, and what the tests of the page record share."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from nbckpt.core.memory.pages import page_record
from nbckpt.store import LocalStore, MemoryStore, Store


@pytest.fixture(params=["memory", "local"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Make empty stores of one kind."""
    numbers = itertools.count()
    return lambda: MemoryStore() if request.param == "memory" else LocalStore(tmp_path / f"s{next(numbers)}")


@pytest.fixture
def store(new_store: Callable[[], Store]) -> Store:
    """An empty store, in memory and in a folder."""
    return new_store()


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
