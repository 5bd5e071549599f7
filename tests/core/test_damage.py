"""A damaged store: later saves do not share what is damaged, and what is lost comes back from a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core import stored
from core.stored import KB, collected, noise, pack_with
from nbckpt import Tracker
from nbckpt.core.damage import repair, set_aside
from nbckpt.core.packs.format import pack_key, pack_of
from nbckpt.errors import CodecError, StoreError
from nbckpt.mirror import Mirror
from nbckpt.store import CachedStore, LocalStore, MemoryStore, Store
from nbckpt.sync.stores import mirror
from nbckpt.testing import FaultyStore, RecordingStore

A, B, C, D = (noise(600 * KB, seed) for seed in range(4))


@pytest.fixture
def tracker(store: Store) -> Tracker:
    tracker = Tracker(store)
    tracker.save({"a": A, "b": B}, "old", variables=["a", "b"])
    return tracker


def flip(store: Store, array: np.ndarray = A) -> str:
    key, at = pack_with(store, array)
    stored.flip(store, key, at + 7)
    return pack_of(key)


def cut(store: Store) -> str:
    key, at = pack_with(store, A)
    store.put(key, store.get(key)[: at + 100 * KB])
    return pack_of(key)


def restored(tracker: Tracker, ref: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    tracker.restore(ref, namespace)
    return namespace


def is_whole(tracker: Tracker, ref: str) -> bool:
    return not tracker.verify([ref]).damages and np.array_equal(restored(tracker, ref)["a"], A)


def test_the_next_save_rewrites_data_that_verify_found_damaged(tracker: Tracker) -> None:
    pack = flip(tracker.store)
    assert len(tracker.verify().damages) == 1
    assert list(tracker.store.keys("damaged/")) == [f"damaged/{pack}"]
    for _ in range(2):
        assert tracker.save({"a": A}, "new", variables=["a"]).new_bytes >= 0
        assert is_whole(tracker, "new")
    assert is_whole(Tracker(tracker.store), "new")


def test_the_next_save_rewrites_data_that_restore_found_damaged(tracker: Tracker) -> None:
    flip(tracker.store)
    assert sorted(restored(tracker, "old")) == ["b"]
    tracker.save({"a": A}, "new", variables=["a"])
    assert is_whole(tracker, "new")


def test_a_pack_that_is_cut_short_is_never_shared(tracker: Tracker) -> None:
    cut(tracker.store)
    tracker.save({"a": A}, "new", variables=["a"])
    assert is_whole(tracker, "new")


def test_undamaged_values_of_a_damaged_pack_are_restored(tracker: Tracker) -> None:
    flip(tracker.store)
    for _ in range(2):
        assert [damage.touches[0][1] for damage in tracker.verify().damages] == [("a",)]
        assert np.array_equal(restored(Tracker(tracker.store), "old")["b"], B)


def test_a_save_of_the_same_data_repairs_older_checkpoints(tracker: Tracker) -> None:
    flip(tracker.store)
    tracker.verify()
    tracker.save({"a": A, "b": B}, "again", variables=["a", "b"])
    assert is_whole(tracker, "old")


def test_an_undamaged_pack_is_not_set_aside(tracker: Tracker) -> None:
    key, _ = pack_with(tracker.store, A)
    assert not set_aside(tracker.store, pack_of(key))
    assert not set_aside(tracker.store, "0" * 64)
    assert tracker.store.exists(key)


def test_a_pack_with_unknown_algorithms_is_not_set_aside(tracker: Tracker) -> None:
    key, _ = pack_with(tracker.store, A)
    tracker.store.put(key, b"NBCKPAK9" + tracker.store.get(key)[8:])
    assert not set_aside(tracker.store, pack_of(key))


def test_a_damaged_store_that_is_read_only_is_still_verified(tracker: Tracker) -> None:
    flip(tracker.store)
    full = Tracker(FaultyStore(tracker.store, when=lambda call: call.op in {"put", "delete"}))
    assert len(full.verify().damages) == 1
    assert sorted(restored(full, "old")) == ["b"]


@pytest.mark.parametrize("damage", [flip, cut, lambda store: store.delete(pack_with(store, A)[0])])
def test_repair_fetches_damaged_packs_from_a_copy(tracker: Tracker, damage: Any) -> None:
    copy = MemoryStore()
    mirror(tracker.store, copy)
    damage(tracker.store)
    verified = tracker.verify(repair_from=copy)
    assert {damage.pack for damage in verified.damages} == set(verified.repaired) != set()
    assert is_whole(tracker, "old")
    assert list(tracker.store.keys("damaged/")) == []


def compacted(tracker: Tracker, *copies: Store) -> str:
    """Compact a pack of which `one` and `two` need a part each, after a copy. Return the key of its table."""
    more = {"c": C, "d": D, "rest": noise(2400 * KB, 4)}
    tracker.save(more, "all", variables=list(more))
    for ref, name in (("one", "c"), ("two", "d")):
        tracker.save({name: more[name]}, ref, variables=[name])
    for copy in copies:
        mirror(tracker.store, copy)
    tracker.remove(["all"])
    collected(tracker.store)
    (table,) = (key for key in tracker.store.keys("packs/") if key.endswith(".moved"))
    return table


@pytest.mark.parametrize("damage", ["flip", "cut", "delete"])
def test_repair_restores_the_table_of_a_compacted_pack(tracker: Tracker, damage: str) -> None:
    copy, store, table = MemoryStore(), tracker.store, compacted(tracker)
    mirror(store, copy)
    data = store.get(table)
    store.put(table, data[:50] + bytes([data[50] ^ 1]) + data[51:] if damage == "flip" else data[:50])
    if damage == "delete":
        store.delete(table)
    assert len(tracker.verify(repair_from=copy).repaired) == 1
    assert tracker.verify().damages == []
    assert np.array_equal(restored(tracker, "one")["c"], C)
    assert tracker.collect(dry_run=True).kept == []
    copy.put(table, data[:50])
    store.put(table, data[:50])
    assert tracker.verify(repair_from=copy).repaired == []


def test_repair_of_a_table_keeps_what_only_this_store_has(tracker: Tracker) -> None:
    """Both stores compacted the same pack, each for checkpoints of its own."""
    copy = MemoryStore()
    table = compacted(tracker, copy)
    Tracker(copy).remove(["all", "two"])
    collected(copy)
    tracker.store.put(table, b"damaged")
    recording = RecordingStore(tracker.store)
    assert len(Tracker(recording).verify(repair_from=copy).repaired) == 1
    for crashed in (*recording.crashes(), tracker.store):
        here = Tracker(crashed)
        here.verify(repair_from=copy)
        collected(here.store)
        assert here.verify().damages == []
        assert np.array_equal(restored(here, "one")["c"], C)
        assert np.array_equal(restored(here, "two")["d"], D)


def test_a_copy_that_cannot_be_read_hides_no_damage(tracker: Tracker) -> None:
    copy = MemoryStore()
    mirror(tracker.store, copy)
    pack = flip(tracker.store)
    verified = tracker.verify(repair_from=FaultyStore(copy, when=lambda call: call.op == "get"))
    assert {damage.pack for damage in verified.damages} == {pack}
    assert verified.repaired == []
    assert verified.failure


def test_a_damaged_copy_repairs_nothing(tracker: Tracker) -> None:
    copy = MemoryStore()
    mirror(tracker.store, copy)
    pack = flip(tracker.store)
    flip(copy)
    assert tracker.verify(repair_from=copy).repaired == []
    assert not repair(tracker.store, pack, MemoryStore())
    assert list(tracker.store.keys("damaged/")) == [f"damaged/{pack}"]


def test_a_pull_copies_nothing_damaged(tracker: Tracker) -> None:
    tracker.save({"c": noise(700 * KB, 2)}, "whole", variables=["c"])
    pack = flip(tracker.store)
    here = Tracker(MemoryStore())
    moved = mirror(tracker.store, here.store)
    assert {key.split("/")[0] for key in moved.left_out} == {"packs", "checkpoints"}
    assert any("is damaged" in why for why in moved.left_out.values())
    assert not here.store.exists(pack_key(pack))
    assert [entry.id for entry in here.entries()] == [tracker.find("whole").id]
    here.save({"a": A}, "mine", variables=["a"])
    assert is_whole(here, "mine")


def test_a_pull_refuses_a_pack_under_the_name_of_another(tracker: Tracker) -> None:
    hostile = MemoryStore()
    mirror(tracker.store, hostile)
    key, _ = pack_with(hostile, A)
    other = Tracker(MemoryStore())
    other.save({"b": B[::-1].copy()}, "b", variables=["b"])
    hostile.put(key, other.store.get(next(iter(other.store.keys("packs/")))))
    here = MemoryStore()
    assert key in mirror(hostile, here).left_out
    assert list(here.keys("packs/")) == []


def test_a_pull_leaves_out_a_manifest_under_the_key_of_another(tracker: Tracker) -> None:
    tracker.save({"a": B}, "other", variables=["a"])
    one, other = (tracker.find(ref).key for ref in ("old", "other"))
    hostile = MemoryStore()
    mirror(tracker.store, hostile)
    hostile.put(one, hostile.get(other))
    assert set(mirror(hostile, MemoryStore()).left_out) == {one}


def test_a_pull_replaces_a_pack_that_is_cut_short_here(tracker: Tracker) -> None:
    here = MemoryStore()
    mirror(tracker.store, here)
    cut(here)
    mirror(tracker.store, here)
    assert is_whole(Tracker(here), "old")


def test_a_push_replaces_a_pack_that_is_cut_short_there(tracker: Tracker, tmp_path: Path) -> None:
    there = LocalStore(tmp_path / "there")
    Mirror(tracker.store, tmp_path / "experiments", there).push()
    cut(there)
    Mirror(tracker.store, tmp_path / "experiments", there).push()
    assert is_whole(Tracker(there), "old")


def test_a_push_sets_damage_aside_and_sends_the_rest(tracker: Tracker, tmp_path: Path) -> None:
    tracker.save({"c": noise(700 * KB, 2)}, "new", variables=["c"])
    pack = flip(tracker.store)
    there = LocalStore(tmp_path / "there")
    to = Mirror(tracker.store, tmp_path / "experiments", there)
    assert len(to.push().checkpoints.left_out) == 2
    assert list(tracker.store.keys("damaged/")) == [f"damaged/{pack}"]
    assert len(to.push().checkpoints.left_out) == 1  # the checkpoint that needs it
    assert len(Tracker(there).entries()) == 1
    tracker.save({"a": A, "b": B}, "again", variables=["a", "b"])
    assert not to.push().checkpoints.left_out
    assert is_whole(Tracker(there), "old")


def test_a_push_does_not_replace_a_pack_with_a_truncated_one(tracker: Tracker, tmp_path: Path) -> None:
    there = LocalStore(tmp_path / "there")
    to = Mirror(tracker.store, tmp_path / "experiments", there)
    to.push()
    cut(tracker.store)
    to.push()
    assert is_whole(Tracker(there), "old")


def test_gc_keeps_damaged_packs_that_are_needed(tracker: Tracker) -> None:
    pack = flip(tracker.store)
    tracker.verify()
    assert collected(tracker.store).packs == []
    assert np.array_equal(restored(tracker, "old")["b"], B)
    tracker.remove(["old"])
    then = collected(tracker.store)
    assert (then.packs, then.freed > 0) == ([pack], True)
    assert list(tracker.store.keys("damaged/")) == []


def test_gc_deletes_the_damaged_copy_of_a_repaired_pack(tracker: Tracker) -> None:
    flip(tracker.store)
    tracker.verify()
    tracker.save({"a": A, "b": B}, "again", variables=["a", "b"])
    collected(tracker.store)
    assert list(tracker.store.keys("damaged/")) == []
    assert is_whole(tracker, "old")


def test_gc_works_when_a_rewritten_pack_is_damaged(tracker: Tracker) -> None:
    tracker.save({"a": A, "big": noise(4 << 20, 3)}, "all", variables=["a", "big"])
    tracker.save({"k": noise(100 * KB, 4), "l": noise(900 * KB, 5)}, "kl", variables=["k", "l"])
    tracker.save({"k": noise(100 * KB, 4)}, "k", variables=["k"])
    tracker.remove(["kl"])
    assert collected(tracker.store).rewritten
    flip(tracker.store, noise(100 * KB, 4))
    assert [damage.touches[0][1] for damage in tracker.verify().damages] == [("k",)]
    assert collected(tracker.store).kept == []
    assert is_whole(tracker, "all")


def test_a_failed_set_aside_keeps_the_pack(tracker: Tracker) -> None:
    pack = flip(tracker.store)
    full = FaultyStore(tracker.store, when=lambda call: call.key.startswith("damaged/"))
    with pytest.raises(StoreError):
        set_aside(full, pack)
    assert tracker.store.exists(pack_key(pack))
    assert len(tracker.verify().damages) == 1


def test_a_crash_during_quarantine_or_repair_loses_nothing() -> None:
    copy, store = MemoryStore(), MemoryStore()
    Tracker(store).save({"a": A, "b": B}, "old", variables=["a", "b"])
    mirror(store, copy)
    flip(store)
    recording = RecordingStore(store)
    Tracker(recording).verify(repair_from=copy)
    for crashed in recording.crashes():
        tracker = Tracker(crashed)
        assert np.array_equal(restored(tracker, "old")["b"], B)
        tracker.save({"a": A}, "new", variables=["a"])
        assert is_whole(tracker, "new")
        tracker.verify(repair_from=copy)
        assert is_whole(tracker, "old")


def test_a_damaged_range_in_a_cache_is_read_again(tmp_path: Path) -> None:
    far = MemoryStore()
    Tracker(far).save({"a": A}, "old", variables=["a"])
    key, _ = pack_with(far, A)
    good = far.get(key)
    flip(far)
    cached = Tracker(CachedStore(far, tmp_path, 1 << 30))
    assert restored(cached, "old") == {}  # the cache has the damaged bytes now
    far.put(key, good)
    assert is_whole(Tracker(CachedStore(far, tmp_path, 1 << 30)), "old")


def test_a_damaged_table_in_a_cache_is_read_again(tmp_path: Path) -> None:
    far = MemoryStore()
    table = compacted(Tracker(far))
    good = far.get(table)
    far.put(table, good[:50])
    cached = Tracker(CachedStore(far, tmp_path, 1 << 30))
    assert len(cached.verify().damages) == 1
    far.put(table, good)
    assert cached.verify().damages == []


def test_verify_reads_the_storage_and_not_the_cache(tmp_path: Path) -> None:
    far = MemoryStore()
    Tracker(far).save({"a": A}, "old", variables=["a"])
    cached = Tracker(CachedStore(far, tmp_path, 1 << 30))
    assert is_whole(cached, "old")  # the cache has everything now
    kept = set(tmp_path.rglob("*"))
    key, good = pack_with(far, A)[0], far.get(pack_with(far, A)[0])
    flip(far)
    assert len(cached.verify().damages) == 1
    assert not far.exists(key)
    far.put(key, good)
    assert cached.verify().damages == []
    assert set(tmp_path.rglob("*")) <= kept


def test_verify_reads_each_manifest_in_the_storage(tmp_path: Path) -> None:
    far = MemoryStore()
    Tracker(far).save({"a": A}, "old", variables=["a"])
    cached = Tracker(CachedStore(far, tmp_path, 1 << 30))
    assert is_whole(cached, "old")
    (entry,) = cached.entries()
    far.put(entry.key, b"damaged")
    assert len(cached.verify().damages) == 1


def test_a_stale_cache_does_not_set_an_undamaged_pack_aside(tmp_path: Path) -> None:
    far = MemoryStore()
    Tracker(far).save({"a": A}, "old", variables=["a"])
    key, _ = pack_with(far, A)
    good = far.get(key)
    flip(far)
    cached = Tracker(CachedStore(far, tmp_path, 1 << 30))
    with pytest.raises(CodecError, match="is damaged"):
        cached.comparable("old").load("a")
    far.put(key, good)
    assert restored(cached, "old") == {}
    assert far.exists(key)
    assert is_whole(cached, "old")
