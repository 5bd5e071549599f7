"""Whole stores: copied whole or not at all, whatever crashes and whoever else writes or compacts."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paged import PagedStore
from sync.trees import ONCE, Files, plain, read, seen, write

from nbckpt import Tracker
from nbckpt.core import renewal
from nbckpt.core.gc import collect
from nbckpt.core.manifest import now
from nbckpt.core.packs.format import pack_key
from nbckpt.errors import NotFoundError, StoreError
from nbckpt.store import Cancel, CancelledError, LocalStore, MemoryStore, Store
from nbckpt.sync.exclude import OWN
from nbckpt.sync.index import KEY
from nbckpt.sync.progress import Progress
from nbckpt.sync.stores import mirror
from nbckpt.sync.target import delete
from nbckpt.sync.transfer import TransferOptions
from nbckpt.sync.upload import upload
from nbckpt.testing import FaultyStore, RecordingStore
from nbckpt.timeline.timeline import Timeline

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


def no_clash(files: Files) -> bool:
    return not any(other.startswith(f"{path}/") for path in files for other in files)


FILES = st.dictionaries(
    st.sampled_from(["a", "b", "a/b", "c/d", "c/d/e", "c.json"]), st.sampled_from([b"", b"1", b"2"])
).filter(no_clash)


@pytest.mark.slow
@given(old=st.none() | FILES, new=FILES, mirrored=st.booleans(), foreign=st.booleans())
@settings(max_examples=60)
def test_a_crashed_upload_shows_old_or_new_files_and_is_repaired(
    old: Files | None, new: Files, mirrored: bool, foreign: bool
) -> None:
    """The next upload repairs the target."""
    target = MemoryStore()
    with tempfile.TemporaryDirectory() as top:
        if old and foreign:  # another tool put them there
            for path, data in old.items():
                target.put(path, data)
        elif old is not None:
            upload(write(Path(top, "old"), old), target)
        before, recorded = seen(target), RecordingStore(target)
        folder = write(Path(top, "new"), new)
        upload(folder, recorded, delete_missing=mirrored)
        after = seen(target)
        views = []
        for left in recorded.crashes():
            views.append(seen(left))
            upload(folder, left, delete_missing=True)
            assert seen(left) == plain(left) == new
            assert list(left.keys(OWN)) == [KEY]
    shown = [view for at, view in enumerate(views) if at == 0 or view != views[at - 1]]
    assert shown == ([before, after] if before != after else [after])


@pytest.mark.slow
def test_a_crash_during_a_repair_is_repaired(tmp_path: Path) -> None:
    target = MemoryStore()
    old, new = {"a": b"1", "b": b"2", "x": b"3"}, {"a": b"one", "b": b"two", "x/y": b"4"}
    upload(write(tmp_path / "old", old), target)
    recorded = RecordingStore(target)
    folder = write(tmp_path / "new", new)
    upload(folder, recorded, delete_missing=True)
    newer = {"a": b"1", "b": b"II", "x": b"5"}
    newest = write(tmp_path / "newest", newer)
    for left in recorded.crashes():
        before, again = seen(left), RecordingStore(left)
        upload(newest, again, delete_missing=True)
        assert all(seen(crashed) in (before, newer) for crashed in again.crashes())
        assert plain(left) == newer


def test_a_crash_of_a_deletion_never_shows_a_part(tmp_path: Path) -> None:
    target = MemoryStore()
    files = {"a": b"1", "b/c": b"2"}
    upload(write(tmp_path / "folder", files), target)
    recorded = RecordingStore(target)
    delete(recorded)
    views = [seen(left) for left in recorded.crashes()]
    assert views == [files, *[None] * (len(views) - 1)]
    for left in recorded.crashes():
        delete(left)
        assert list(left.keys()) == []


def test_a_checkpoints_files_arrive_first_and_go_last(tmp_path: Path) -> None:
    """They are in the target whenever its record is, also without the index."""
    target = RecordingStore(MemoryStore())
    folder = write(tmp_path / "folder", {"c_1/a": b"1", "c_1/b": b"2", "c_1.json": b"{}", "z": b"3"})
    upload(folder, target)
    for path in ("c_1/a", "c_1/b", "c_1.json"):
        (folder / path).unlink()
    upload(folder, target, delete_missing=True)
    for left in target.crashes():
        there = plain(left)
        assert "c_1.json" not in there or there.keys() >= {"c_1/a", "c_1/b"}


@pytest.mark.slow
def test_a_killed_process_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """Each state of the folder has one number in all of its four files."""
    folder, target = tmp_path / "folder", LocalStore(tmp_path / "target")
    rnd, last, script = random.Random(0), -1, Path(__file__).parent / "crashing.py"
    for _ in range(15):
        command = [sys.executable, str(script), str(folder), target.url, str(last + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(rnd.randrange(1, 9))]
            for _ in range(rnd.randrange(200_000)):
                pass
            process.kill()
            said += process.stdout.readlines()
        view = seen(target)
        numbers = set((view or {"none": b"-1"}).values())
        assert len(numbers) == 1
        assert view is None or len(view) == 4
        ended = [int(line.split()[1]) for line in said if line.startswith("ended")]
        begun = [int(line.split()[1]) for line in said if line.startswith("begins")]
        last = int(numbers.pop())
        assert max(ended, default=-1) <= last <= max(begun)
    upload(folder, target, delete_missing=True)
    assert seen(target) == plain(target) == read(folder)
    assert list(target.keys(OWN)) == [KEY]


RANDOM = np.random.default_rng(0)
ONE, TWO, WIDE = RANDOM.random(5_000), RANDOM.random(5_000), RANDOM.random(50_000)


def values(store: Store, name: str) -> dict[str, np.ndarray]:
    """The values of a checkpoint, read whole."""
    namespace: dict[str, np.ndarray] = {}
    Tracker(store).restore(name, namespace)
    return namespace


def three_saved() -> Store:
    """A store with three checkpoints that share one pack."""
    store = MemoryStore()
    tracker = Tracker(store)
    tracker.save({"one": ONE, "two": TWO, "large": WIDE}, "all")
    tracker.save({"one": ONE}, "first")
    tracker.save({"two": TWO}, "second")
    return store


def compacted() -> Store:
    """A store in which gc compacted the pack of a checkpoint, after all others were removed."""
    store = three_saved()
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
    source, target = three_saved(), MemoryStore()
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
