"""Writing folders whole or not at all, and lending them."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nbckpt.core import shared_tempdir
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.files import FILES
from nbckpt.core.trust import open_signer
from nbckpt.errors import CorruptError, NotFoundError, StoreError, UsageError
from nbckpt.store import MemoryStore, RemoteStore, files, fsync, open_store
from nbckpt.testing import FaultyStore, RecordingStore

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX")

MADE = {"a": 1, FILES: {"f": b"new", "sub/g": b"new"}}


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Give a folder with something else in it."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "theirs").write_bytes(b"precious")
    return folder


def test_as_directory_returns_the_folder_of_a_folder_checkpoint(foreign: Path) -> None:
    with Checkpoint.from_directory(foreign).as_directory() as path:
        assert path == str(foreign)
    assert contents(foreign) == {"theirs": b"precious"}


def test_as_directory_of_another_form_is_temporary() -> None:
    """The name is the content's, so that equal ones can be shared."""
    made = Checkpoint.from_dict(MADE)
    with made.as_directory() as path:
        assert Path(path, "sub", "g").read_bytes() == b"new"
        assert Path(path).name == made.digest()[:32]
    assert not Path(path).exists()


def left_behind() -> list[str]:
    return [file.name for file in shared_tempdir.user_folder().iterdir() if not file.name.endswith(".lock")]


def test_an_error_in_the_block_leaves_nothing() -> None:
    with pytest.raises(ZeroDivisionError), Checkpoint.from_dict(MADE).as_directory():
        raise ZeroDivisionError
    assert left_behind() == []


def test_an_inner_block_does_not_remove_the_folder_of_the_outer() -> None:
    made = Checkpoint.from_dict(MADE)
    with made.as_directory() as outer:
        with Checkpoint.from_bytes(made.to_bytes()).as_directory() as inner:
            assert inner == outer
        assert Path(outer, "f").exists()
    assert left_behind() == []


def test_threads_share_one_folder() -> None:
    made = Checkpoint.from_dict(MADE)
    together = threading.Barrier(8)

    def use(_: int) -> str:
        with made.as_directory() as path:
            together.wait()
            assert Path(path, "f").read_bytes() == b"new"
            return path

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(use, range(8)))) == 1
    assert left_behind() == []


