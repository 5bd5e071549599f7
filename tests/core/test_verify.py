"""Verify: damage is found and named, with what it touches, and the rest can still be restored."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.stored import KB, collected, flip, noise, pack_with
from nbckpt import Checkpoint
from nbckpt.core.packs.format import pack_of
from nbckpt.core.verify import Verified
from nbckpt.store import MemoryStore, Store
from nbckpt.testing import Call, FaultyStore
from nbckpt.tracker import Tracker

A, B, C = (noise(300 * KB, seed) for seed in range(3))


NewStore = Callable[[], Store]


@pytest.fixture
def tracker(store: Store) -> Tracker:
    return filled(store)


def filled(store: Store) -> Tracker:
    """Save two checkpoints that share `a`; `b` is in the first, `c` in the second."""
    tracker = Tracker(store)
    tracker.save({"a": A, "b": B, "small": 1}, "one", variables=["a", "b", "small"])
    tracker.save({"a": A, "c": C}, "two", variables=["a", "c"])
    return tracker


def flip_in(store: Store, array: np.ndarray) -> str:
    """Flip a bit of an array in the pack that has it; return the pack."""
    key, at = pack_with(store, array)
    flip(store, key, at + 7)
    return pack_of(key)


def touched(tracker: Tracker, verified: Verified) -> dict[str, set[str]]:
    """Return the names that damage touches, by the checkpoint's name."""
    names = {ref.id: ref.name for ref in tracker.history.refs()}
    by_name: dict[str, set[str]] = {}
    for damage in verified.damages:
        for target, values in damage.touches:
            by_name.setdefault(names[target], set()).update(values or {"all of it"})
    return by_name


def test_verify_reports_no_damage_in_an_undamaged_store(tracker: Tracker) -> None:
    verified = tracker.verify()
    assert verified.damages == []
    assert (verified.checkpoints, verified.packs) == (2, 2)
    assert verified.size >= 900 * KB


def test_a_flipped_bit_affects_checkpoints_that_need_it(tracker: Tracker) -> None:
    pack = flip_in(tracker.store, A)
    verified = tracker.verify()
    assert touched(tracker, verified) == {"one": {"a"}, "two": {"a"}}
    assert f"pack {pack[:12]} is damaged in bytes" in verified.damages[0].problem


@pytest.mark.parametrize(("array", "expected"), [(B, {"one": {"b"}}), (C, {"two": {"c"}})], ids="bc")
def test_a_flipped_bit_affects_nothing_else(
    tracker: Tracker, array: np.ndarray, expected: dict[str, set[str]]
) -> None:
    flip_in(tracker.store, array)
    assert touched(tracker, tracker.verify()) == expected


def test_undamaged_values_are_restored_and_damaged_ones_named(tracker: Tracker) -> None:
    flip_in(tracker.store, B)
    namespace: dict[str, Any] = {"b": "mine"}
    restored = tracker.restore("one", namespace)
    assert [failure.names for failure in restored.failed] == [("b",)]
    assert "is damaged" in restored.failed[0].reason
    assert np.array_equal(namespace["a"], A)
    assert (namespace["b"], namespace["small"]) == ("mine", 1)


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "index": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "count": lambda data: data[:12] + bytes([data[12] ^ 0x80]) + data[13:],
    "magic": lambda data: b"X" + data[1:],
    "cut": lambda data: data[: len(data) // 2],
    "cut to nothing": lambda _: b"",
    "gone": lambda _: None,
    "something else": lambda _: b"hello",
}


def test_a_damaged_pack_is_named_with_affected_variables(
    new_store: NewStore, subtests: pytest.Subtests
) -> None:
    for how, damage in DAMAGES.items():
        with subtests.test(how):
            tracker = filled(new_store())
            (pack,) = tracker.manifest("two").packs() - tracker.manifest("one").packs()
            (key,) = (key for key in tracker.store.keys("packs/") if pack in key)
            data = damage(tracker.store.get(key))
            if data is None:
                tracker.store.delete(key)
            else:
                tracker.store.put(key, data)
            verified = tracker.verify()
            assert touched(tracker, verified) == {"two": {"c"}}
            assert any(pack[:12] in damage.problem for damage in verified.damages)
            namespace: dict[str, Any] = {}
            assert [failure.names for failure in tracker.restore("two", namespace).failed] == [("c",)]
            assert np.array_equal(namespace["a"], A)


def test_a_damaged_manifest_is_named(new_store: NewStore, subtests: pytest.Subtests) -> None:
    for at in (0, 1, 20, 100, -1, -20, -100):
        with subtests.test(at=at):
            tracker = filled(new_store())
            entry = tracker.find("two")
            flip(tracker.store, entry.key, at)
            verified = tracker.verify()
            assert [damage.touches for damage in verified.damages] in ([], [((entry.id, ()),)])
            if verified.damages:
                assert f"checkpoint {entry.id[:8]}" in verified.damages[0].problem
            else:  # the flip fell into the signature: it vouches for nothing any more
                assert not tracker.history.trusted(tracker.manifest("two"))


@pytest.mark.slow
def test_an_invalid_manifest_is_named_and_others_are_checked(
    new_store: NewStore, subtests: pytest.Subtests
) -> None:
    for data in (b"", b"{}", b"[]", b'{"checkpoint":{}}', b'{"a":' * 9999, b"\xff"):
        with subtests.test(data=data[:20]):
            tracker = filled(new_store())
            tracker.store.put(tracker.find("two").key, data)
            flip_in(tracker.store, B)
            assert touched(tracker, tracker.verify()) == {"one": {"b"}, "two": {"all of it"}}
            assert tracker.restore("one", {}, ["a"]).failed == ()


