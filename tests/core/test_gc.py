"""Collection: what nothing names goes, and nothing else ever does."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.stored import KB, noise, restored, save
from core.stored import collected as run
from nbckpt import Checkpoint
from nbckpt.commands.housekeeping import Collection
from nbckpt.core import gc
from nbckpt.core.gc import Collected, collect
from nbckpt.core.packs.format import pack_of
from nbckpt.core.references import SHORT
from nbckpt.errors import NotFoundError, StoreError
from nbckpt.store import CachedStore, LocalStore, MemoryStore, Store
from nbckpt.testing import Call, FaultyStore, RecordingStore
from nbckpt.testing.faults import AroundStore
from nbckpt.tracker import Tracker


def packs(store: Store) -> list[str]:
    return [pack_of(key) for key in store.keys("packs/") if key.endswith(".pack")]


def make_old(store: Store, prefix: str) -> None:
    for key in list(store.keys(prefix)):
        store.put(key, (datetime.now(UTC) - timedelta(hours=1, seconds=1)).isoformat().encode())


class Meanwhile(AroundStore):
    """A store in which something else happens right before the first call that *when* is true for."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.when: Callable[[str, str], bool] = lambda _op, _key: False
        self.act: Callable[[], object] = lambda: None

    @contextmanager
    def around(self, call: Call) -> Iterator[None]:
        if self.when(call.op, call.key):
            self.when = lambda _op, _key: False
            self.act()
        yield


# What goes and what stays.


def test_gc_keeps_every_named_checkpoint(store: Store) -> None:
    save(store, {"a": noise(300 * KB)})
    before = list(store.keys())
    assert run(store) == Collected()
    assert list(store.keys()) == before


def test_gc_deletes_removed_checkpoints(store: Store) -> None:
    save(store, {"a": noise(300 * KB)})
    Tracker(store).remove(["s"])
    collected = run(store)
    assert (len(collected.removed), len(collected.packs)) == (1, 1)
    assert collected.freed >= 300 * KB
    assert packs(store) == list(store.keys("condemned/")) == list(store.keys("checkpoints/")) == []


def test_gc_keeps_data_that_another_checkpoint_shares(store: Store) -> None:
    a = noise(300 * KB)
    save(store, {"a": a}, "one")
    save(store, {"a": a}, "two")
    Tracker(store).remove(["one"])
    run(store)
    assert np.array_equal(restored(store, "two")["a"], a)


def test_gc_keeps_an_unreferenced_pack_for_an_hour(store: Store) -> None:
    save(store, {"a": noise(300 * KB)})
    for key in list(store.keys("checkpoints/")):
        store.delete(key)
    assert run(store).waiting == run(store).waiting == 1
    assert len(packs(store)) == 1
    make_old(store, "orphans/")
    assert len(run(store).packs) == 1
    assert packs(store) == list(store.keys("orphans/")) == []


def test_a_save_that_runs_long_keeps_its_packs(store: Store) -> None:
    a = noise(300 * KB)
    other = Tracker(store)
    namespace = {"a": a}
    publish = other.history.publish
    collections: list[Collected] = []

    def late(*arguments: Any, **named: Any) -> Any:
        collections.append(run(store))
        return publish(*arguments, **named)

    other.history.publish = late  # type: ignore[method-assign]
    other.save(namespace, "s")
    assert collections[0].waiting == 1
    assert np.array_equal(restored(store)["a"], a)


# Rewriting.


def shrunk(store: Store, name: str = "s") -> dict[str, np.ndarray]:
    """Make a checkpoint of which most of the pack is not needed any more."""
    kept = {"kept": noise(100 * KB, 1)}
    save(store, {**kept, "lost": noise(900 * KB, 2)}, "both")
    save(store, kept, name)
    Tracker(store).remove(["both"])
    return kept


def test_a_pack_that_is_mostly_dead_is_rewritten(store: Store) -> None:
    kept = shrunk(store)
    collected = run(store)
    assert len(collected.rewritten) == 1
    assert collected.freed >= 900 * KB
    assert sum(len(store.get(key)) for key in store.keys("packs/")) < 200 * KB
    assert np.array_equal(restored(store)["kept"], kept["kept"])
    assert Tracker(store).verify().damages == []


