"""Exclude: the same files are left out on every route."""

from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
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
    ],
)
def test_a_pattern_means_the_same_up_down_and_when_mirroring(
    tmp_path: Path, patterns: list[str] | None, left: list[str]
) -> None:
    def files(folder: Path) -> list[str]:
        return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())

    for name in ("folder", "other"):
        for path in PATHS:
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(name)
    part, whole = MemoryStore(), MemoryStore()
    upload(tmp_path / "folder", part, exclude=patterns)
    assert [key for key in list(part.keys()) if not key.startswith(".nbckpt-sync/")] == left
    upload(tmp_path / "folder", whole)
    download(whole, tmp_path / "down", exclude=patterns)
    assert files(tmp_path / "down") == left
    # What is excluded is neither replaced nor removed, on either side.
    (tmp_path / "empty").mkdir()
    upload(tmp_path / "empty", whole, exclude=patterns, delete_missing=True)
    rest = sorted(set(PATHS) - set(left))
    assert [key for key in list(whole.keys()) if not key.startswith(".nbckpt-sync/")] == rest
    download(whole, tmp_path / "other", exclude=patterns, delete_missing=True)
    assert files(tmp_path / "other") == rest
    assert {(tmp_path / "other" / path).read_text() for path in rest} <= {"other"}


SEED = [
    "./checkpoint_-00001",
    "./checkpoint_tmp*",
    "./save_to_object*",
    "./rank_*",
    "./.lazy_checkpoint_marker",
]


@pytest.mark.parametrize(
    "path",
    [
        "checkpoint_tmpabc/f",
        "checkpoint_-00001/x",
        "save_to_objectq/y",
        "rank_0/z/0",
        ".lazy_checkpoint_marker",
    ],
)
def test_patterns_exclude_whole_folders(path: str) -> None:
    is_excluded = excluding(SEED)
    assert is_excluded(path)
    assert not is_excluded("checkpoint_000001/rank_0/f")


@pytest.mark.parametrize(
    "path", [".nbckpt-sync/index.json", ".nbckpt-tmp-12/x", "a/.nbckpt-tmp.lock", ".nbckpt-tmp"]
)
def test_staged_files_of_nbckpt_are_always_excluded(path: str) -> None:
    assert excluding(None)(path)
    assert not excluding(None)("a/b")


def test_a_single_string_is_refused_as_patterns() -> None:
    with pytest.raises(UsageError, match=r"exclude='\*.tmp' is one pattern: write exclude=\['\*.tmp'\]"):
        excluding("*.tmp")


def test_parents_returns_the_folders_above_a_path() -> None:
    assert [list(parents(path)) for path in ("a", "a/b", "a/b/c")] == [[], ["a"], ["a/b", "a"]]
