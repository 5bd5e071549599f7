from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import call, patch

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from nbckpt.errors import NotFoundError, StoreError, UsageError
from nbckpt.store import STAGING, LocalStore, RemoteStore, Store, local_folder, open_store
from nbckpt.testing import StoreTests


class TestMemoryUrl(StoreTests):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        url = f"memory://{uuid.uuid4().hex}/some folder"
        yield open_store(url)
        with fsspec.open(f"{url}/x", "wb"):
            pass
        fsspec.filesystem("memory").rm(url, recursive=True)

    def get_behind(self, store: Store, key: str) -> bytes:
        return bytes(fsspec.filesystem("memory").cat_file(f"{store.url}/{key}"))

    def put_behind(self, store: Store, key: str, data: bytes) -> None:
        fsspec.filesystem("memory").pipe_file(f"{store.url}/{key}", data)


class TestMemoryUrlWithoutFolder(TestMemoryUrl):
    """All keys are at the top of the file system."""

    @pytest.fixture
    def store(self, monkeypatch: pytest.MonkeyPatch) -> Store:
        monkeypatch.setattr(MemoryFileSystem, "store", {})
        monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
        return open_store("memory://")


class TestUrlWithoutWholePuts(StoreTests):
    """`local://` has no atomic put of its own: everything is written aside and renamed."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return RemoteStore(f"local://{tmp_path}/some folder")

    def get_behind(self, store: Store, key: str) -> bytes:
        return Path(store.url.removeprefix("local://"), key).read_bytes()

    def put_behind(self, store: Store, key: str, data: bytes) -> None:
        file = Path(store.url.removeprefix("local://"), key)
        file.parent.mkdir(parents=True)
        file.write_bytes(data)


def test_a_failed_put_leaves_nothing(tmp_path: Path) -> None:
    store = RemoteStore(f"local://{tmp_path}")
    with (
        patch.object(LocalFileSystem, "mv", side_effect=OSError("cut")),
        pytest.raises(StoreError, match=r"cannot write 'a/b' in local://.*cut"),
    ):
        store.put("a/b", b"x")
    assert list(store.keys()) == []
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_any_error_of_a_backend_names_the_key_and_the_cause(tmp_path: Path) -> None:
    store = RemoteStore(f"local://{tmp_path}")
    store.put("a", b"x")
    with (
        patch.object(LocalFileSystem, "cat_file", side_effect=RuntimeError("the net is down")),
        pytest.raises(StoreError, match=r"cannot read 'a' in local://.*RuntimeError: the net is down"),
    ):
        store.get("a")


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(UsageError, match="treasure://island"):
        open_store("treasure://island")


def test_a_missing_package_is_named() -> None:
    with (
        patch.dict(sys.modules, {"gcsfs": None}),
        pytest.raises(UsageError, match=r"pip install 'nbckpt\[gcs\]'"),
    ):
        RemoteStore("gs://bucket/x")


def test_two_stores_with_one_url_share_their_keys() -> None:
    url = f"memory://{uuid.uuid4().hex}"
    open_store(url).put("a", b"x")
    assert open_store(f"{url}/").get("a") == b"x"


def test_nothing_is_created_before_the_first_put(tmp_path: Path) -> None:
    store = RemoteStore(f"local://{tmp_path}/store")
    assert list(store.keys()) == []
    with pytest.raises(NotFoundError):
        store.get("a")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_a_local_store(subtests: pytest.Subtests) -> None:
    rows = [
        ("/a/b", "/a/b"),
        ("a/b", "a/b"),
        (Path("/a/b"), "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file:///a%20b/%C3%BC", "/a b/ü"),
        ("file:///a b/ü", "/a b/ü"),
        ("file:///a#b?c", "/a#b?c"),
    ]
    for where, folder in rows:
        with subtests.test(where):
            store = open_store(where)
            assert isinstance(store, LocalStore)
            assert store.folder == Path(folder).absolute()


def test_local_folder_reverses_the_uri_of_a_path(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in ("a b", "ü", "100%", "a#b", "a?b", "a;b"):
        with subtests.test(name):
            assert local_folder((tmp_path / name).as_uri()) == tmp_path / name
    assert local_folder("s3://bucket/a") is None


def test_fsspec_is_only_imported_for_a_url() -> None:
    use = "import sys, nbckpt.store as s; s.open_store('x').exists('a')"
    code = f"{use}; sys.exit('fsspec' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("url", ["memory://", "memory:///"])
def test_a_url_without_a_folder_keeps_its_slashes(url: str) -> None:
    assert open_store(url).url == url


def test_the_top_of_the_file_system_can_be_a_store(tmp_path: Path) -> None:
    store = RemoteStore("local:///")
    (tmp_path / "b").touch()
    key = str(tmp_path / "b").removeprefix("/")
    assert store.exists(key)
    assert list(store.keys(key[:-1])) == [key]
    with patch.object(LocalFileSystem, "find", return_value={"/a": {"size": 1}}) as find:
        assert list(store.keys()) == ["a"]
    assert find.call_args.args == ("/",)  # the path "" is the working folder
    with patch.object(LocalFileSystem, "mkdir") as mkdir, patch.object(LocalFileSystem, "open") as opened:
        opened.side_effect = OSError("only its folder matters")
        with pytest.raises(StoreError, match="only its folder matters"):
            store.put("none/a", b"x")
    assert call("/none", create_parents=False) in mkdir.call_args_list
    assert len(mkdir.call_args_list) == 2  # and that of staged files


def test_staged_files_are_not_keys(tmp_path: Path) -> None:
    store = RemoteStore(f"local://{tmp_path}")
    store.put("a.nbckpt-tmp", b"x")
    (tmp_path / STAGING / "left").write_bytes(b"half")
    assert list(store.keys()) == ["a.nbckpt-tmp"]
    with pytest.raises(UsageError, match="where puts are staged"):
        store.get(f"{STAGING}/left")