def test_a_second_collection_changes_nothing(store: Store) -> None:
    shrunk(store)
    run(store)
    before = list(store.keys())
    assert run(store) == Collected()
    assert list(store.keys()) == before


def test_a_rewritten_pack_can_be_rewritten_again(store: Store) -> None:
    kept = {f"k{n}": noise(100 * KB, n) for n in range(4)}
    save(store, {**kept, "lost": noise(900 * KB, 9)}, "all")
    save(store, kept, "four")
    save(store, {"k0": kept["k0"]}, "one")
    for gone in ("all", "four"):
        Tracker(store).remove([gone])
        assert len(run(store).rewritten) == 1
    assert np.array_equal(restored(store, "one")["k0"], kept["k0"])
    assert Tracker(store).verify().damages == []
    assert sum(len(store.get(key)) for key in store.keys("packs/")) < 200 * KB


def test_a_rewritten_pack_is_deleted_in_the_end(store: Store) -> None:
    test_a_rewritten_pack_can_be_rewritten_again(store)
    Tracker(store).remove(["one"])
    run(store)
    assert list(store.keys("packs/")) == []


def test_later_saves_share_rewritten_packs(store: Store) -> None:
    kept = shrunk(store)
    run(store)
    assert Tracker(store).save(kept, "again", variables=["kept"]).new_bytes < 10 * KB
    assert np.array_equal(restored(store, "again")["kept"], kept["kept"])
    assert run(store).rewritten == []


def test_a_cached_pack_that_was_rewritten_elsewhere_is_kept(tmp_path: Path) -> None:
    far = MemoryStore()
    kept = shrunk(far)
    here = CachedStore(far, tmp_path, 1 << 30)
    assert np.array_equal(restored(here)["kept"], kept["kept"])  # the cache has the pack
    assert len(run(far).rewritten) == 1
    for _ in range(2):
        assert run(here).packs == []
        make_old(far, "orphans/")
    assert np.array_equal(restored(far)["kept"], kept["kept"])


def test_a_damaged_blob_is_not_copied_to_a_new_pack(store: Store) -> None:
    kept = shrunk(store)
    (key,) = store.keys("packs/")
    whole = bytearray(store.get(key))
    at = whole.index(kept["kept"].tobytes()[:32])
    whole[at] ^= 1
    store.put(key, bytes(whole))
    assert run(store).rewritten == []
    assert list(store.keys("packs/")) == [key]
    assert list(store.keys("condemned/")) == []


def test_a_flipped_bit_in_the_table_of_a_moved_pack_is_found(store: Store) -> None:
    shrunk(store)
    run(store)
    (key,) = (key for key in store.keys("packs/") if key.endswith(".moved"))
    table = store.get(key)
    for at in range(0, len(table), 7):
        store.put(key, table[:at] + bytes([table[at] ^ 1]) + table[at + 1 :])
        namespace: dict[str, Any] = {}
        if Tracker(store).restore("s", namespace).failed:
            assert namespace == {}
        else:
            assert np.array_equal(namespace["kept"], noise(100 * KB, 1))
    store.put(key, table)


def test_a_forged_table_cannot_lead_to_other_bytes(store: Store) -> None:
    shrunk(store)
    run(store)
    save(store, {"evil": noise(100 * KB, 66)}, "evil")
    (key,) = (key for key in store.keys("packs/") if key.endswith(".moved"))
    table = json.loads(store.get(key))
    table["packs"] = [pack for pack in packs(store) if pack not in table["packs"]]
    store.put(key, json.dumps(table).encode())
    namespace: dict[str, Any] = {}
    assert Tracker(store).restore("s", namespace, ["kept"]).failed
    assert namespace == {}


# What is promised, and what happens.


def test_a_dry_run_predicts_the_collection(new_store: Callable[[], Store], subtests: pytest.Subtests) -> None:
    for make in ("nothing", "removed", "shrunk", "orphan", "damaged"):
        with subtests.test(make):
            shrunk(store := new_store())
            if make == "nothing":
                run(store)
            if make in {"removed", "damaged"}:
                Tracker(store).remove(["s"])
            if make == "orphan":
                for key in list(store.keys("checkpoints/")):
                    store.delete(key)
            if make == "damaged":
                (key,) = store.keys("packs/")
                store.put(key, b"NBCKPAK2" + store.get(key)[8:])
            before = {key: store.get(key) for key in list(store.keys())}
            promised = run(store, dry_run=True)
            assert {key: store.get(key) for key in list(store.keys())} == before
            assert promised == run(store)


