"""Doctests run in a folder of their own, with `nbckpt` at hand, as in a notebook that has imported it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nbckpt
from nbckpt.states import use_folder


@pytest.fixture(autouse=True)
def examples(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Give an example an empty folder, a secret of its own and no settings of the user."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    home: Path = tmp_path_factory.mktemp("example")
    for name in ("NBCKPT_STORE", "NBCKPT_TEMPLATES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NBCKPT_SECRET_FILE", str(home / "secret"))
    monkeypatch.setenv("NBCKPT_CACHE", str(home / "cache"))
    monkeypatch.setenv("NBCKPT_PROVENANCE", "0")
    (home / "here").mkdir()
    monkeypatch.chdir(home / "here")
    with use_folder(home / "states"):
        yield


@pytest.fixture(autouse=True)
def imported(doctest_namespace: dict[str, Any]) -> None:
    """Let examples say `nbckpt.run`, without an import in each."""
    doctest_namespace["nbckpt"] = nbckpt
