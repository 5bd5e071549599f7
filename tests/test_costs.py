"""What a save and a restore ask of a store does not grow with the history, but for the listed versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nbckpt.commands import TABLE, Session, parse
from nbckpt.mirror import AutoMirror
from nbckpt.store import MemoryStore
from nbckpt.tracker import Tracker


class CountingStore(MemoryStore):
    """A store that counts what is asked of it, and how many keys it listed."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.listed = 0

    def keys(self, prefix: str = "") -> Iterator[str]:
        self.calls["list"] += 1
        keys = list(super().keys(prefix))
        self.listed += len(keys)
        return iter(keys)

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        self.calls["list"] += 1
        sizes = list(super().sizes(prefix))
        self.listed += len(sizes)
        return iter(sizes)

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        self.calls[f"get {key.partition('/')[0]}"] += 1
        return super().get(key, start, stop)

    def exists(self, key: str) -> bool:
        self.calls["exists"] += 1
        return super().exists(key)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def tracker(store: CountingStore) -> Tracker:
    return Tracker(store)


def run(tracker: Tracker, words: str) -> None:
    session = Session(tracker, AutoMirror(tracker.store, in_background=False), {})
    parse(TABLE, words.split(), "%ckpt").run(session)


def cost(store: CountingStore, work: Any) -> tuple[dict[str, int], int]:
    """Return how often what was asked of the store, and how many keys it listed."""
    store.calls.clear()
    store.listed = 0
    work()
    return dict(store.calls), store.listed


@pytest.mark.slow
def test_a_restore_by_name_lists_once_and_reads_one_manifest(store: CountingStore, tracker: Tracker) -> None:
    for count in range(300):
        tracker.save({"x": count}, "x")
    for words, lists in (("restore x", 1), ("restore latest", 2)):  # the latest may be a point of a cell
        calls, listed = cost(store, lambda words=words: run(tracker, words))
        assert calls["list"] == lists
        assert calls["get checkpoints"] == 1
        assert sum(calls.values()) <= 5
        assert listed == 300


@pytest.mark.parametrize("ref", ["x@3", "x~2", "t1", "t1@2"])
def test_a_restore_lists_the_store_at_most_three_times(
    store: CountingStore, tracker: Tracker, ref: str
) -> None:
    for name in ("x", "t1") * 5:
        tracker.save({"x": name}, name)
    looks = 2 if ref.startswith("t1") else 1  # whether it is one of a trial is looked up first
    assert cost(store, lambda: run(tracker, f"restore {ref}"))[0]["list"] <= 3 * looks


@pytest.mark.parametrize(("old", "new"), [("x@3", "x"), ("t1", "t1@2")])
def test_a_comparison_lists_the_store_once_for_each_side(
    store: CountingStore, tracker: Tracker, old: str, new: str
) -> None:
    for name in ("x", "t1") * 5:
        tracker.save({"x": name}, name)
    alone = sum(cost(store, lambda ref=ref: tracker.find(ref))[0]["list"] for ref in (old, new))
    assert cost(store, lambda: run(tracker, f"diff {old} {new}"))[0]["list"] == alone


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100_000], ids=["carried in the manifest", "in a pack"])
def test_the_300th_save_makes_no_more_requests_than_the_10th(
    store: CountingStore, tracker: Tracker, size: int
) -> None:
    random = np.random.default_rng(1)
    costs = [
        cost(store, lambda: tracker.save({"x": random.integers(0, 256, size, np.uint8)}, "x"))
        for _ in range(300)
    ]
    assert costs[299][0] == costs[9][0]
    assert costs[299][1] - costs[9][1] <= 2 * 290  # its own versions and packs


def test_a_ref_without_its_location_is_found(store: CountingStore, tracker: Tracker) -> None:
    tracker.save({"x": 1}, "x")
    tracker.save({"x": 2}, "y")
    (key,) = store.keys("refs/x/")
    first_format, wrong = store.get(key).split(b"\n")[0] + b"\n", b"0\n" + tracker.find("y").moment.encode()
    for content in (first_format, wrong):
        store.put(key, content)
        namespace: dict[str, Any] = {}
        tracker.restore("x", namespace)
        assert namespace == {"x": 1}


def test_show_resolves_its_reference_once(tracker: Tracker, store: CountingStore) -> None:
    tracker.save({"a": 1}, "a")
    calls, _ = cost(store, lambda: run(tracker, "show a@1"))
    assert calls["get refs"] == calls["get checkpoints"] == 1
