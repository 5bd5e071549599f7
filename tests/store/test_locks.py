"""Locks: one holder at a time, also where they lie in memory, as in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbckpt.store.locks import Timeout, file_lock


@pytest.mark.parametrize("ends_with_process", [True, False])
def test_one_process_at_a_time_holds_a_lock(
    ends_with_process: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbckpt.store.locks.ENDS_WITH_PROCESS", ends_with_process)
    one, other, apart = (file_lock(tmp_path / name, timeout=0, thread_local=False) for name in "aab")
    with one, apart, pytest.raises(Timeout):
        other.acquire()
    with other:
        assert other.is_locked
    assert (tmp_path / "a").exists() == ends_with_process
