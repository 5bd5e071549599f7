"""Copies of stores beside gc: of compacted packs, during its deletions, and with damaged tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from paged import PagedStore

from nbckpt import Tracker
from nbckpt.core import renewal
from nbckpt.core.gc import collect
from nbckpt.core.manifest import now
from nbckpt.core.packs.format import pack_key
from nbckpt.store import MemoryStore, Store
from nbckpt.sync.stores import mirror
from nbckpt.timeline.timeline import Timeline

RANDOM = np.random.default_rng(0)
ONE, TWO, LARGE = RANDOM.random(5_000), RANDOM.random(5_000), RANDOM.random(50_000)


def values(store: Store, name: str) -> dict[str, np.ndarray]:
    """The values of a checkpoint, read whole."""
    namespace: dict[str, np.ndarray] = {}
    Tracker(store).restore(name, namespace)
    return namespace


def saved() -> Store:
    """A store with three checkpoints that share one pack."""
    store = MemoryStore()
    tracker = Tracker(store)
    tracker.save({"one": ONE, "two": TWO, "large": LARGE}, "all")
    tracker.save({"one": ONE}, "first")
    tracker.save({"two": TWO}, "second")
    return store


def compacted() -> Store:
    """A store in which gc compacted the pack of a checkpoint, after all others were removed."""
    store = saved()
    compact(store, "all", "second")
    return store


def compact(store: Store, *gone: str) -> None:
    tracker = Tracker(store)
    tracker.remove(list(gone))
    assert collect(tracker.history, wait=lambda _: None).rewritten


def test_a_push_takes_a_compacted_pack_that_a_point_shares() -> None:
    source, target = compacted(), MemoryStore()
    Timeline(Tracker(source), {"one": ONE}, lambda: ()).record({})
    assert mirror(source, target).left_out == {}
    assert np.array_equal(values(target, "first")["one"], ONE)


def test_stores_that_compacted_one_pack_read_all_of_it() -> None:
    source, target = saved(), MemoryStore()
    mirror(source, target)
    compact(source, "all", "second")
    compact(target, "all", "first")
    for one, other in ((source, target), (target, source)):
        assert mirror(one, other).left_out == {}
    for store in (source, target):
        assert np.array_equal(values(store, "first")["one"], ONE)
        assert np.array_equal(values(store, "second")["two"], TWO)
        assert not Tracker(store).verify().damages
    for store, gone, left in ((source, "second", "first"), (target, "first", "second")):
        Tracker(store).remove([gone])
        assert collect(Tracker(store).history, wait=lambda _: None).freed
        assert values(store, left)
        assert not Tracker(store).verify().damages


@pytest.mark.parametrize("end", [".moved", ".pack"])
def test_what_a_damaged_table_leads_to_is_left_out_by_name(end: str) -> None:
    source, target = compacted(), MemoryStore()
    table = next(key for key in source.keys("packs/") if key.endswith(".moved"))
    pack = json.loads(source.get(table))["packs"][0]
    key = table if end == ".moved" else pack_key(pack)
    whole = source.get(key)
    at = len(whole) // 2
    source.put(key, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert {key} < mirror(source, target).left_out.keys()
    assert not [*target.keys("checkpoints/")]
    source.put(key, whole)
    assert mirror(source, target).left_out == {}
    assert np.array_equal(values(target, "first")["one"], ONE)


def test_a_name_without_its_checkpoint_is_not_copied() -> None:
    source, target = MemoryStore(), MemoryStore()
    tracker = Tracker(source)
    tracker.save({"x": 1}, "n")
    manifest = next(source.keys("checkpoints/"))
    data = source.get(manifest)
    source.delete(manifest)  # a save that is about to show it
    mirror(source, target)
    assert not [*target.keys("refs/")]
    source.put(manifest, data)
    mirror(source, target)
    assert values(target, "n") == {"x": 1}


class Deleting(MemoryStore):
    """A store with a push that comes when gc, which has looked for the last time, begins to delete."""

    def __init__(self) -> None:
        super().__init__()
        self.push = threading.Thread()
        self.waits = threading.Event()

    def keys(self, prefix: str = "") -> Iterator[str]:
        if prefix == "condemned/" and threading.current_thread().name.startswith("nbckpt-sync"):
            self.waits.set()
        return super().keys(prefix)

    def delete(self, key: str) -> None:
        if key.startswith("packs/") and self.push.ident is None:
            self.push.start()
            assert self.waits.wait(60)
        super().delete(key)


def test_a_push_while_gc_deletes_there_is_whole_afterwards() -> None:
    source, target = MemoryStore(), Deleting()
    tracker = Tracker(source)
    tracker.save({"one": ONE}, "old")
    mirror(source, target)
    Tracker(target).remove(["old"])
    tracker.save({"one": ONE}, "new")
    target.push = threading.Thread(target=mirror, args=(source, target))
    assert collect(Tracker(target).history, wait=lambda _: None).packs
    target.push.join()
    assert np.array_equal(values(target, "new")["one"], ONE)
    assert not Tracker(target).verify().damages


class Losing(MemoryStore):
    """A store from which gc takes a checkpoint while another one is copied."""

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        if key.startswith("checkpoints/") and (lost := self.lost):
            self.lost = ""
            self.delete(lost)
        return super().get(key, start, stop)

    lost = ""


def test_what_was_copied_before_gc_ran_in_the_source_counts() -> None:
    source, target = Losing(), MemoryStore()
    for name in "ab":
        Tracker(source).save({"x": ONE}, name)
    source.lost = list(source.keys("checkpoints/"))[-1]
    moved = mirror(source, target)
    assert moved.files == len([*target.keys()]) > 3
    assert moved.size == sum(size for _, size in target.sizes())


def test_a_kept_cell_is_noted_as_one_beside_a_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "SMALLEST", 1)
    source, target = MemoryStore(), PagedStore()
    Tracker(target).save({"x": 0}, "n")
    renewal.renew_catalogue(Tracker(target).history)
    Tracker(source).save({"x": 1}, "n")
    history = Tracker(source).history
    made = replace(history.read(history.resolve("n")), created_at=now())
    history.publish(made, "cell:prep", kind="cells")
    mirror(source, target)
    there = Tracker(target).history
    assert there.listed() is not there
    assert there.listed().entries() == there.entries()
    assert there.listed().entries("cells") == there.entries("cells") != []