def test_an_unreadable_manifest_stops_the_collection(store: Store) -> None:
    shrunk(store)
    (key,) = store.keys("checkpoints/")
    store.put(key, store.get(key)[:-20])
    before = list(store.keys())
    collected = run(store)
    assert collected.kept == [key[-69:-5]]
    assert collected.packs == collected.rewritten == collected.removed == []
    assert list(store.keys()) == before


def test_a_manifest_damaged_during_the_wait_stops_the_collection(store: Store) -> None:
    shrunk(store)

    def damage(_: float) -> None:
        (key,) = store.keys("checkpoints/")
        store.put(key, b"{")

    assert collect(Tracker(store).history, wait=damage).kept
    assert len(packs(store)) == 1
    assert list(store.keys("condemned/")) == []


# Others at work at the same time.


def reuse(store: Store) -> tuple[np.ndarray, Tracker]:
    """Have a checkpoint removed, whose pack the next save of the tracker is going to share."""
    a = noise(300 * KB)
    tracker = Tracker(store)
    tracker.save({"a": a}, "old", variables=["a"])
    Tracker(store).remove(["old"])
    return a, tracker


def test_a_save_sees_the_mark_and_starts_again() -> None:
    store = MemoryStore()
    a, tracker = reuse(store)
    saves: list[Any] = []
    collect(tracker.history, wait=lambda _: saves.append(tracker.save({"a": a}, "new", variables=["a"])))
    assert saves[0].new_bytes >= 300 * KB
    assert np.array_equal(restored(store, "new@1")["a"], a)
    assert Tracker(store).verify().damages == []


def test_a_save_restarts_if_its_pack_is_collected_before_the_end() -> None:
    """The collection runs before the save writes its manifest."""
    store = Meanwhile()
    a, tracker = reuse(store)
    store.when, store.act = lambda op, key: op == "keys" and key == "condemned/", lambda: run(store)
    tracker.save({"a": a}, "new", variables=["a"])
    assert np.array_equal(restored(store, "new@1")["a"], a)


def test_a_save_notices_a_collection_just_before_its_manifest() -> None:
    """The collection runs between the save's last check and its manifest."""
    store = Meanwhile()
    a, tracker = reuse(store)
    store.when = lambda op, key: op == "put" and key.startswith("checkpoints/")
    store.act = lambda: run(store)
    tracker.save({"a": a}, "new", variables=["a"])
    assert np.array_equal(restored(store, "new@1")["a"], a)
    assert len(tracker.entries()) == 1


def test_a_collection_sees_a_manifest_written_during_the_wait() -> None:
    store = Meanwhile()
    a, tracker = reuse(store)
    mark = "condemned/"
    # The save looks at the marks before there are any, and puts its manifest after.
    store.when = lambda op, key: op == "put" and key.startswith(mark)
    store.act = lambda: tracker.save({"a": a}, "new", variables=["a"])
    run(store)
    assert np.array_equal(restored(store, "new")["a"], a)


def test_a_second_collector_keeps_the_marks_of_the_first() -> None:
    store = MemoryStore()
    a, tracker = reuse(store)

    def then(_: float) -> None:
        collect(tracker.history, wait=lambda _: run(store))
        assert list(store.keys("condemned/"))

    collect(Tracker(store).history, wait=then)
    assert list(store.keys("condemned/")) == []
    del a


def test_a_save_after_a_second_collector_is_complete() -> None:
    store = Meanwhile()
    a, tracker = reuse(store)
    deletes: list[str] = []

    def first_looks_a_second_time(_: float) -> None:
        # A whole other collection comes and goes, and then, between the first one's second look
        # and its deletes, a save that shares the pack.
        run(store)
        store.when = lambda op, key: op == "delete" and key.startswith("packs/")
        store.act = lambda: deletes.append(tracker.save({"a": a}, "new", variables=["a"]).manifest.id)

    collect(Tracker(store).history, wait=first_looks_a_second_time)
    if not deletes:
        tracker.save({"a": a}, "new", variables=["a"])
    assert np.array_equal(restored(store, "new")["a"], a)