def test_a_block_may_end_in_another_thread() -> None:
    block = Checkpoint.from_dict(MADE).as_directory()
    block.__enter__()
    thread = threading.Thread(target=block.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    assert left_behind() == []


def test_different_contents_have_different_temporary_folders() -> None:
    with (
        Checkpoint.from_dict({FILES: {"f": b"1"}}).as_directory() as one,
        Checkpoint.from_dict({FILES: {"f": b"2"}}).as_directory() as other,
    ):
        assert Path(one, "f").read_bytes() == b"1"
        assert Path(other, "f").read_bytes() == b"2"


def test_a_failed_as_directory_leaves_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Checkpoint.from_dict(MADE)
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", _no_space)
        with pytest.raises(StoreError, match="No space"), made.as_directory():
            pass
    assert left_behind() == []
    with made.as_directory() as path:
        assert Path(path, "f").exists()


def _no_space(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@posix
def test_only_the_user_may_enter_the_temporary_folder() -> None:
    assert shared_tempdir.user_folder().stat().st_mode & 0o777 == 0o700


@posix
def test_a_link_in_place_of_the_temporary_folder_is_not_used(tmp_path: Path, clean_environment: Path) -> None:
    mine = shared_tempdir.user_folder()
    mine.rmdir()
    mine.symlink_to(tmp_path, target_is_directory=True)
    with Checkpoint.from_dict(MADE).as_directory() as path:
        assert not Path(path).is_relative_to(mine)
        assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_path_is_the_users_own() -> None:
    made = Checkpoint.from_dict(MADE)
    one, other = made.to_directory(), made.to_directory()
    assert one != other
    assert contents(Path(one)) == contents(Path(other))


LEND = """
import sys
from nbckpt.core.checkpoint import Checkpoint
import tempfile
tempfile.tempdir = sys.argv[1]
fetched = []
from nbckpt.store import RemoteStore
get = RemoteStore.get
def counted(self, key, *range):
    fetched.append(key)
    return get(self, key, *range)
RemoteStore.get = counted
with Checkpoint.from_uri(sys.argv[2]).as_directory() as path:
    print(path, sum(open(f"{path}/{n}", "rb").read() == b"x" * 1000 for n in range(50)),
          len([key for key in fetched if not key.startswith(".nbckpt")]), flush=True)
    sys.stdin.readline()
"""


def lender(temporary: Path, uri: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LEND, str(temporary), uri]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    files = {str(n): b"x" * 1000 for n in range(50)}
    return Checkpoint.from_dict({FILES: files}).to_uri(f"local://{tmp_path}/remote")


@pytest.fixture
def temporary(clean_environment: Path) -> Path:
    return clean_environment / "tmp"


def said(process: subprocess.Popen[str]) -> tuple[str, int, int]:
    assert process.stdout
    path, whole, fetched = process.stdout.readline().split()
    return path, int(whole), int(fetched)


@pytest.mark.slow
def test_processes_share_one_download_and_the_last_removes_it(temporary: Path, uri: str) -> None:
    processes = [lender(temporary, uri) for _ in range(5)]
    answers = [said(process) for process in processes]
    assert len({path for path, _, _ in answers}) == 1
    assert [whole for _, whole, _ in answers] == [50] * 5
    assert sorted(fetched for _, _, fetched in answers) == [0, 0, 0, 0, 50]
    for process in processes:
        assert Path(answers[0][0], "49").exists()
        process.communicate("leave\n")
    assert not Path(answers[0][0]).exists()


@posix
def test_files_of_a_killed_process_are_swept(temporary: Path, uri: str) -> None:
    """By whoever lends next, be it something else."""
    with lender(temporary, uri) as process:
        path = Path(said(process)[0])
        process.send_signal(signal.SIGKILL)
    half = path.with_name(f"{path.name}.half")
    half.mkdir()
    with Checkpoint.from_dict({"other": 1}).as_directory():
        assert not path.exists()
        assert not half.exists()
    assert left_behind() == []


def test_files_of_a_running_process_are_not_swept(temporary: Path, uri: str) -> None:
    with lender(temporary, uri) as process:
        path = Path(said(process)[0])
        with Checkpoint.from_dict({"other": 1}).as_directory():
            pass
        assert (path / "0").exists()
        process.communicate("leave\n")
    assert not path.exists()


def test_a_moved_folder_is_still_a_checkpoint(tmp_path: Path) -> None:
    """And attributes move with it."""
    made = Named.from_dict(MADE)
    made.title = "best"
    shutil.move(made.to_directory(tmp_path / "old"), tmp_path / "new")
    moved = Checkpoint.from_directory(tmp_path / "new")
    assert isinstance(moved, Named)
    assert moved.title == "best"
    assert moved.to_dict()["a"] == 1
    with pytest.raises(NotFoundError):
        Checkpoint.from_directory(tmp_path / "old")


class Named(Checkpoint):
    _SERIALIZED_ATTRS = ("title",)
    title: str


def test_a_folder_with_something_else_is_refused(foreign: Path) -> None:
    for made in (Checkpoint.from_dict(MADE), Checkpoint.from_dict({})):
        with pytest.raises(UsageError, match=r"foreign' is not empty.*overwrite=True"):
            made.to_directory(foreign)
    assert contents(foreign) == {"theirs": b"precious"}


def test_an_overwritten_folder_has_no_old_files(foreign: Path) -> None:
    """For a dict and for a folder alike."""
    source = Checkpoint.from_directory(Checkpoint.from_dict(MADE).to_directory())
    for made in (source, Checkpoint.from_dict({FILES: {"g": b"1"}})):
        made.to_directory(foreign, overwrite=True)
        assert "theirs" not in contents(foreign)
        assert Checkpoint.from_directory(foreign).same_content(made)
    assert contents(foreign) == {"g": b"1"}
    assert [file.name for file in foreign.parent.iterdir()] == ["foreign"]


def test_the_same_checkpoint_is_written_once(tmp_path: Path) -> None:
    made = Checkpoint.from_dict(MADE)
    folder = Path(made.to_directory(tmp_path / "place"))
    before = folder.stat().st_ino
    made.to_directory(folder)
    assert folder.stat().st_ino == before


def test_another_checkpoint_is_not_overwritten_by_default(tmp_path: Path) -> None:
    Checkpoint.from_dict({"a": 1}).to_directory(tmp_path / "place")
    with pytest.raises(UsageError, match="not empty"):
        Checkpoint.from_dict({"a": 2}).to_directory(tmp_path / "place")


def test_a_changed_attribute_makes_a_different_checkpoint(tmp_path: Path) -> None:
    made = Named.from_dict(MADE)
    made.title = "one"
    made.to_directory(tmp_path / "place")
    made.title = "two"
    with pytest.raises(UsageError, match="not empty"):
        made.to_directory(tmp_path / "place")


BOTH = (False, True)


def test_a_folder_written_to_itself_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "f").write_bytes(b"1")
    made = Checkpoint.from_directory(tmp_path)
    for spelling, overwrite in itertools.product(("", "/", "/.", "/sub/.."), BOTH):
        made.to_directory(f"{tmp_path}{spelling}", overwrite=overwrite)
        assert contents(tmp_path) == {"f": b"1"}


def test_overlapping_folders_are_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    source = tmp_path / "parent" / "source"
    source.mkdir(parents=True)
    (source / "f").write_bytes(b"1")
    (tmp_path / "parent" / "link").symlink_to(source.parent, target_is_directory=True)
    targets = "source/inside", ".", "link", "link/source/inside"
    for target, overwrite in itertools.product(targets, BOTH):
        with subtests.test(target, overwrite=overwrite):
            with pytest.raises(UsageError, match="overlap"):
                Checkpoint.from_directory(source).to_directory(source.parent / target, overwrite=overwrite)
            assert contents(source) == {"f": b"1"}


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    for overwrite in (False, True):
        with pytest.raises(UsageError, match="file' is a file"):
            Checkpoint.from_dict(MADE).to_directory(tmp_path / "file", overwrite=overwrite)
    with pytest.raises(StoreError, match="cannot write the checkpoint"):
        Checkpoint.from_dict(MADE).to_directory(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_bytes() == b"1"


@pytest.mark.parametrize("step", ["write", "sync", "rename"])
def test_a_failed_write_keeps_the_old_folder(
    foreign: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    open_signer()
    with monkeypatch.context() as patch:
        if step == "write":
            patch.setattr(os, "writev", _no_space)
        elif step == "sync":
            patch.setattr(os, "fsync", _no_space)
        else:
            patch.setattr(files, "exchange", _no_space)
        with pytest.raises(StoreError, match=r"cannot write the checkpoint to .*No space"):
            Checkpoint.from_dict(MADE).to_directory(foreign, overwrite=True)
    assert contents(foreign) == {"theirs": b"precious"}
    assert [file.name for file in foreign.parent.iterdir()] == ["foreign"]


def test_without_an_atomic_swap_a_failed_write_is_reverted(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def fail(self: Path, target: Path) -> Path:
        if (self / "f").exists():
            raise OSError(5, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(files, "exchange", lambda *_: False)
    made = Checkpoint.from_dict({FILES: {"f": b"1"}})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(StoreError, match="Input/output"):
            made.to_directory(foreign, overwrite=True)
    assert contents(foreign) == {"theirs": b"precious"}
    made.to_directory(foreign, overwrite=True)
    assert contents(foreign) == {"f": b"1"}
    assert [file.name for file in foreign.parent.iterdir()] == ["foreign"]


def test_every_file_is_synced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_signer()
    happened: list[str] = []

    def note(event: str, call: Any) -> Any:
        def noted(*arguments: Any) -> Any:
            happened.append(event)
            return call(*arguments)

        return noted

    monkeypatch.setattr(os, "fsync", note("file", os.fsync))
    sync_folder = note("folder", fsync.sync_folder)
    for module in (fsync, files):
        monkeypatch.setattr(module, "sync_folder", sync_folder)
    monkeypatch.setattr(Path, "replace", note("name", Path.replace))
    Checkpoint.from_dict({FILES: {"f": b"1", "sub/g": b"2"}}).to_directory(tmp_path / "place")
    named = happened.index("name")
    assert happened[:named].count("folder") == 2
    assert happened[:named].count("file") == 4
    assert happened[named + 1] == "folder"


OVERWRITE_FOR_EVER = """
import itertools, sys
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.core.files import FILES
made = [Checkpoint.from_dict({"n": n, FILES: {str(f): bytes([n]) * 1000 for f in range(20)}}) for n in (0, 1)]
for n in itertools.count():
    made[n % 2].to_directory(sys.argv[1], overwrite=True)
    if n == 1:
        print("going", flush=True)
"""


def whole(folder: Path) -> bool:
    data = Checkpoint.from_directory(folder).to_dict()
    return all(data[FILES][str(f)] == bytes([data["n"]]) * 1000 for f in range(20))


@pytest.mark.slow
@posix
@pytest.mark.parametrize("attempt", range(4))
def test_kill_9_leaves_the_old_folder_or_the_new(tmp_path: Path, attempt: int) -> None:
    command = [sys.executable, "-c", OVERWRITE_FOR_EVER, str(tmp_path / "place")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"going\n"
        threading.Event().wait(0.01 + attempt * 0.004)  # to meet it at different points
        process.send_signal(signal.SIGKILL)
    assert whole(tmp_path / "place")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux swaps names in one step")
def test_a_reader_always_finds_a_whole_folder(tmp_path: Path) -> None:
    folder = tmp_path / "place"
    made = [Checkpoint.from_dict({FILES: {"f": bytes([n])}}) for n in (0, 1)]
    made[0].to_directory(folder)
    done = threading.Event()

    def look() -> int:
        missing = 0
        while not done.is_set():
            missing += not folder.exists()
        return missing

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        for n in range(60):
            made[n % 2].to_directory(folder, overwrite=True)
        done.set()
    assert looking.result() == 0


def test_a_folder_without_its_manifest_is_corrupt(tmp_path: Path) -> None:
    folder = Path(Checkpoint.from_dict({"a": os.urandom(100_000)}).to_directory(tmp_path / "place"))
    (folder / ".nbckpt" / "checkpoint.json").unlink()
    with pytest.raises(CorruptError, match="not whole: its manifest is missing"):
        Checkpoint.from_directory(folder)


def test_a_folder_with_a_cut_manifest_is_corrupt(tmp_path: Path) -> None:
    folder = Path(Checkpoint.from_dict({"a": 1}).to_directory(tmp_path / "place"))
    manifest = folder / ".nbckpt" / "checkpoint.json"
    manifest.write_bytes(manifest.read_bytes()[:-30])
    with pytest.raises(CorruptError, match="place is damaged"):
        Checkpoint.from_directory(folder)


def test_a_damaged_field_is_corrupt(tmp_path: Path) -> None:
    folder = Path(Checkpoint.from_dict({"a": os.urandom(100_000)}).to_directory(tmp_path / "place"))
    (pack,) = folder.rglob("*.pack")
    data = bytearray(pack.read_bytes())
    data[-5] ^= 1
    pack.write_bytes(data)
    with pytest.raises(CorruptError, match="damaged"):
        Checkpoint.from_directory(folder).to_dict()


def test_a_deleted_file_is_reported_as_missing(foreign: Path) -> None:
    made = Checkpoint.from_directory(foreign)
    (foreign / "theirs").unlink()
    with pytest.raises(NotFoundError, match="theirs' is gone"):
        made.to_bytes()


# At a URI: the same promises, held by the order of the puts.


def upload(store: Any, made: Checkpoint, *, overwrite: bool = False) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nbckpt.core.checkpoint.open_store", lambda _: store)
        made.to_uri("memory://there", overwrite=overwrite)


def seen(store: Any) -> Any:
    """Return what a reader finds: the data, or that there is nothing whole."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nbckpt.core.sources.open_store", lambda _: store)
            made = Checkpoint.from_uri("memory://there")
        return {str(key): value if key is not FILES else dict(value) for key, value in made.to_dict().items()}
    except (NotFoundError, CorruptError) as error:
        return type(error)


OLD = {"a": 0, FILES: {"f": b"old", "old": b"old"}}
LARGE = bytes(100_000)


@pytest.mark.parametrize("old", [None, OLD], ids=["new", "overwritten"])
def test_a_crash_during_an_upload_never_shows_a_half(old: dict[Any, Any] | None) -> None:
    inner = MemoryStore()
    if old:
        upload(inner, Checkpoint.from_dict(old))
    store = RecordingStore(inner)
    made = {"a": 1, "large": LARGE, FILES: {"f": b"new", "sub/g": b"new"}}
    upload(store, Checkpoint.from_dict(made), overwrite=True)
    after = {"a": 1, "large": LARGE, "<files>": made[FILES]}
    before = {"a": 0, "<files>": OLD[FILES]} if old else NotFoundError
    states = [seen(crashed) for crashed in store.crashes()]
    assert states[0] == before
    assert states[-1] == after
    assert all(state in (before, after, CorruptError) for state in states)


@pytest.mark.parametrize("halfway", [False, True])
def test_an_upload_can_be_tried_again_after_any_failure(halfway: bool) -> None:
    made = Checkpoint.from_dict({"a": 1, "large": LARGE, FILES: {"f": b"new"}})
    for n in range(1, 100):
        store = FaultyStore(MemoryStore(), fail_at=n, halfway=halfway)
        try:
            upload(store, made)
        except StoreError:
            upload(store, made, overwrite=seen(store.store) not in (NotFoundError, CorruptError))
        assert seen(store.store) == {"a": 1, "large": LARGE, "<files>": {"f": b"new"}}
        if not store.failed:
            break
    assert n > 5


def test_an_unfinished_upload_is_corrupt() -> None:
    uri = f"memory://{uuid.uuid4().hex}"
    open_store(uri).put(".nbckpt/unfinished", b"")
    with pytest.raises(CorruptError, match="its upload did not finish"):
        Checkpoint.from_uri(uri)


def test_an_upload_without_one_of_its_files_is_corrupt() -> None:
    uri = Checkpoint.from_dict({FILES: {"f": b"1"}}).to_uri(f"memory://{uuid.uuid4().hex}")
    open_store(uri).delete("f")
    with pytest.raises(CorruptError, match="'f' is missing"):
        Checkpoint.from_uri(uri)


def test_a_damaged_file_at_a_uri_is_corrupt() -> None:
    uri = Checkpoint.from_dict({FILES: {"f": b"1"}}).to_uri(f"memory://{uuid.uuid4().hex}")
    open_store(uri).put("f", b"2")
    with pytest.raises(CorruptError, match="'f' of a checkpoint is damaged"):
        Checkpoint.from_uri(uri).to_dict()[FILES]["f"]


def test_a_checkpoint_at_a_uri_is_not_overwritten_by_default() -> None:
    uri = f"memory://{uuid.uuid4().hex}"
    open_store(uri).put("theirs", b"1")
    with pytest.raises(UsageError, match=r"something at .* already.*overwrite=True"):
        Checkpoint.from_dict(MADE).to_uri(uri)
    Checkpoint.from_dict({"a": 1}).to_uri(uri, overwrite=True)
    assert Checkpoint.from_uri(uri).to_dict() == {"a": 1}


def test_a_network_error_is_not_a_missing_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = Checkpoint.from_dict({"a": 1}).to_uri(f"memory://{uuid.uuid4().hex}")

    def down(*_: object) -> bytes:
        raise StoreError("the net is down")

    monkeypatch.setattr(RemoteStore, "get", down)
    with pytest.raises(StoreError, match="the net is down"):
        Checkpoint.from_uri(uri)
