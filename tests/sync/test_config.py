"""SyncConfig: six settings, checked and shown whole; and the files that exclude leaves out on every route."""

from __future__ import annotations

import math
import pickle
import re
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import fsspec
import pytest
from sync.trees import plain, read, write

import nbckpt
from nbckpt.errors import UsageError
from nbckpt.store import MemoryStore
from nbckpt.sync import DefaultSyncer, SyncConfig, Syncer, get_node_to_storage_syncer
from nbckpt.sync.config import url_of
from nbckpt.sync.download import download
from nbckpt.sync.exclude import excluding, parents
from nbckpt.sync.request import Request
from nbckpt.sync.upload import upload

HOSTILE = "s3://<img src=x onerror=alert(1)>"


class Anything(DefaultSyncer):
    """Accepts any place."""

    @classmethod
    def validate_upload_dir(cls, upload_dir: str) -> bool:
        return True


class OldStyle(DefaultSyncer):
    """Tells by what it raises, and returns nothing."""

    @classmethod
    def validate_upload_dir(cls, upload_dir: str) -> Any:
        if upload_dir != "mine":
            raise ValueError("not mine")


def test_the_six_settings_have_their_defaults() -> None:
    config = SyncConfig()
    assert {field.name: getattr(config, field.name) for field in fields(config)} == {
        "upload_dir": None,
        "syncer": "auto",
        "sync_period": 300,
        "sync_timeout": 1800,
        "sync_artifacts": True,
        "sync_on_checkpoint": True,
    }
    assert nbckpt.SyncConfig is SyncConfig
    assert nbckpt.sync.Syncer is Syncer


def test_a_reachable_upload_dir_is_valid(subtests: pytest.Subtests) -> None:
    for url in (None, "", "file:///some/where", "s3://bucket/folder", "memory://x"):
        with subtests.test(url):
            assert SyncConfig(url).validate_upload_dir() is True


def test_an_unknown_protocol_and_a_plain_path_are_refused() -> None:
    for url in ("invalid://some/url", "/some/folder", "some/folder"):
        config = SyncConfig(url)
        with pytest.raises(ValueError, match=re.escape(url)):
            config.validate_upload_dir()
    with pytest.raises(UsageError, match="file:///some/folder%20here"):
        SyncConfig("/some/folder here").validate_upload_dir()


def test_no_url_becomes_a_path_of_a_local_folder() -> None:
    for url in ("memory://", "file:///"):
        assert url_of(SyncConfig(url), "net").startswith(url)
        assert Request.of("delete", "", url).remote == url


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Mock(side_effect=ImportError("Install s3fs to use s3"))
    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(UsageError, match=re.escape("pip install 'nbckpt[s3]'")):
        SyncConfig("s3://bucket").validate_upload_dir()


def test_a_custom_syncer_validates_the_upload_dir() -> None:
    assert SyncConfig("/any/where", Anything()).validate_upload_dir() is True
    assert SyncConfig("mine", OldStyle()).validate_upload_dir() is True
    with pytest.raises(ValueError, match="not mine"):
        SyncConfig("yours", OldStyle()).validate_upload_dir()


def test_an_upload_dir_and_a_syncer_need_each_other() -> None:
    with pytest.raises(ValueError, match="needs a syncer"):
        SyncConfig("s3://bucket", syncer=None)
    with pytest.raises(ValueError, match="needs an upload_dir"):
        SyncConfig(syncer=DefaultSyncer())


def test_a_period_and_a_timeout_are_seconds(subtests: pytest.Subtests) -> None:
    wrong = {
        "sync_period": [-1, math.nan, True, "300", None],
        "sync_timeout": [-1, 0, math.nan, math.inf, True, "300"],
    }
    for name, kind in product(wrong, (SyncConfig, DefaultSyncer)):
        for number in wrong[name]:
            with subtests.test(f"{name}={number!r}"), pytest.raises(ValueError, match=f"{name}="):
                kind(**{name: number})


def test_a_period_may_be_zero_and_a_timeout_none() -> None:
    config = SyncConfig(sync_period=0, sync_timeout=None)
    assert "no limit" in str(config)


def test_every_setting_is_shown_in_both_forms() -> None:
    config = SyncConfig("s3://bucket", sync_period=77, sync_timeout=7, sync_artifacts=False)
    bundle = config._repr_mimebundle_()
    for form in bundle.values():
        for field in fields(config):
            assert field.name in form
        assert all(text in form for text in ("s3://bucket", "auto", "77 s (1 min)", "7 s", "no", "yes"))
    assert repr(config) == str(config) == bundle["text/plain"]


def test_the_html_is_escaped_scrolls_and_has_a_caption() -> None:
    shown = SyncConfig(HOSTILE)._repr_mimebundle_()["text/html"]
    assert "<img" not in shown
    assert "&lt;img src=x onerror=alert(1)&gt;" in shown
    assert all(text in shown for text in ("overflow-x:auto", "<caption", 'scope="col"', 'scope="row"'))


def test_a_config_makes_its_syncer_or_has_the_given_one() -> None:
    syncer = get_node_to_storage_syncer(SyncConfig("s3://bucket", sync_period=7, sync_timeout=9))
    assert isinstance(syncer, DefaultSyncer)
    assert (syncer.sync_period, syncer.sync_timeout) == (7, 9)
    own = Anything()
    assert get_node_to_storage_syncer(SyncConfig("s3://bucket", own)) is own
    assert get_node_to_storage_syncer(SyncConfig()) is None
    assert get_node_to_storage_syncer(SyncConfig(syncer=None)) is None


@pytest.mark.parametrize("syncer", ["rsync {source} {target}", print, DefaultSyncer])
def test_a_value_that_is_not_a_syncer_is_refused(syncer: Any) -> None:
    with pytest.raises(ValueError, match="is not a syncer"):
        get_node_to_storage_syncer(SyncConfig("s3://bucket", syncer))


def test_a_config_can_be_pickled() -> None:
    config = SyncConfig("s3://bucket", sync_period=5)
    assert pickle.loads(pickle.dumps(config)) == config


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