def test_an_undo_during_a_collection_is_complete_or_refused() -> None:
    store = MemoryStore()
    a = noise(300 * KB)
    tracker = Tracker(store)
    tracker.save({"a": a}, "old", variables=["a"])
    tracker.remove(["old"])

    def undo(_: float) -> None:
        with pytest.raises(NotFoundError, match="cannot be brought back"):
            tracker.undo({})

    collect(Tracker(store).history, wait=undo)
    assert tracker.entries() == []


def test_a_removal_during_a_collection_can_be_undone() -> None:
    store = MemoryStore()
    kept = shrunk(store)
    first, second = {"first": noise(40 * KB, 3)}, {"second": noise(50 * KB, 4)}
    save(store, {**first, **second, "lost": noise(900 * KB, 8)}, "all")
    save(store, first, "first")
    save(store, second, "second")
    tracker = Tracker(store)
    tracker.remove(["all"])
    collected = collect(Tracker(store).history, wait=lambda _: tracker.remove(["first", "s"]))
    assert len(collected.rewritten) == 2
    tracker.undo({})
    assert np.array_equal(restored(store, "first")["first"], first["first"])
    assert np.array_equal(restored(store, "s")["kept"], kept["kept"])


def test_gc_deletes_marks_of_a_dead_collector_after_an_hour(store: Store) -> None:
    save(store, {"a": noise(300 * KB)})
    (pack,) = packs(store)
    store.put("condemned/dead", f"{datetime.now(UTC).isoformat()}\n{pack}".encode())
    run(store)
    assert list(store.keys("condemned/"))
    make_old(store, "condemned/")
    run(store)
    assert list(store.keys("condemned/")) == []


def test_a_failed_collection_removes_its_marks() -> None:
    store = MemoryStore()
    shrunk(store)
    faulty = FaultyStore(store, when=lambda call: call.op == "put" and call.key.startswith("packs/"))
    with pytest.raises(StoreError):
        run(faulty)
    assert list(store.keys("condemned/")) == []
    assert len(run(store).rewritten) == 1


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_no_crash_of_a_collection_makes_anything_unreadable(again: bool) -> None:
    store = MemoryStore()
    kept = shrunk(store)
    save(store, {"k": kept["kept"][: 5 * KB]}, "other")
    if again:
        run(store)
        save(store, {**kept, "more": noise(900 * KB, 5)}, "more")
        Tracker(store).remove(["more"])
    recording = RecordingStore(store)
    run(recording)
    assert recording.changes
    for crashed in recording.crashes():
        assert Tracker(crashed).verify().damages == []
        assert np.array_equal(restored(crashed, "s")["kept"], kept["kept"])
        run(crashed)
        assert Tracker(crashed).verify().damages == []


def test_an_interrupted_removal_keeps_the_checkpoints_signatures() -> None:
    store = MemoryStore()
    save(store, {"a": 1})
    (entry,) = Tracker(store).entries()
    store.put(f"signatures/{entry.id}/key", b"hmac")
    recording = RecordingStore(store)
    Tracker(recording).remove(["s"])
    crashed = recording.replay(1)
    run(crashed)
    assert list(crashed.keys("signatures/"))
    assert restored(crashed)["a"] == 1


def test_gc_deletes_names_of_an_interrupted_removal() -> None:
    store = MemoryStore()
    save(store, {"a": 1})
    recording = RecordingStore(store)
    Tracker(recording).remove(["s"])
    crashed = recording.replay(len(recording.changes) - 1)
    assert list(crashed.keys("refs/"))
    run(crashed)
    assert list(crashed.keys("refs/")) == []
    save(crashed, {"a": 2})
    assert Tracker(crashed).find("s@2")


# Arrays that are in use.


def test_a_restored_array_outlives_its_checkpoint(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "s")
    a = noise(3 << 20)
    save(store, {"a": a})
    got = restored(store)["a"]
    Tracker(store).remove(["s"])
    assert len(run(store).packs) == 1
    assert np.array_equal(got, a)
    got[:] = 7
    assert got.sum() == 7 * len(a)


@pytest.mark.parametrize("lazy", [False, True])
def test_writing_to_a_restored_array_never_changes_the_store(tmp_path: Path, lazy: bool) -> None:
    store = LocalStore(tmp_path / "s")
    a = noise(3 << 20)
    save(store, {"a": a})
    namespace: dict[str, Any] = {}
    Tracker(store).restore("s", namespace, lazy=lazy)
    namespace["a"][::1000] = 0
    assert Tracker(store).verify().damages == []
    assert np.array_equal(restored(store)["a"], a)


