"""A crash of an upload leaves what the target showed before, or all that it shows after."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sync.trees import Files, plain, read, seen, write

from nbckpt.store import LocalStore, MemoryStore
from nbckpt.sync.exclude import OWN
from nbckpt.sync.index import KEY
from nbckpt.sync.target import delete
from nbckpt.sync.upload import upload
from nbckpt.testing import RecordingStore


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
