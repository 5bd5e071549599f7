"""Folders: what was sent comes back exactly, is moved once, and is there for every other tool."""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sync.trees import ONCE, plain, read, seen, write

from nbckpt.core import schema
from nbckpt.errors import CorruptError, FormatError, NotFoundError, StoreError, UsageError
from nbckpt.store import STAGING, Data, LocalStore, MemoryStore, Store, open_store
from nbckpt.store.base import parts_of
from nbckpt.sync.download import download
from nbckpt.sync.exclude import OWN
from nbckpt.sync.index import KEY
from nbckpt.sync.target import delete
from nbckpt.sync.upload import upload
from nbckpt.testing import FaultyStore, RecordingStore
from nbckpt.testing.faults import Call

TREE = {
    "a.txt": b"a",
    "empty": b"",
    "deep/er/ü n.bin": bytes(range(256)) * 300,
    "deep/b": b"b",
    "日本/🦆 100% #1": b"duck",
    "checkpoint_000001.json": b"{}",
    "checkpoint_000001/model": b"m" * 1000,
}


def age(folder: Path) -> None:
    """Let all files be old enough for their times to be trusted."""
    for file in folder.rglob("*"):
        if file.is_file():
            os.utime(file, ns=(file.stat().st_mtime_ns - 10**10,) * 2)