def test_only_in_returns_the_size_that_a_removal_would_free(store: Store) -> None:
    tracker = Tracker(store)
    shared = noise(300 * KB, 1)
    save(store, {"shared": shared, "own": noise(500 * KB, 2)}, "one")
    save(store, {"shared": shared}, "two")
    freed = tracker.only_in([tracker.find("one")])
    assert 500 * KB <= freed < 600 * KB
    assert tracker.only_in([tracker.find("two")]) < 10 * KB


def test_the_wait_is_the_one_that_saves_rely_on() -> None:
    store = MemoryStore()
    shrunk(store)
    waited: list[float] = []
    collect(Tracker(store).history, wait=waited.append)
    assert waited == [gc.GRACE_S]


def test_every_pack_is_marked_before_it_is_deleted() -> None:
    store = RecordingStore(MemoryStore())
    shrunk(store)
    run(store)
    (mark,) = (call for call in store.changes if call.op == "put" and call.key.startswith("condemned/"))
    deleted = [call for call in store.changes if call.op == "delete" and call.key.startswith("packs/")]
    assert {pack_of(call.key) for call in deleted} <= set(mark.data.decode().split()[1:])
    assert all(store.changes.index(mark) < store.changes.index(call) for call in deleted)


# Beside a save that stalls or dies, an undo and an import.


def removed(store: Store, array: np.ndarray) -> Tracker:
    """Save an array and remove its checkpoint."""
    save(store, {"a": array})
    tracker = Tracker(store)
    tracker.remove(["s"])
    return tracker


class Stalled(BaseException):
    """What a process dies of."""


class Dying(AroundStore):
    """The store of a process that stalls before its manifest, while all is collected, and then dies."""

    @contextmanager
    def around(self, call: Call) -> Iterator[None]:
        is_last = call.op == "put" and call.key.startswith("checkpoints/")
        if is_last:
            run(self.store)
        if call.op == "delete":
            raise Stalled
        yield
        if is_last:
            raise Stalled


@pytest.mark.parametrize("name", ["s", ""])
def test_a_save_that_stalls_and_dies_leaves_no_broken_checkpoint(name: str) -> None:
    store = MemoryStore()
    dying = Dying(store)
    save(store, {"a": noise(300 * KB)}, "old")
    Tracker(store).remove(["old"])
    with pytest.raises(Stalled):
        Checkpoint.from_dict({"a": noise(300 * KB)}).to_store(dying, name)
    assert len(Tracker(store).entries()) == 1
    assert Tracker(store).verify().damages == []


def test_gc_deletes_data_of_a_dead_save_after_an_hour() -> None:
    store = MemoryStore()
    dying = FaultyStore(
        store, when=lambda call: call.key.startswith("checkpoints/") or call.op == "delete", error=Stalled()
    )
    for name in ("x", ""):
        with pytest.raises(Stalled):
            Checkpoint.from_dict({"a": noise(300 * KB)}).to_store(dying, name)
    assert run(store).waiting == 1
    make_old(store, "orphans/")
    assert len(run(store).packs) == 1
    assert list(store.keys()) == ["store.json"]


SMALL_AND_LARGE = pytest.mark.parametrize("array", [np.arange(3), noise(300 * KB)], ids=["inline", "pack"])


@SMALL_AND_LARGE
def test_an_undo_amid_a_collection_restores_all_or_nothing(
    array: np.ndarray, subtests: pytest.Subtests
) -> None:
    for at in range(12):
        with subtests.test(at=at):
            undo_before_call(at, array)


def undo_before_call(at: int, array: np.ndarray) -> None:
    """Undo a removal right before the call number *at* of a collection."""
    store = MemoryStore()
    tracker, outcome = removed(store, array), list[bool]()

    def undo(_: Call) -> bool:
        if not outcome and meanwhile.counted == at:
            outcome.append(True)
            try:
                tracker.undo({})
            except NotFoundError:
                outcome.append(False)
        return True

    meanwhile = FaultyStore(store, when=undo, fail_at=-1)
    run(meanwhile)
    check_whole(store, array, is_there=bool(outcome and outcome[-1]))


