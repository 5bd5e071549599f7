from __future__ import annotations

import ast
import errno
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import nbckpt
from nbckpt.store import STAGING, files, fsync, scan
from nbckpt.store.files import (
    commit,
    create_file,
    discard,
    hidden,
    remove,
    rename,
    staged_folder,
    sweep,
    write_file,
    write_files,
    writing,
)
from nbckpt.store.locks import Timeout, file_lock

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX")


def left(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.startswith(STAGING)]


def tree_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def replace_folder(folder: Path, data: bytes) -> None:
    with staged_folder(folder.parent) as stage:
        (stage / "sub").mkdir()
        for name in ("a", "sub/b"):
            (stage / name).write_bytes(data)
        commit(stage, folder)


WRITERS: dict[str, Callable[[Path, bytes], None]] = {
    "write_file": lambda top, data: write_file(top / "x" / "a", data),
    "write_files": lambda top, data: write_files({top / "x" / name: data for name in "abc"}),
    "commit": lambda top, data: replace_folder(top / "x", data),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_written_file_replaces_the_old_one(tmp_path: Path, write: Any) -> None:
    for data in (b"old", b"new"):
        write(tmp_path, data)
        assert set(tree_of(tmp_path).values()) == {data}
    assert left(tmp_path) == []


def failing(real: Callable[..., Any], at: int) -> Callable[..., Any]:
    """Return a function whose call of the number *at* fails."""
    calls = itertools.count(1)

    def call(*arguments: Any, **options: Any) -> Any:
        if next(calls) == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **options)

    return call


@posix
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_fault_at_any_call_leaves_every_file_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any, subtests: pytest.Subtests
) -> None:
    for call in ("open", "mkdir", "writev", "fsync", "replace", "rename"):
        with subtests.test(call):
            top = tmp_path / call
            write(top, b"old")
            names = tree_of(top).keys()
            for fault in itertools.count(1):
                with monkeypatch.context() as patch, suppress(OSError):
                    patch.setattr(os, call, failing(getattr(os, call), fault))
                    write(top, b"new")
                    break
                assert tree_of(top).keys() == names
                assert set(tree_of(top).values()) <= {b"old", b"new"}
                assert left(top) == []
            assert set(tree_of(top).values()) == {b"new"}


def test_a_folder_that_cannot_be_swapped_survives_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "exchange", lambda *_: False)
    replace_folder(tmp_path / "x", b"old")
    real = Path.replace

    def failing(source: Path, target: Path) -> Path:
        if target == tmp_path / "x" and (source / "a").read_bytes() == b"new":
            raise OSError(errno.EIO, "Input/output error")
        return real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing)
        with pytest.raises(OSError, match="Input/output"):
            replace_folder(tmp_path / "x", b"new")
    assert tree_of(tmp_path) == {"x/a": b"old", "x/sub/b": b"old"}
    replace_folder(tmp_path / "x", b"new")
    assert tree_of(tmp_path) == {"x/a": b"new", "x/sub/b": b"new"}


WRITE_FOR_EVER = """
import itertools, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_files import WRITERS
for n in itertools.count():
    WRITERS[sys.argv[1]](Path(sys.argv[2]), bytes([n % 256]) * 300_000)
    if n == 1:
        print("going", flush=True)
"""


@pytest.mark.slow
@posix
@pytest.mark.parametrize("attempt", range(3))
@pytest.mark.parametrize("writer", WRITERS)
def test_kill_9_leaves_every_file_whole(tmp_path: Path, writer: str, attempt: int) -> None:
    arguments = [writer, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, *arguments], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"going\n"
        threading.Event().wait(0.005 + attempt * 0.004)  # to meet it at different points
        process.send_signal(signal.SIGKILL)
    sweep(tmp_path, older_s=0)
    sweep(tmp_path / "x", older_s=0)
    assert left(tmp_path) == []
    written = tree_of(tmp_path)
    assert written
    assert all(data == data[:1] * 300_000 for data in written.values())


