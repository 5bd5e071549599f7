"""Exclude: the same files are left out on every route."""

from __future__ import annotations

from pathlib import Path

import pytest
from sync.trees import plain, read, write

from nbckpt.errors import UsageError
from nbckpt.store import MemoryStore
from nbckpt.sync.download import download
from nbckpt.sync.exclude import excluding, parents
from nbckpt.sync.upload import upload

PATHS = [
    "a_exclude",
    "a_exclude.txt",
    "b",
    "b_exclude/c",
    "b_exclude/d/e",
    "f/g_exclude.txt",
    "f/h_exclude/i",
    "f/j",
]


ROWS: list[tuple[list[str] | None, list[str]]] = [
    ([], PATHS),
    (None, PATHS),
    (["*_exclude*"], ["b", "f/j"]),
    (["*_exclude.txt"], [path for path in PATHS if not path.endswith(".txt")]),
    (["*_exclude/*"], ["a_exclude", "a_exclude.txt", "b", "f/g_exclude.txt", "f/j"]),
    (["*_exclude.txt", "*_exclude/*"], ["a_exclude", "b", "f/j"]),
    (["f"], PATHS[:5]),
    (["f/"], PATHS[:5]),
    (["./b_exclude"], [path for path in PATHS if not path.startswith("b_exclude")]),
    (["./b*"], [path for path in PATHS if not path.startswith("b")]),
    (["B"], PATHS),
    (["?"], PATHS[:2] + PATHS[3:5]),
    (["[bf]/j"], PATHS[:-1]),
    (["d"], PATHS),
]


def test_a_pattern_means_the_same_up_down_and_when_mirroring(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    folder = write(tmp_path / "folder", dict.fromkeys(PATHS, b"folder"))
    empty = write(tmp_path / "empty", {})
    for number, (patterns, left) in enumerate(ROWS):
        with subtests.test(str(patterns)):
            other = write(tmp_path / f"other {number}", dict.fromkeys(PATHS, b"other"))
            part, whole = MemoryStore(), MemoryStore()
            upload(folder, part, exclude=patterns)
            assert list(plain(part)) == left
            upload(folder, whole)
            download(whole, tmp_path / f"down {number}", exclude=patterns)
            assert sorted(read(tmp_path / f"down {number}")) == left
            # What is excluded is neither replaced nor removed, on either side.
            upload(empty, whole, exclude=patterns, delete_missing=True)
            rest = sorted(set(PATHS) - set(left))
            assert list(plain(whole)) == rest
            download(whole, other, exclude=patterns, delete_missing=True)
            assert read(other) == dict.fromkeys(rest, b"other")


def test_patterns_exclude_whole_folders() -> None:
    folders = ["./checkpoint_-00001", "./checkpoint_tmp*", "./save_to_object*", "./rank_*"]
    is_excluded = excluding([*folders, "./.lazy_checkpoint_marker"])
    out = ["checkpoint_tmpabc/f", "checkpoint_-00001/x", "save_to_objectq/deep/y", "rank_0/z/0"]
    for path in (*out, ".lazy_checkpoint_marker"):
        assert is_excluded(path), path
    assert not is_excluded("checkpoint_000001/rank_0/f")


def test_staged_files_of_nbckpt_are_always_excluded() -> None:
    for path in (".nbckpt-sync/index.json", ".nbckpt-tmp-12/x", "a/.nbckpt-tmp.lock", ".nbckpt-tmp"):
        assert excluding(None)(path), path
    assert not excluding(None)("a/b")


def test_a_single_string_is_refused_as_patterns() -> None:
    with pytest.raises(UsageError, match=r"exclude='\*.tmp' is one pattern: write exclude=\['\*.tmp'\]"):
        excluding("*.tmp")


def test_parents_returns_the_folders_above_a_path() -> None:
    assert [list(parents(path)) for path in ("a", "a/b", "a/b/c")] == [[], ["a"], ["a/b", "a"]]
