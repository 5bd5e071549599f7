"""Whole stores: what one has and the other lacks, whole or not there, whoever else writes."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sync.trees import ONCE

from nbckpt import Tracker
from nbckpt.errors import NotFoundError, StoreError
from nbckpt.store import Cancel, CancelledError, LocalStore, MemoryStore, Store
from nbckpt.sync.progress import Progress
from nbckpt.sync.stores import mirror
from nbckpt.sync.transfer import TransferOptions
from nbckpt.testing import FaultyStore, RecordingStore

LARGE = random.Random(0).randbytes(200_000)


def saved(store: Store, *values: Any, name: str = "one") -> Store:
    with Tracker(store) as tracker:
        for value in values:
            tracker.save({"x": value}, name)
    return store


def whole(store: Store) -> list[Any]:
    """The values of all checkpoints in a store, every byte of which is read."""
    with Tracker(store) as tracker:
        assert not tracker.verify().damages
        values = []
        for entry in tracker.entries():
            namespace: dict[str, Any] = {}
            tracker.restore(entry.id, namespace)
            values.append(namespace["x"])
        assert all(str(ref) for ref in tracker.history.refs())
        return values


def test_a_copy_ends_though_there_are_always_new_checkpoints() -> None:
    source = saved(MemoryStore(), 1)

    class Target(MemoryStore):
        def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
            saved(source, LARGE)  # between any two lists
            return super().sizes(prefix)

    target = Target()
    assert mirror(source, target).files
    assert whole(target) == [LARGE, 1]


def test_each_checkpoint_is_copied_once(tmp_path: Path) -> None:
    source, target = saved(LocalStore(tmp_path), 1, LARGE), RecordingStore(MemoryStore())
    first = mirror(source, target)
    assert (first.files, first.same) == (len(list(source.keys())), 0)
    assert whole(target) == whole(source) == [LARGE, 1]
    target.calls.clear()
    second = mirror(source, target)
    assert (second.files, second.same, second.size) == (0, first.files, 0)
    assert [call.op for call in target.calls] == ["keys"]


def test_names_and_versions_are_those_of_the_source() -> None:
    source, target = saved(MemoryStore(), 1, 2), MemoryStore()
    mirror(saved(source, 3, name="other"), target)
    with Tracker(source) as one, Tracker(target) as other:
        assert list(map(str, one.history.refs())) == list(map(str, other.history.refs()))


def test_a_killed_push_leaves_only_whole_checkpoints_visible() -> None:
    """Every prefix of the puts is a store in which every visible checkpoint is whole."""
    target = MemoryStore()
    mirror(saved(MemoryStore(), 1), target)
    recorded = RecordingStore(target)
    mirror(saved(MemoryStore(), LARGE, 3), recorded)
    seen = [whole(store) for store in recorded.crashes()]
    assert seen[0] == [1]
    assert sorted(map(str, seen[-1])) == sorted(map(str, [1, 3, LARGE]))
    assert [len(keys) for keys in seen] == sorted(len(keys) for keys in seen)


@pytest.mark.slow
def test_a_push_that_fails_at_any_call_leaves_whole_checkpoints(subtests: pytest.Subtests) -> None:
    """The next push completes the copy."""
    source = saved(MemoryStore(), 1, LARGE)
    for at in range(1, 12):
        target = MemoryStore()
        with subtests.test(at=at):
            try:
                mirror(source, FaultyStore(target, fail_at=at), ONCE)
            except StoreError:
                assert set(map(str, whole(target))) <= {"1", str(LARGE)}
            mirror(source, target)
            assert whole(target) == [LARGE, 1]


def test_two_machines_that_push_at_once_lose_nothing() -> None:
    target = MemoryStore()
    sources = [saved(MemoryStore(), *range(at, at + 3)) for at in (0, 10)]
    gate = threading.Barrier(2)

    def push(source: Store) -> None:
        gate.wait()
        mirror(source, target)

    threads = [threading.Thread(target=push, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(whole(target)) == [0, 1, 2, 10, 11, 12]
    with Tracker(target) as tracker:
        assert sorted(ref.version for ref in tracker.history.refs("one")) == [1, 2, 3, 4, 5, 6]


class Collected(MemoryStore):
    """A source that loses a key while it is being read, as `gc` does."""

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        if key.startswith("packs/") and self.lose:
            self.lose = False
            for name in list(self.keys("packs/")) + list(self.keys("checkpoints/")):
                self.delete(name)
            raise NotFoundError(key)
        return super().get(key, start, stop)

    lose = False


def test_a_checkpoint_collected_during_a_push_is_no_error() -> None:
    source, target = Collected(), MemoryStore()
    saved(source, LARGE)
    source.lose = True
    mirror(source, target)
    assert whole(target) == []


def test_progress_adds_up_until_a_cancel() -> None:
    source = saved(MemoryStore(), 1, LARGE)
    steps: list[Progress] = []
    moved = mirror(source, MemoryStore(), TransferOptions(on_progress=steps.append))
    end = steps[-1]
    assert (end.files_done, end.done) == (end.files, end.size) == (moved.files, moved.size)
    cancel = Cancel()
    cancel.cancel()
    target = MemoryStore()
    with pytest.raises(CancelledError):
        mirror(source, target, TransferOptions(cancel=cancel))
    assert list(target.keys()) == []