def test_a_flipped_bit_in_inline_data_is_found() -> None:
    tracker = Tracker(MemoryStore())
    tracker.save({"small": "x" * 300}, "s", variables=["small"])
    entry = tracker.find("s")
    data = tracker.store.get(entry.key)
    assert tracker.manifest("s").inline
    for at in range(0, len(data), 5):
        tracker.store.put(entry.key, data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :])
        if not tracker.verify().damages:  # the flip fell into the signature
            namespace: dict[str, Any] = {}
            tracker.restore("s", namespace, trust=True)
            assert namespace == {"small": "x" * 300}


def test_a_checkpoint_can_be_verified_alone(tracker: Tracker) -> None:
    flip_in(tracker.store, C)
    assert tracker.verify(["one"]).damages == []
    assert len(tracker.verify(["two"]).damages) == 1


def test_a_damaged_file_is_named(store: Store, tmp_path: Path) -> None:
    (tmp_path / "made" / "w").mkdir(parents=True)
    (tmp_path / "made" / "w" / "net.bin").write_bytes(A.tobytes())
    Checkpoint.from_directory(tmp_path / "made").to_store(store, "f")
    tracker = Tracker(store)
    flip_in(store, A)
    assert touched(tracker, tracker.verify()) == {"f": {"w/net.bin"}}


def test_rewritten_packs_are_verified(tracker: Tracker) -> None:
    tracker.save({"big": noise(900 * KB, 9), "b": C}, "three", variables=["big", "b"])
    tracker.remove(["one"])
    collected(tracker.store)
    assert tracker.verify().damages == []
    flip_in(tracker.store, A)
    assert touched(tracker, tracker.verify()) == {"two": {"a"}}


def test_a_blob_that_a_rewritten_pack_lost_is_damage(tracker: Tracker) -> None:
    tracker.save({"k": noise(100 * KB, 5), "l": noise(900 * KB, 6)}, "all", variables=["k", "l"])
    tracker.save({"k": noise(100 * KB, 5)}, "k", variables=["k"])
    tracker.remove(["all"])
    assert collected(tracker.store).rewritten
    (moved,) = (key for key in tracker.store.keys("packs/") if key.endswith(".moved"))
    here = tracker.store.get(moved).index(b'"packs":["') + 10
    other = next(iter(tracker.manifest("two").packs())).encode()
    tracker.store.put(moved, tracker.store.get(moved)[:here] + other + tracker.store.get(moved)[here + 64 :])
    assert touched(tracker, tracker.verify()) == {"k": {"k"}}


def test_verify_of_a_store_without_damage_changes_nothing(tracker: Tracker) -> None:
    before = {key: tracker.store.get(key) for key in list(tracker.store.keys())}
    tracker.verify()
    assert {key: tracker.store.get(key) for key in list(tracker.store.keys())} == before


def test_progress_reaches_the_end(tracker: Tracker) -> None:
    seen: list[tuple[int, int]] = []
    tracker.verify(progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2, 2)


def test_a_checkpoint_collected_during_verify_is_not_damage() -> None:
    store = MemoryStore()
    Tracker(store).save({"a": A}, "one", variables=["a"])

    def collect_now(call: Call) -> bool:
        if call.key.startswith("packs/") and Tracker(store).entries():
            Tracker(store).remove(["one"])
            collected(store)
        return False

    assert Tracker(FaultyStore(store, when=collect_now)).verify().damages == []


def compacting(store: Store, count: int) -> FaultyStore:
    """Return a store whose packs are compacted before the read of this number, counted from 1."""
    reads = itertools.count(1)

    def compact(call: Call) -> bool:
        if call.op == "get" and call.key.startswith("packs/") and next(reads) == count:
            assert collected(store).rewritten
        return False

    return FaultyStore(store, when=compact)


def test_a_pack_compacted_during_verify_is_not_damage(new_store: NewStore, subtests: pytest.Subtests) -> None:
    for count in range(1, 7):
        with subtests.test(count=count):
            tracker = Tracker(store := new_store())
            tracker.save({"a": A, "big": noise(900 * KB, 9)}, "big", variables=["a", "big"])
            tracker.save({"a": A}, "a", variables=["a"])
            tracker.remove(["big"])
            verified = Tracker(compacting(store, count)).verify()
            assert verified.damages == []
            assert verified.size >= A.nbytes
            flip_in(store, A)
            assert touched(tracker, tracker.verify()) == {"a": {"a"}}


def test_a_fallback_beside_gc_takes_the_newest_version(store: Store) -> None:
    tracker = Tracker(store)
    tracker.save({"a": B}, "a", variables=["a"])
    tracker.save({"a": A, "big": noise(900 * KB, 9)}, "big", variables=["a", "big"])
    tracker.save({"a": A}, "a", variables=["a"])
    tracker.remove(["big"])
    for count in range(1, 5):
        copy = MemoryStore()
        for key in list(store.keys()):
            copy.put(key, store.get(key))
        namespace: dict[str, Any] = {}
        restored = Tracker(compacting(copy, count)).restore("a", namespace, fallback_to_latest=True)
        assert not restored.note
        assert np.array_equal(namespace["a"], A)


def test_a_pack_deleted_during_verify_is_missing(store: Store) -> None:
    tracker = Tracker(store)
    tracker.save({"a": A}, "a", variables=["a"])
    reads = itertools.count()

    def delete(call: Call) -> bool:
        if call.op == "get" and call.key.startswith("packs/") and next(reads) == 1:
            store.delete(call.key)
        return False

    verified = Tracker(FaultyStore(store, when=delete)).verify()
    (damage,) = verified.damages
    assert "is missing from" in damage.problem
    assert touched(tracker, verified) == {"a": {"a"}}