@SMALL_AND_LARGE
def test_a_collection_amid_an_undo_deletes_all_or_nothing(
    array: np.ndarray, subtests: pytest.Subtests
) -> None:
    for at in range(14):
        with subtests.test(at=at):
            collect_before_call(at, array)


def collect_before_call(at: int, array: np.ndarray) -> None:
    """Collect right before the call number *at* of an undo of a removal."""
    store = MemoryStore()
    tracker = removed(store, array)

    def collect_now(_: Call) -> bool:
        if meanwhile.counted == at:
            run(store)
        return True

    meanwhile = FaultyStore(store, when=collect_now, fail_at=-1)
    tracker.history.store = meanwhile
    try:
        tracker.undo({})
    except NotFoundError:
        check_whole(store, array, is_there=False)
    else:
        check_whole(store, array, is_there=True)


def check_whole(store: Store, array: np.ndarray, *, is_there: bool) -> None:
    if is_there:
        assert np.array_equal(restored(store, "s")["a"], array)
        assert Tracker(store).verify().damages == []
    else:
        assert Tracker(store).entries() == []


def test_an_interrupted_import_keeps_the_result_of_another(tmp_path: Path) -> None:
    save(there := MemoryStore(), {"a": noise(300 * KB)})
    Tracker(there).export("s", tmp_path / "s.ckpt")
    store = MemoryStore()

    def import_first(call: Call) -> bool:
        if call.op == "put" and call.key.startswith("refs/") and not Tracker(store).entries():
            Tracker(store).import_file(tmp_path / "s.ckpt")
        return call.op == "put" and call.key.startswith("checkpoints/")

    second = FaultyStore(store, when=import_first, error=KeyboardInterrupt(), halfway=True)
    with pytest.raises(KeyboardInterrupt):
        Tracker(second).import_file(tmp_path / "s.ckpt")
    assert [str(ref) for ref in Tracker(store).history.refs()] == ["s@1"]
    assert np.array_equal(restored(store, "s")["a"], noise(300 * KB))


def test_an_import_that_fails_leaves_all_or_nothing(tmp_path: Path, subtests: pytest.Subtests) -> None:
    save(there := MemoryStore(), {"a": noise(300 * KB)})
    Tracker(there).export("s", tmp_path / "s.ckpt")
    for at, halfway in itertools.product(range(1, 6), (False, True)):
        with subtests.test(at=at, halfway=halfway):
            store = MemoryStore()
            failing = FaultyStore(store, when=lambda call: call.op == "put", fail_at=at, halfway=halfway)
            with suppress(StoreError):
                Tracker(failing).import_file(tmp_path / "s.ckpt")
            tracker = Tracker(store)
            assert {entry.id for entry in tracker.entries()} <= {ref.id for ref in tracker.history.refs()}
            if tracker.entries():
                assert np.array_equal(restored(store, "s")["a"], noise(300 * KB))


class Full(LocalStore):
    """A store on a disk without any room, except for links."""

    is_full = False

    def put(self, key: str, data: Any) -> None:
        if self.is_full:
            raise StoreError("No space left on device")
        super().put(key, data)


def test_a_full_disk_is_freed_by_rm_and_gc(tmp_path: Path) -> None:
    store = Full(tmp_path / "s")
    kept, gone = noise(300 * KB, 1), [noise(300 * KB, seed) for seed in (2, 3)]
    save(store, {"kept": kept, "shared": gone[0][: 90 * KB]}, "kept")
    for number, array in enumerate(gone):
        save(store, {"array": array}, f"gone{number}")
    before = len(packs(store))
    store.is_full = True
    Tracker(store).remove(["gone0", "gone1"])
    collected = run(store)
    assert len(collected.removed) == 2
    assert collected.freed >= 2 * 300 * KB
    assert len(packs(store)) == before - 2
    assert not [*store.keys("condemned/"), *store.keys("trash/checkpoints")]
    assert np.array_equal(restored(store, "kept")["kept"], kept)
    assert Tracker(store).verify().damages == []


def test_gc_says_why_it_kept_packs_and_what_to_do() -> None:
    text = str(Collection(Collected(waiting=2, kept=["a" * 40]), dry_run=False))
    assert "2 packs may belong to a running save: kept for an hour" in text
    assert "1 damaged checkpoint may need it" in text
    assert f"%ckpt rm {'a' * SHORT}" in text