def test_every_file_is_synced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[tuple[str, str]] = []

    def shown(path: Path) -> str:
        name = path.relative_to(tmp_path).as_posix()
        return "/".join("*" if part.startswith(STAGING) else part for part in name.split("/"))

    def noted(kind: str, call: Any) -> Any:
        def note(path: Path, *others: Any) -> Any:
            happened.append((kind, shown(path)))
            return call(path, *others)

        return note

    monkeypatch.setattr(fsync, "sync_file", noted("file", fsync.sync_file))
    sync_folder = noted("folder", fsync.sync_folder)
    for module in (fsync, files):
        monkeypatch.setattr(module, "sync_folder", sync_folder)
    monkeypatch.setattr(Path, "replace", noted("name", Path.replace))
    write_files({tmp_path / f"t{n}" / "p": b"{}" for n in range(3)})
    assert sorted(happened[:3]) == [("file", f"t{n}/*") for n in range(3)]  # side by side, in any order
    assert happened[3:6] == [("name", f"t{n}/*") for n in range(3)]
    assert sorted(happened[6:]) == [("folder", "."), *(("folder", f"t{n}") for n in range(3))]
    happened.clear()
    with staged_folder(tmp_path) as stage:
        (stage / "sub").mkdir()
        (stage / "sub" / "f").write_bytes(b"")
        commit(stage, tmp_path / "new")
    assert happened[0] == ("file", "*/sub/f")
    assert sorted(happened[1:3]) == [("folder", "*"), ("folder", "*/sub")]
    assert happened[3:] == [("name", "*"), ("folder", ".")]


def test_many_files_are_written_without_threads_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("no new thread")))
    write_files({tmp_path / f"t{n}" / "p": b"{}" for n in range(3)})
    assert len(tree_of(tmp_path)) == 3


def test_a_file_of_an_unfinished_block_does_not_exist(tmp_path: Path) -> None:
    def half() -> None:
        with writing(tmp_path / "file") as opened:
            opened.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert list(tmp_path.iterdir()) == []


def test_of_two_that_create_a_file_the_first_wins(tmp_path: Path) -> None:
    create_file(tmp_path / "a" / "secret", b"first")
    create_file(tmp_path / "a" / "secret", b"second")
    assert tree_of(tmp_path) == {"a/secret": b"first"}
    if os.name != "nt":
        assert (tmp_path / "a" / "secret").stat().st_mode & 0o777 == 0o600


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match="is a file where a folder should be"):
        write_file(tmp_path / "a" / "b", b"")


def test_a_sweep_removes_only_old_staged_names(tmp_path: Path) -> None:
    old, new = hidden(tmp_path), hidden(tmp_path)
    old.mkdir()
    (old / "f").write_bytes(b"half")
    new.write_bytes(b"another writer's")
    theirs = [tmp_path / name for name in ("notes", f"{STAGING}-notes", f"{STAGING}-former-x", "0" * 32)]
    for path in (*theirs, old):
        path.mkdir(exist_ok=True)
        os.utime(path, (time.time() - 2 * 24 * 3600,) * 2)
    sweep(tmp_path)
    assert set(tmp_path.iterdir()) == {new, *theirs}
    sweep(tmp_path / "missing")


@posix
def test_a_sweep_and_a_removal_never_go_through_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    write_files({hidden(precious): b"1", precious / "file": b"2"})
    (tmp_path / "linked").symlink_to(precious)
    sweep(tmp_path / "linked", older_s=0)
    folder = tmp_path / "folder"
    folder.mkdir()
    hidden(folder).symlink_to(precious)
    sweep(folder, older_s=0)
    (folder / "link").symlink_to(precious)
    discard(folder / "link")
    (folder / "link").symlink_to(precious)
    remove(folder / "link")
    assert not os.path.lexists(folder / "link")
    (folder / "link").symlink_to(precious)
    remove(folder)
    assert len(tree_of(precious)) == 2


def entries(folder: Path) -> tuple[list[str], dict[str, str]]:
    refused: dict[str, str] = {}
    return [path for path, _ in scan.scan(folder, refused.__setitem__)], refused


def test_a_scan_returns_files_before_folders(tmp_path: Path) -> None:
    for name in ("b/x/1", "b/y", "c", "a/1"):
        write_file(tmp_path / name, b"")
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    assert entries(tmp_path) == (["c", "a/1", "b/y", "b/x/1", "empty/inner/"], {})
    assert [path for path, _ in scan.scan(tmp_path, print, prefix="b/", skip="b/x".__eq__)] == ["b/y"]
    assert [path for path, _ in scan.scan(tmp_path, print, prefix="b/x")] == ["b/x/1"]
    assert entries(tmp_path / "missing") == ([], {})
    with pytest.raises(NotADirectoryError):
        entries(tmp_path / "c")


