from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest

from nbckpt.core.trust import open_signer
from nbckpt.errors import NotFoundError, RefusedError, StoreError, UsageError
from nbckpt.store import STAGING, LocalStore, Store, files, open_store
from nbckpt.store.files import hidden
from nbckpt.testing import StoreTests

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX")


class TestLocalStore(StoreTests):
    @pytest.fixture
    def store(self, tmp_path: Path) -> LocalStore:
        return LocalStore(tmp_path / "Ein Ordner 日本" / "store")

    def get_behind(self, store: Store, key: str) -> bytes:
        return Path(store.url, key).read_bytes()

    def put_behind(self, store: Store, key: str, data: bytes) -> None:
        file = Path(store.url, key)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


class TestFileUri(StoreTests):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return open_store((tmp_path / "a b ü%#").as_uri())


def test_a_key_is_a_file(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/b", b"x")
    assert store.path("a/b") == tmp_path / "a" / "b"
    assert store.path("a/b").read_bytes() == b"x"


def test_no_folder_is_created_before_the_first_put(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    assert not store.exists("a")
    assert list(store.keys()) == []
    store.delete("a")
    assert list(tmp_path.iterdir()) == []


def test_a_relative_folder_stays_in_place_after_a_chdir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore("store")
    store.put("a", b"x")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert store.get("a") == b"x"


def test_staged_files_are_not_keys(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"x")
    (tmp_path / STAGING / "left").write_bytes(b"half")
    assert list(store.keys()) == ["a"]
    for call in (store.get, store.exists, store.delete, lambda key: store.put(key, b"")):
        with pytest.raises(UsageError, match="cannot be a file name"):
            call(f"{STAGING}/left")
    with pytest.raises(UsageError, match="cannot be a file name"):
        list(store.keys(f"{STAGING}/"))


def test_only_old_staged_files_are_swept(tmp_path: Path) -> None:
    (tmp_path / STAGING).mkdir()
    old, new = hidden(tmp_path / STAGING), hidden(tmp_path / STAGING)
    old.write_bytes(b"half")
    new.write_bytes(b"another writer's")
    theirs = tmp_path / STAGING / "notes.txt"
    theirs.write_bytes(b"a user's")
    for file in (old, theirs):
        os.utime(file, (time.time() - 2 * 24 * 3600,) * 2)
    LocalStore(tmp_path).put("a", b"x")
    assert set((tmp_path / STAGING).iterdir()) == {new, theirs}


def test_reading_a_store_does_not_sweep_it(tmp_path: Path) -> None:
    LocalStore(tmp_path).put("a", b"x")
    (tmp_path / STAGING).rmdir()
    assert LocalStore(tmp_path).get("a") == b"x"
    assert not (tmp_path / STAGING).exists()


def test_a_put_syncs_the_file_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    replace = Path.replace
    monkeypatch.setattr(files, "sync", lambda _: happened.append("file synced"))
    monkeypatch.setattr(files, "sync_folder", lambda folder: happened.append(f"{folder.name} synced"))

    def name(staged: Path, target: Path) -> Path:
        happened.append("named")
        return replace(staged, target)

    monkeypatch.setattr(Path, "replace", name)
    LocalStore(tmp_path / "s").put("a/b", b"x")
    assert happened[-3:] == ["file synced", "named", "a synced"]
    assert {"s synced", f"{tmp_path.name} synced"} <= set(happened)


def test_a_file_in_the_place_of_the_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("not a folder")
    store = LocalStore(tmp_path / "store")
    with pytest.raises(StoreError, match="store is a file where a folder should be"):
        store.put("a/b", b"x")
    with pytest.raises(StoreError, match="cannot list"):
        list(store.keys())
    assert (tmp_path / "store").read_text() == "not a folder"


def test_a_file_in_the_place_of_a_folder_of_keys_is_named(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"x")
    with pytest.raises(StoreError, match=r"cannot write 'a/b'.*is a file where a folder"):
        store.put("a/b", b"y")
    assert store.get("a") == b"x"


def test_a_folder_in_the_place_of_a_key_is_named(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/b", b"x")
    with pytest.raises(StoreError, match="cannot write 'a'"):
        store.put("a", b"y")
    assert list(store.keys()) == ["a/b"]
    assert list((tmp_path / STAGING).iterdir()) == []


def test_a_key_that_is_not_unicode_is_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for call in (store.get, store.delete, lambda key: store.put(key, b"")):
        with pytest.raises(UsageError, match="cannot be a file name"):
            call("\ud800")


def test_a_key_too_long_for_the_system_is_explained(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(StoreError, match="cannot write"):
        store.put("x" * 300, b"")
    assert list(store.keys()) == []


def test_a_deleted_store_is_not_reported_as_a_missing_key(tmp_path: Path) -> None:
    gone = FileNotFoundError(errno.ENOENT, "No such file or directory")
    with (
        patch.object(Path, "replace", side_effect=gone),
        pytest.raises(StoreError, match="cannot write 'a'") as caught,
    ):
        LocalStore(tmp_path).put("a", b"x")
    assert not isinstance(caught.value, NotFoundError)


def put_while_it_fails(store: LocalStore, step: str, number: int, advice: str = "") -> None:
    """Put a key while a call of the system fails: the error is explained, and the store as it was."""
    store.put("before", b"x")
    error = OSError(number, os.strerror(number))
    with (
        patch.object(os, step, side_effect=error),
        pytest.raises(StoreError, match=f"cannot write 'a'.*{os.strerror(number)}{advice}"),
    ):
        store.put("a", b"y")
    assert list(store.keys()) == ["before"]


def test_a_folder_that_may_not_be_written_is_explained(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for step, number in product(("open", "fsync"), (errno.EACCES, errno.EPERM, errno.EROFS)):
        with subtests.test(f"{step} {number}"):
            store = LocalStore(tmp_path / f"{step} {number}")
            put_while_it_fails(store, step, number, r".*NBCKPT_STORE")
            store.put("a", b"y")


@posix
def test_a_failed_write_changes_nothing(tmp_path: Path) -> None:
    for step, number in product(("writev", "fsync"), (errno.ENOSPC, errno.EIO)):
        store = LocalStore(tmp_path / f"{step} {number}")
        put_while_it_fails(store, step, number)
        assert list((store.folder / STAGING).iterdir()) == []


@posix
def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "sync_folder", lambda _: None)
    with patch.object(os, "fsync", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        LocalStore(tmp_path).put("a", b"x")
    assert list(LocalStore(tmp_path).keys()) == []
    assert list((tmp_path / STAGING).iterdir()) == []


@posix
@pytest.mark.parametrize("most", [1, 3, 7])
def test_a_partial_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    def some(fd: int, views: list[memoryview]) -> int:
        return os.write(fd, b"".join(views)[:most])

    monkeypatch.setattr(os, "writev", some)
    store = LocalStore(tmp_path)
    store.put("a", [b"0123", b"", b"456", b"789"])
    assert store.get("a") == b"0123456789"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a disk of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)]
    try:
        refused = subprocess.run(mount, capture_output=True, check=False).returncode != 0
    except FileNotFoundError:
        refused = True
    if refused:
        pytest.skip("this system lets nobody but root mount a small disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_explained_and_loses_nothing(small_disk: Path) -> None:
    store = LocalStore(small_disk / "store")
    store.put("before", b"x" * 100_000)
    with pytest.raises(StoreError, match=r"cannot write 'large'.*No space left.*Free some space"):
        store.put("large", bytes(2_000_000))
    assert list(store.keys()) == ["before"]
    assert store.get("before") == b"x" * 100_000
    store.put("after", b"y" * 500_000)
    assert list(store.keys()) == ["after", "before"]


def test_a_delete_frees_its_space(small_disk: Path) -> None:
    store = LocalStore(small_disk)
    for n in range(10):
        store.put(str(n), bytes(600_000))
        store.delete(str(n))
    assert list(store.keys()) == []


PUT_FOR_EVER = """
import itertools, sys
from nbckpt.store import LocalStore
store = LocalStore(sys.argv[1])
for n in itertools.count():
    store.put(f"a/{n % 3}", [bytes([n % 256]) * 500_000] * 4)
    if n == 2:
        print("going", flush=True)
"""


@pytest.mark.parametrize("attempt", range(5))
@posix
def test_kill_9_leaves_every_key_whole(tmp_path: Path, attempt: int) -> None:
    command = [sys.executable, "-c", PUT_FOR_EVER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"going\n"
        time.sleep(0.01 + attempt * 0.003)  # to meet it at different points
        process.send_signal(signal.SIGKILL)
    store = LocalStore(tmp_path)
    assert list(store.keys()) == ["a/0", "a/1", "a/2"]
    for key in store.keys("a/"):
        data = store.get(key)
        assert data == data[:1] * 2_000_000


def test_a_key_may_take_the_name_of_an_emptied_folder(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/b/c", b"1")
    store.put("a/d", b"2")
    with pytest.raises(StoreError, match=r"cannot write 'a'.*not empty"):
        store.put("a", b"3")
    assert [store.get(key) for key in ("a/b/c", "a/d")] == [b"1", b"2"]
    for key in ("a/b/c", "a/d"):
        store.delete(key)
    store.put("a", b"3")
    assert store.get("a") == b"3"


def test_a_copy_works_on_a_file_system_without_links(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"x")
    with patch("nbckpt.store.local.os.link", side_effect=OSError(1, "Operation not permitted")):
        store.copy("a", "b")
    assert store.get("b") == b"x"


def test_copies_and_secrets_work_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "link")  # as in a browser
    store = LocalStore(tmp_path)
    store.put("a", b"x")
    store.copy("a", "b")
    assert store.get("b") == b"x"
    assert open_signer().secret == open_signer().secret


@posix
@pytest.mark.parametrize("name", ["refs", "packs", "trash", "packs/ab", STAGING])
def test_a_link_that_leads_out_of_the_store_is_refused_by_name(tmp_path: Path, name: str) -> None:
    theirs = tmp_path / "theirs"
    for file in ("ab/old", "x/old"):
        LocalStore(theirs).put(file, b"precious")
    for file in theirs.rglob("*"):
        os.utime(file, (time.time() - 2 * 24 * 3600,) * 2)
    before = {path: path.stat().st_mtime for path in theirs.rglob("*")}
    store = LocalStore(tmp_path / "store")
    (tmp_path / "store" / name).parent.mkdir(parents=True)
    (tmp_path / "store" / name).symlink_to(theirs)
    key = f"{name}/x/old"
    calls = {
        "put": lambda: store.put("a" if name == STAGING else key, b"y"),
        "copy": lambda: store.copy(key, "b"),
        "get": lambda: store.get(key),
        "path": lambda: store.path(key),
        "exists": lambda: store.exists(key),
        "delete": lambda: store.delete(key),
        "keys": lambda: list(store.keys(f"{name}/")),
        "all keys": lambda: list(store.keys()),
    }
    if name == STAGING:
        calls = {"put": calls["put"]}
    elif "/" in name:  # the folder of a trial may hold any link, and keys there are not listed
        assert list(calls.pop("all keys")()) == []
    for call in calls.values():
        with pytest.raises(RefusedError, match=f"'{name}' in .*store is refused.*leads outside"):
            call()
    assert {path: path.stat().st_mtime for path in theirs.rglob("*")} == before


@posix
def test_links_to_and_inside_a_store_are_followed(tmp_path: Path) -> None:
    LocalStore(tmp_path / "real").put("a/b", b"x")
    (tmp_path / "chosen").symlink_to("real")
    (tmp_path / "real" / "alias").symlink_to("a")
    store = LocalStore(tmp_path / "chosen")
    store.put("a/c", b"y")
    assert list(store.keys()) == ["a/b", "a/c", "alias/b", "alias/c"]
    assert store.get("alias/c") == b"y"


def test_a_read_that_the_system_cuts_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.put("key", b"0123456789")
    read = os.read
    monkeypatch.setattr(os, "read", lambda fd, size: read(fd, min(size, 3)))
    assert store.get("key", 1, 9) == b"12345678"