@pytest.fixture(params=["memory", "folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    makes: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "folder": lambda: LocalStore(tmp_path / "the target"),
        "s3": lambda: open_store(f"{request.getfixturevalue('s3_bucket')}/the target"),
    }
    return makes[request.param]()


# Laws.

NAMES = st.sampled_from(
    ["a", "b", "ü", "c.json", "c", "x y", "#%?", "a.tmp", "日本", "-", "~", "\udcff", "n\n\\"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
DATA = st.sampled_from([b"", b"1", b"2", b"33", b"44", b"5" * 3000])
STEPS = st.one_of(
    st.tuples(st.just("write"), PATHS, DATA),
    st.tuples(st.just("trick"), PATHS, DATA),
    st.tuples(st.just("remove"), PATHS, st.just(b"")),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("upload"), st.booleans(), st.booleans()),
    st.tuples(st.just("download"), st.booleans(), st.booleans()),
)


def change(folder: Path, step: str, path: str, more: bytes | str) -> None:
    """Do what a user could do to the folder; what cannot be done is not."""
    target = folder / path
    try:
        if isinstance(more, str):
            (folder / more).parent.mkdir(parents=True, exist_ok=True)
            target.rename(folder / more)
        elif step == "remove":
            shutil.rmtree(target) if target.is_dir() else target.unlink()
        else:
            before = target.stat() if target.exists() else None
            if target.is_dir():
                shutil.rmtree(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(more)
            if step == "trick" and before:  # as two writes within one tick of the clock
                os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    except OSError:
        pass


def clashes(path: str, paths: set[str]) -> bool:
    return any(other.startswith(f"{path}/") or path.startswith(f"{other}/") for other in paths)


class Model:
    """A folder, its target, and what each must hold."""

    def __init__(self, top: Path, target: Store) -> None:
        self.folder, self.other, self.store = top / "folder", top / "other", target
        self.folder.mkdir()
        self.sent: dict[str, bytes] | None = None

    def upload(self, mirrored: bool, partly: bool) -> None:
        here = {path: data for path, data in read(self.folder).items() if not (partly and ".tmp" in path)}
        exclude = ["*.tmp"] if partly else None
        moved = upload(self.folder, self.store, delete_missing=mirrored, exclude=exclude)
        before = self.sent or {}
        kept = {path: data for path, data in before.items() if not mirrored or (partly and ".tmp" in path)}
        kept = {path: data for path, data in kept.items() if not clashes(path, here.keys())}
        self.sent = kept | here
        assert seen(self.store) == plain(self.store) == self.sent
        assert moved.files == sum(before.get(path) != data for path, data in here.items())
        assert moved.removed == len(before.keys() - self.sent.keys())
        again = upload(self.folder, self.store, delete_missing=mirrored, exclude=exclude)
        assert (again.files, again.removed, again.same) == (0, 0, len(here))
        assert not [key for key in self.store.keys(OWN) if key != KEY]

    def download(self, mirrored: bool, partly: bool) -> None:
        if self.sent is None:
            with pytest.raises(NotFoundError):
                download(self.store, self.other)
            assert not self.other.exists()
            return
        exclude = ["*.tmp"] if partly else None
        before = read(self.other)
        there = {path: data for path, data in self.sent.items() if not (partly and ".tmp" in path)}
        moved = download(self.store, self.other, delete_missing=mirrored, exclude=exclude)
        kept = {path: data for path, data in before.items() if not mirrored or (partly and ".tmp" in path)}
        kept = {path: data for path, data in kept.items() if not clashes(path, there.keys())}
        assert read(self.other) == kept | there
        assert moved.files == sum(before.get(path) != data for path, data in there.items())
        assert download(self.store, self.other, delete_missing=mirrored, exclude=exclude).files == 0


@pytest.mark.slow
@pytest.mark.parametrize("target", ["memory", "folder"])
@given(steps=st.lists(STEPS, max_size=25))
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_a_download_equals_the_last_upload_after_any_changes(target: str, steps: list) -> None:
    with tempfile.TemporaryDirectory() as top:
        model = Model(Path(top), MemoryStore() if target == "memory" else LocalStore(f"{top}/target"))
        for step, *how in [*steps, ("upload", True, False), ("download", True, False)]:
            if step in {"upload", "download"}:
                getattr(model, step)(*how)
            else:
                change(model.folder, step, *how)
        assert read(model.other) == read(model.folder)


# On every storage.


def test_an_uploaded_tree_has_plain_files_and_can_be_downloaded(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "folder", TREE)
    moved = upload(folder, store)
    assert (moved.files, moved.size, moved.same) == (7, sum(map(len, TREE.values())), 0)
    assert plain(store) == TREE
    assert download(store, tmp_path / "new" / "er").files == 7
    assert read(tmp_path / "new" / "er") == TREE
    assert upload(folder, store).files == download(store, tmp_path / "new" / "er").files == 0


@pytest.mark.slow
def test_many_files_in_one_folder_are_uploaded_and_downloaded(store: Store, tmp_path: Path) -> None:
    files = {f"many/{n}": b"%d" % n for n in range(256)}
    assert upload(write(tmp_path / "folder", files), store).files == 256
    assert download(store, tmp_path / "other").files == 256
    assert read(tmp_path / "other") == files


def test_replaced_and_removed_files_reach_the_download(store: Store, tmp_path: Path) -> None:
    folder, other = write(tmp_path / "folder", {"a": b"1", "b/c": b"2", "d": b"3", "e": b"4"}), tmp_path / "o"
    upload(folder, store)
    download(store, other)
    for path in ("a", "b/c", "d"):
        (folder / path).unlink()
    (folder / "b").rmdir()
    write(folder, {"a/x": b"5", "b": b"6", "e": b"7"})
    upload(folder, store, delete_missing=True)
    download(store, other, delete_missing=True)
    assert read(folder) == read(other) == plain(store) == {"a/x": b"5", "b": b"6", "e": b"7"}


def test_downloading_a_deleted_target_is_an_error(store: Store, tmp_path: Path) -> None:
    upload(write(tmp_path / "folder", TREE), store)
    assert delete(store) == len(TREE)
    assert list(store.keys()) == []
    with pytest.raises(NotFoundError, match="there is nothing at"):
        download(store, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert delete(store) == 0


@pytest.mark.slow
def test_a_repeated_upload_of_10000_files_needs_two_requests(tmp_path: Path) -> None:
    """They are one listing and one get."""
    store = RecordingStore(MemoryStore())
    folder = write(tmp_path / "folder", {f"{n % 50}/{n}": b"x" for n in range(10_000)})
    age(folder)
    upload(folder, store)
    store.calls.clear()
    assert upload(folder, store).same == 10_000
    assert sorted((call.op, call.key) for call in store.calls) == [("get", KEY), ("keys", "")]


def test_only_the_changed_file_is_moved(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "folder", TREE)
    age(folder)
    upload(folder, store)
    download(store, tmp_path / "other")
    write(folder, {"a.txt": b"b"})
    for moved in (upload(folder, store), download(store, tmp_path / "other")):
        assert (moved.files, moved.size, moved.same) == (1, 1, 6)
    assert read(tmp_path / "other")["a.txt"] == b"b"


def test_a_change_within_one_tick_of_the_clock_is_seen(tmp_path: Path) -> None:
    store, folder = MemoryStore(), write(tmp_path / "folder", {"a": b"1"})
    upload(folder, store)
    was = (folder / "a").stat()
    write(folder, {"a": b"2"})
    os.utime(folder / "a", ns=(was.st_atime_ns, was.st_mtime_ns))
    assert upload(folder, store).files == 1
    assert seen(store) == {"a": b"2"}


def test_a_touched_file_is_not_uploaded_again(tmp_path: Path) -> None:
    store, folder = RecordingStore(MemoryStore()), write(tmp_path / "folder", {"a": b"1"})
    upload(folder, store)
    os.utime(folder / "a", (1, 1))
    store.calls.clear()
    assert upload(folder, store).files == 0
    assert [call.key for call in store.changes] == [KEY]


# What other tools put there.


def test_a_folder_from_another_tool_is_downloaded_and_taken_over(tmp_path: Path) -> None:
    store = MemoryStore()
    for path, data in TREE.items():
        store.put(path, data)
    assert seen(store) == TREE
    recorded = RecordingStore(store)
    folder = write(tmp_path / "folder", {"a.txt": b"new", "more": b"more"})
    upload(folder, recorded)
    views = [seen(left) for left in recorded.crashes()]
    assert [view for at, view in enumerate(views) if view != views[at - 1]] == [TREE, TREE | read(folder)]


@pytest.mark.parametrize("key", ["../x", "a//b", "/abs", "a/../../x"])
def test_an_invalid_name_in_a_foreign_target_is_refused(tmp_path: Path, key: str) -> None:
    class Foreign(MemoryStore):
        def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
            yield key, 1

    with pytest.raises(UsageError, match="is not a key"):
        download(Foreign(), tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_a_file_and_a_folder_there_is_an_error(tmp_path: Path) -> None:
    store = MemoryStore()
    store.put("a", b"1")
    store.put("a/b", b"2")
    with pytest.raises(UsageError, match="'a' in memory is a file and a folder at once"):
        download(store, tmp_path / "folder")
    download(store, tmp_path / "folder", exclude=["a/*"])
    assert read(tmp_path / "folder") == {"a": b"1"}


# Damage.


def index_of(store: Store) -> dict[str, Any]:
    index: dict[str, Any] = json.loads(store.get(KEY))
    return index


def damaged(tmp_path: Path) -> tuple[MemoryStore, Path]:
    """Return a target, and a folder that has something else."""
    store = MemoryStore()
    upload(write(tmp_path / "folder", {"a": b"12", "b/c": b"34", "big": b"5" * 100}), store)
    return store, write(tmp_path / "other", {"a": b"mine", "old": b"old"})


def test_contents_that_differ_from_the_upload_are_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, data in enumerate([b"", b"5" * 99, b"5" * 99 + b"6", None]):
        with subtests.test(data=data):
            top = tmp_path / str(number)
            store, other = damaged(top)
            if data is None:
                store.delete("big")
            else:
                store.put("big", data)
            for target in (other, top / "new"):
                with pytest.raises(CorruptError, match="'big'"):
                    download(store, target, delete_missing=True)
            assert read(other) == {"a": b"mine", "old": b"old"}
            assert sorted(entry.name for entry in top.iterdir()) == ["folder", "other"]
            if data is None or len(data) < 100:  # its size tells that the target lacks it
                assert upload(top / "folder", store).files == 1
                assert seen(store) == read(top / "folder")


def test_bytes_after_the_contents_that_were_sent_are_ignored(tmp_path: Path) -> None:
    store, other = damaged(tmp_path)
    store.put("big", b"5" * 101)
    assert download(store, other).files == 3


def test_a_hostile_index_is_damaged_and_writes_no_file(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store, other = damaged(tmp_path)
    index, before = index_of(store), sorted(tmp_path.rglob("*"))
    rows: list[Any] = [
        *({path: [1, 1, ""]} for path in ("../x", "/tmp/x", "a/../../x", "")),
        *({"x": item} for item in ([-1, 1, ""], [1, -1, ""], [1, 10**30, ""], [1e400, 1, ""])),
        *({"x": item} for item in ([1], None, ["x", 1, ""])),
        [],
        None,
    ]
    for files in rows:
        with subtests.test(str(files)):
            store.put(KEY, json.dumps(index | {"files": files}).encode())
            with pytest.raises(CorruptError, match=r"index\.json in memory is damaged"):
                download(store, other)
            assert sorted(tmp_path.rglob("*")) == before


def test_a_damaged_index_is_an_error_until_the_next_upload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    store, other = damaged(tmp_path)
    for text in (b"", b"\xff", b"{", b"[]", b"null", b"7", b'{"format": 1}', b"[" * 100_000):
        with subtests.test(str(text[:20])):
            store.put(KEY, text)
            with pytest.raises(CorruptError, match=r"index\.json in memory is damaged"):
                download(store, other)
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                upload(tmp_path / "folder", store)
            assert "everything is sent again" in caplog.text
            assert seen(store) == read(tmp_path / "folder")


def test_an_index_of_a_newer_version_is_not_changed(tmp_path: Path) -> None:
    store, other = damaged(tmp_path)
    store.put(KEY, json.dumps(index_of(store) | {"format": 99}).encode())
    for call in (lambda: download(store, other), lambda: upload(tmp_path / "folder", store)):
        with pytest.raises(FormatError, match="upgrade nbckpt"):
            call()
    assert index_of(store)["format"] == 99


def test_internal_names_in_a_hostile_index_are_not_written(tmp_path: Path) -> None:
    store, other = damaged(tmp_path)
    names = {f"{STAGING}-x/y": [2, 1, ""], f"{OWN}/y": [2, 1, ""]}
    index = index_of(store) | {"files": names}
    store.put(KEY, schema.seal({name: value for name, value in index.items() if name != schema.CHECKSUM}))
    download(store, other)
    assert read(other) == {"a": b"mine", "old": b"old"}


def test_a_changed_byte_in_an_index_is_found(tmp_path: Path) -> None:
    store, other = damaged(tmp_path)
    time = index_of(store)["looked_at"]
    store.put(KEY, store.get(KEY).replace(b"%d" % time, b"%d" % (time ^ 1)))
    with pytest.raises(CorruptError, match="do not match its checksum"):
        download(store, other)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX")
def test_pipes_and_links_that_lead_outside_are_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "folder", {"a": b"a", "sub/b": b"b"})
    write(tmp_path / "private", {"key": b"secret"})
    (folder / "file").symlink_to(tmp_path / "private" / "key")
    (folder / "sub" / "all").symlink_to(tmp_path / "private")
    (folder / "alias").symlink_to("a")
    (folder / "inner").symlink_to("sub")
    (folder / "to nothing").symlink_to("nothing")
    os.mkfifo(folder / "pipe")
    store = MemoryStore()
    left_out = upload(folder, store).left_out
    assert {*left_out} - {"pipe", "to nothing"} == {"file", "sub/all", "inner"}
    assert (
        left_out.items()
        >= {
            "file": "it is a link that leads outside",
            "sub/all": "it is a link that leads outside",
            "inner": "it is a link to a folder",
        }.items()
    )
    assert plain(store) == seen(store) == {"a": b"a", "alias": b"a", "sub/b": b"b"}


def test_a_link_in_the_folder_is_not_followed_outside(tmp_path: Path) -> None:
    store, other = damaged(tmp_path)
    outside = write(tmp_path / "outside", {"c": b"theirs"})
    (other / "b").symlink_to(outside)
    (other / "a").unlink()
    (other / "a").symlink_to(outside / "c")
    download(store, other)
    assert read(outside) == {"c": b"theirs"}
    assert read(other)["a"] == b"12"
    assert read(other)["b/c"] == b"34"


# Faults.


def before_and_after(tmp_path: Path) -> tuple[MemoryStore, Path, dict[str, bytes], dict[str, bytes]]:
    """Return a target, a folder that has other things than were sent, what was sent, and what it has."""
    store = MemoryStore()
    folder = write(tmp_path / "folder", {"a": b"1", "b": b"2", "c/d": b"3", "e": b"4"})
    upload(folder, store)
    before = read(folder)
    for path in ("b", "e"):
        (folder / path).unlink()
    write(folder, {"a": b"one", "e/f": b"5", "new": b"6"})
    return store, folder, before, read(folder)


def test_two_uploads_at_the_same_moment_leave_a_whole_target(tmp_path: Path) -> None:
    """Each deletes what the other one has put aside."""
    store, folder = MemoryStore(), write(tmp_path / "folder", {"a": b"1", "b": b"1"})
    upload(folder, store)
    write(folder, {"a": b"22"})
    others = [{"a": b"333", "b": b"22"}]

    def beside(call: Call) -> bool:
        if call.op == "put" and call.key == KEY and others:
            write(folder, others.pop())
            upload(folder, store)
        return False

    upload(folder, FaultyStore(store, when=beside))
    download(store, tmp_path / "there")
    assert read(tmp_path / "there") == {"a": b"333", "b": b"22"}


def fails(reason: str, transfer: Callable[..., object], *places: object) -> bool:
    """Tell whether a transfer fails, for a reason that it tells."""
    try:
        transfer(*places, delete_missing=True, options=ONCE)
    except StoreError as error:
        return reason in str(error) or pytest.fail(str(error))
    return False


@pytest.mark.slow
@pytest.mark.parametrize("halfway", [False, True])
def test_a_failed_upload_shows_old_or_new_files_and_is_repaired(tmp_path: Path, halfway: bool) -> None:
    """The next upload repairs the target, whichever call failed."""
    failed, olds = 0, 0
    while True:
        whole, folder, before, after = before_and_after(tmp_path / f"{failed}")
        faulty = FaultyStore(whole, fail_at=failed + 1, halfway=halfway)
        if not fails("as the test asked", upload, folder, faulty):
            break
        failed += 1
        view = seen(whole)
        assert view in (before, after)
        olds += view == before
        upload(folder, whole, delete_missing=True)
        assert seen(whole) == plain(whole) == after
        assert not [key for key in whole.keys(OWN) if key != KEY]
    # Until the index is put, the old state shows: it, what it names, and the three files.
    assert olds == 6 - halfway
    assert failed > olds


def test_a_failed_first_upload_shows_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path / "folder", TREE)
    failed = 0
    while True:
        whole = MemoryStore()
        try:
            upload(folder, FaultyStore(whole, fail_at=failed + 1), options=ONCE)
            break
        except StoreError:
            failed += 1
            assert seen(whole) is None
            upload(folder, whole)
            assert seen(whole) == plain(whole) == TREE
    assert failed == len(TREE) + 3


def failing_downloads(
    tmp_path: Path, path: str, was_there: bool, fails_at: Callable[[Store, Path, int], bool]
) -> tuple[int, int]:
    """Download with a fault at one call after the other; each leaves the folder as it was.

    Returns:
        How many calls can fail, and how many files there are in the end.
    """
    whole, folder, _, after = before_and_after(tmp_path)
    upload(folder, whole, delete_missing=True)
    other, mine = tmp_path / path, {"a": b"mine", "e": b"mine", "old/er": b"mine"}
    for failed in itertools.count():
        if was_there:
            shutil.rmtree(other, ignore_errors=True)
            write(other, mine)
        if not fails_at(whole, other, failed):
            break
        assert (tmp_path / "other").exists() == was_there
        if was_there:
            assert read(other) == mine
            assert sorted(entry.name for entry in other.iterdir()) == ["a", "e", "old"]
    assert read(other) == after
    assert not (other / "old").exists()
    return failed, len(after)


@pytest.mark.parametrize("halfway", [False, True])
@pytest.mark.parametrize("was_there", [False, True])
def test_a_download_that_fails_at_any_call_changes_no_file(
    tmp_path: Path, was_there: bool, halfway: bool
) -> None:
    def fails_at(whole: Store, other: Path, at: int) -> bool:
        faulty = FaultyStore(whole, fail_at=at + 1, halfway=halfway)
        return fails("as the test asked", download, faulty, other)

    failed, files = failing_downloads(tmp_path, "other/deep", was_there, fails_at)
    assert failed == 1 + files


@pytest.mark.parametrize("was_there", [False, True])
def test_a_disk_failure_leaves_the_folder_unchanged(tmp_path: Path, was_there: bool) -> None:
    def fails_at(whole: Store, other: Path, at: int) -> bool:
        calls = itertools.count()

        def maybe(real: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                if next(calls) == at:
                    raise OSError(28, "No space left on device")
                return real(*args, **kwargs)

            return call

        with (
            patch.object(Path, "replace", maybe(Path.replace)),
            patch.object(Path, "mkdir", maybe(Path.mkdir)),
            patch.object(os, "utime", maybe(os.utime)),
        ):
            return fails("No space left on device", download, whole, other)

    failed, _ = failing_downloads(tmp_path, "other", was_there, fails_at)
    assert failed > 8


def test_an_upload_of_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no folder"):
        upload(tmp_path / "none", MemoryStore())


# What changes meanwhile.


class Meanwhile(MemoryStore):
    """A store in which something happens when a key is put."""

    def __init__(self, key: str, then: Any) -> None:
        super().__init__()
        self.key, self.then = key, then

    def put(self, key: str, data: Data) -> None:
        if key != self.key:
            super().put(key, data)
            return
        self.key = ""
        pieces = []
        for piece in parts_of(data):
            pieces.append(bytes(piece))
            if self.then:
                self.then()
                self.then = None
        super().put(key, pieces)


def test_files_deleted_during_an_upload_are_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "folder", {"a": b"1", **{f"b{n}": b"2" for n in range(200)}})
    gone = threading.Event()

    def remove() -> None:
        for file in folder.glob("b*"):
            file.unlink()
        gone.set()

    def late_puts(key: str, data: Data) -> None:
        assert not key.startswith("b") or gone.wait(60)
        Meanwhile.put(store, key, data)

    store = Meanwhile("a", remove)
    with patch.object(store, "put", late_puts):
        moved = upload(folder, store)
    assert moved.left_out
    assert all("cannot be read: No such file" in reason for reason in moved.left_out.values())
    assert moved.files + len(moved.left_out) == 201
    assert upload(folder, store, delete_missing=True).left_out == {}
    assert seen(store) == {"a": b"1"}


def test_an_unreadable_file_is_reported_and_its_old_copy_stays(tmp_path: Path) -> None:
    store, folder = MemoryStore(), write(tmp_path / "folder", {"a": b"1", "b": b"2"})
    upload(folder, store)
    write(folder, {"a": b"one", "b": b"two"})
    real = Path.open

    def refuse(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path == folder / "a":
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **kwargs)

    with patch.object(Path, "open", refuse):
        moved = upload(folder, store, delete_missing=True)
    assert (moved.left_out, moved.same) == ({"a": "it cannot be read: Permission denied"}, 0)
    assert seen(store) == {"a": b"1", "b": b"two"}
    upload(folder, store)
    assert seen(store) == read(folder)


LARGE = 40 << 20


@pytest.mark.slow
@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("how", ["rewritten", "shorter", "replaced", "gone", "appended"])
def test_a_large_file_that_changes_during_its_upload_is_left_out(
    tmp_path: Path, how: str, is_new: bool
) -> None:
    """A file that only grew is uploaded."""
    folder = write(tmp_path / "folder", {"big": b"old" * (LARGE // 3)})
    store = Meanwhile("", None)
    if not is_new:
        upload(folder, store)
    before = seen(store)
    data = os.urandom(LARGE)
    big = write(folder, {"big": data}) / "big"

    def change() -> None:
        if how == "gone":
            big.unlink()
        elif how == "replaced":
            write(folder, {"next": b"n" * LARGE})
            (folder / "next").replace(big)
        else:
            with big.open("r+b") as file:
                if how == "shorter":
                    file.truncate(1 << 20)
                file.seek(0, os.SEEK_END if how == "appended" else os.SEEK_SET)
                file.write(b"xyz")
            os.utime(big, (1, 1))

    def all_puts(key: str, put: Data) -> None:
        if key not in {KEY} and not done:
            done.append(key)
            store.key, store.then = key, change
        Meanwhile.put(store, key, put)

    done: list[str] = []
    with patch.object(store, "put", all_puts):
        moved = upload(folder, store, options=ONCE)
    assert done
    if how == "appended":
        assert moved.left_out == {}
        assert seen(store) == {"big": data}
    else:
        assert list(moved.left_out) == ["big"]
        assert seen(store) == (before if not is_new else {})
    upload(folder, store, delete_missing=True)
    assert seen(store) == plain(store) == read(folder)
    assert not [key for key in store.keys(OWN) if key != KEY]


def test_a_growing_journal_is_uploaded_up_to_its_scanned_size(tmp_path: Path) -> None:
    folder = write(tmp_path / "folder", {"a": b"1", "journal": b"one\n"})
    real = Path.stat

    def grow(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.name == "journal":
            with open(path, "ab") as file:  # noqa: PTH123  `Path.open` would come here again
                file.write(b"more\n")
        return real(path, follow_symlinks=follow_symlinks)

    store = MemoryStore()
    with patch.object(Path, "stat", grow):
        moved = upload(folder, store)
    assert moved.left_out == {}
    assert seen(store) == {"a": b"1", "journal": b"one\n"}
    assert upload(folder, store).files == 1
    assert seen(store) == read(folder)


def test_a_download_follows_a_concurrent_upload(tmp_path: Path) -> None:
    folder = write(tmp_path / "folder", {"a": b"1", "b": b"2"})
    target = MemoryStore()
    upload(folder, target)
    write(folder, {"a": b"one", "b": b"two"})
    store = Reading(target, lambda: upload(folder, target, delete_missing=True))
    download(store, tmp_path / "other")
    assert read(tmp_path / "other") == {"a": b"one", "b": b"two"}


class Reading(FaultyStore):
    """A store in which something happens once the index was read."""

    def __init__(self, store: Store, then: Any) -> None:
        super().__init__(store, when=lambda _: False)
        self.then = then

    def get(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        data = super().get(key, start, stop)
        if key == KEY and self.then:
            then, self.then = self.then, None
            then()
        return data


@pytest.mark.slow
def test_large_files_are_never_held_in_memory(tmp_path: Path) -> None:
    store, folder = LocalStore(tmp_path / "target"), tmp_path / "folder"
    folder.mkdir()
    with (folder / "big").open("wb") as file:
        for n in range(300):
            file.write(bytes([n % 256]) * (1 << 20))
    code = f"""
import resource
from nbckpt.store import LocalStore
from nbckpt.sync.download import download
from nbckpt.sync.upload import upload
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
upload({str(folder)!r}, LocalStore({str(store.folder)!r}))
with open({str(folder / "big")!r}, "r+b") as file: file.write(b"x")
upload({str(folder)!r}, LocalStore({str(store.folder)!r}))
download(LocalStore({str(store.folder)!r}), {str(tmp_path / "other")!r})
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 120  # MiB: a few pieces
    assert (tmp_path / "other" / "big").read_bytes()[:2] == b"x\0"