@posix
def test_a_scan_never_leaves_the_folder_through_a_link(tmp_path: Path) -> None:
    write_file(tmp_path / "outside" / "secret", b"")
    folder = tmp_path / "real"
    write_file(folder / "in" / "file", b"")
    (tmp_path / "chosen").symlink_to(folder)
    for name, target in {
        "file": "../outside/secret",
        "folder": "../outside",
        "nowhere": "missing",
        "in/up": "..",
        "alias": "in/file",
        "other": "in",
    }.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    paths, refused = entries(tmp_path / "chosen")
    assert paths == ["alias", "in/file", "other/file"]
    back = "it is a link that leads back to a folder that it is in"
    assert refused == {
        "file": scan.OUTSIDE,
        "folder": scan.OUTSIDE,
        "nowhere": "it is a link that leads nowhere",
        "in/up": back,
        "other/up": back,
        "pipe": "it is neither a file nor a folder",
    }
    assert scan.checksums(tmp_path / "chosen", lambda file: file.name).keys() == set(paths)


@posix
def test_links_that_fan_out_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MOST_LINKS", 100)
    for n in range(20):
        (tmp_path / f"d{n}").mkdir()
        for name in "xy":
            (tmp_path / f"d{n}" / name).symlink_to(f"../d{n + 1}")
    (tmp_path / "d20").mkdir()
    _, refused = entries(tmp_path)
    assert "there are too many links beside it" in refused.values()


@posix
def test_the_part_of_a_path_that_leads_outside_is_named(tmp_path: Path) -> None:
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "chosen").symlink_to("real")
    (tmp_path / "real" / "a" / "out").symlink_to(tmp_path)
    (tmp_path / "real" / "in").symlink_to("a")
    (tmp_path / "real" / "dangling").symlink_to(tmp_path / "missing")
    outside = {
        "a/file": "",
        "a/out/x": "a/out",
        "in/file": "",
        "in/out/x": "in/out",
        "dangling": "dangling",
        "missing/x": "",
    }
    assert {path: scan.link_outside(tmp_path / "chosen", path) for path in outside} == outside


def test_names_that_windows_refuses_are_recognized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "WINDOWS", True)
    fit, unfit = ["a/b", "console", "com10"], ["a:b", "a\\b", "con", "a/NUL.txt", "a./b", "a /b", "a\x01"]
    assert [path for path in fit + unfit if scan.can_be_named(path)] == fit


def test_names_that_are_not_unicode_are_invalid_everywhere() -> None:
    assert not scan.can_be_named("\ud800")
    assert not scan.can_be_named("a\0b")
    assert hidden(Path("x")).name.isascii()


@pytest.mark.parametrize(("failures", "content"), [(0, b"new"), (3, b"new"), (4, b"old")])
def test_a_file_that_a_reader_has_open_is_replaced_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, content: bytes
) -> None:
    """As on Windows, where a file cannot be replaced while it is open."""
    stage, file = tmp_path / "stage", tmp_path / "file"
    stage.write_bytes(b"new")
    file.write_bytes(b"old")
    left = iter([PermissionError(errno.EACCES, "Access is denied")] * failures)
    replace = Path.replace

    def fails(source: Path, target: Path) -> Path:
        if error := next(left, None):
            raise error
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(PermissionError) if content == b"old" else nullcontext():
        rename(stage, file, delays=(0, 0, 0))
    assert (file.read_bytes(), stage.exists()) == (content, content == b"old")


@pytest.mark.parametrize("ends_with_process", [True, False])
def test_one_process_at_a_time_holds_a_lock(
    ends_with_process: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock may also lie in memory, as in a browser."""
    monkeypatch.setattr("nbckpt.store.locks.ENDS_WITH_PROCESS", ends_with_process)
    one, other, apart = (file_lock(tmp_path / name, timeout=0, thread_local=False) for name in "aab")
    with one, apart, pytest.raises(Timeout):
        other.acquire()
    with other:
        assert other.is_locked
    assert (tmp_path / "a").exists() == ends_with_process


@pytest.mark.slow
def test_only_one_place_replaces_files() -> None:
    """So a replacement anywhere is tried again. See docs/decisions/0068."""
    calls = {
        (path.name, call.func.attr)
        for path in Path(nbckpt.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if (call.func.attr == "replace" and len(call.args) == 1)
        or (getattr(call.func.value, "id", "") == "os" and call.func.attr in {"replace", "rename"})
    }
    assert calls == {("files.py", "replace")}
