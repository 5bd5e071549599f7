"""Stores at URLs: what they promise, what they refuse with a next step, and secrets they never show."""

from __future__ import annotations

import shutil
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

from nbckpt import SyncConfig
from nbckpt.errors import NbckptError, NotFoundError, RefusedError, StoreError, UsageError
from nbckpt.store import (
    STAGING,
    LocalStore,
    RemoteStore,
    Store,
    check_no_secret,
    check_protocol,
    local_folder,
    masked,
    masked_url,
    open_store,
)
from nbckpt.testing import StoreTests
from servers.azure import connection
from servers.proxy import Fault, Proxy


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
        with subtests.test(str(where)):
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


NO_SUCH_PLACE = r"^cannot write 'a' in \w+://nowhere0/x: it does not exist \(.*\)\. Make the bucket, or"
DENIED = r": access is denied \(.*\)\. Check the credentials and what they allow$"
AWAY = r": it cannot be reached \(.*\)\. Check its address and the network$"


def each_call(store: Store) -> None:
    others = (lambda key: store.put(key, b"x"), lambda _: list(store.keys()))
    for request in (store.get, store.exists, store.delete, *others):
        with pytest.raises(RefusedError, match=DENIED):
            request("a")


def test_a_missing_bucket_is_a_clear_error(s3_bucket: str) -> None:
    store = open_store("s3://nowhere0/x")
    with pytest.raises(RefusedError, match=NO_SUCH_PLACE):
        store.put("a", b"x")
    with pytest.raises(RefusedError, match="cannot list '/'"):
        list(store.keys())


def test_missing_s3_credentials_are_a_clear_error(
    s3_bucket: str, s3_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    each_call(RemoteStore(s3_bucket, endpoint_url=s3_server, skip_instance_cache=True))


@pytest.mark.slow
def test_a_denied_request_is_an_error_with_advice(s3_bucket: str, s3_proxy: Proxy) -> None:
    s3_proxy.fail(Fault(403))
    each_call(RemoteStore(s3_bucket, endpoint_url=s3_proxy.url))


def test_an_unreachable_server_is_not_a_refusal(s3_bucket: str) -> None:
    once = {"retries": {"max_attempts": 0}}
    store = RemoteStore(s3_bucket, endpoint_url="http://127.0.0.1:9", config_kwargs=once)
    with pytest.raises(StoreError, match=AWAY) as caught:
        store.put("a", b"x")
    assert not isinstance(caught.value, RefusedError)


def test_a_missing_container_is_a_clear_error(azure_container: str) -> None:
    with pytest.raises(RefusedError, match=NO_SUCH_PLACE):
        open_store("az://nowhere0/x").put("a", b"x")


def test_a_wrong_azure_key_is_a_clear_error(azure_container: str, azure_server: str) -> None:
    each_call(RemoteStore(azure_container, connection_string=connection(azure_server, "A" * 86 + "==")))


def test_a_missing_sftp_key_is_a_clear_error(
    sftp_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    shutil.copy(Path.home() / ".ssh" / "known_hosts", tmp_path / ".ssh")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(RefusedError, match=r"cannot reach 'sftp://.*" + DENIED):
        open_store(sftp_folder)


def test_an_unreachable_sftp_server_is_a_clear_error(sftp_folder: str) -> None:
    with pytest.raises(StoreError, match=r"cannot reach 'sftp://.*" + AWAY):
        open_store("sftp://user@127.0.0.1:9/x")


class ObjectStoreTests(StoreTests):
    protocol: str

    def get_behind(self, store: Store, key: str) -> bytes:
        return bytes(fsspec.filesystem(self.protocol).cat_file(f"{store.url}/{key}"))

    def put_behind(self, store: Store, key: str, data: bytes) -> None:
        fsspec.filesystem(self.protocol).pipe_file(f"{store.url}/{key}", data)


@pytest.mark.slow
class TestS3(ObjectStoreTests):
    protocol = "s3"

    @pytest.fixture
    def store(self, s3_bucket: str) -> Store:
        return open_store(f"{s3_bucket}/some folder")


# What aiohttp says of the way in which the Azure SDK sends a body; nothing here could do otherwise.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
class TestAzure(ObjectStoreTests):
    protocol = "az"

    @pytest.fixture
    def store(self, azure_container: str) -> Store:
        return open_store(f"{azure_container}/some folder")


@pytest.mark.slow
def test_a_large_buffer_goes_up_in_pieces(s3_bucket: str) -> None:
    store = open_store(s3_bucket)
    data = memoryview(bytearray(range(256)) * (129 << 12))
    store.put("large", data)
    assert fsspec.filesystem("s3").info(f"{s3_bucket}/large")["ETag"].strip('"').endswith("-9")
    assert store.get("large") == data


def test_passwords_and_tokens_are_masked(subtests: pytest.Subtests) -> None:
    rows = [
        ("s3://bucket/a", "s3://bucket/a"),
        ("sftp://me@host:22/a", "sftp://me@host:22/a"),
        ("sftp://me:pw@host:22/a", "sftp://me:***@host:22/a"),
        ("sftp://me:p@w:x@host/a", "sftp://me:***@host/a"),
        ("cannot reach 'ftp://a:b@c/d': ftp://a:b@c/d", "cannot reach 'ftp://a:***@c/d': ftp://a:***@c/d"),
        ("a = 'http://h:80'; b = c@d", "a = 'http://h:80'; b = c@d"),
        ("simplecache::https://:pw@host/a", "simplecache::https://:***@host/a"),
        ("https://h/a?token=abc&x=1", "https://h/a?token=***&x=1"),
        ("https://h/a?x=1&X-Amz-Signature=abc", "https://h/a?x=1&X-Amz-Signature=***"),
        ("see https://h/a?sig=abc' now", "see https://h/a?sig=***' now"),
        ("/a/b@c:d", "/a/b@c:d"),
        ("s3://KEY:SEC/RET@bucket/a@2", "s3://KEY:***@bucket/a@2"),
        ("https://h:80/pkg@v1", "https://h:80/pkg@v1"),
        ("s3://bucket/day:1/a@2", "s3://bucket/day:1/a@2"),
        ("https://ghp_abc@host/a@2", "https://***@host/a@2"),
        ("http://token@host", "http://***@host"),
    ]
    for text, shown in rows:
        with subtests.test(text):
            assert masked(text) == masked(shown) == shown


def test_a_password_in_a_url_may_have_any_character(subtests: pytest.Subtests) -> None:
    hidden = "simplecache::https://host/a?token=***&x=1"
    for secret in ("pw", "it's", 'a"b', "two words", "a@b", "a/b", "/"):
        with subtests.test(secret):
            assert masked_url(f"sftp://me:{secret}@host:22/a b") == "sftp://me:***@host:22/a b"
            assert masked_url(hidden.replace("***", secret)) == hidden


def test_a_store_never_shows_the_password_of_its_url() -> None:
    store = open_store("memory://me:pw'pw pw@place/?token=abc'c")
    store.put("a", b"x")
    assert store.get("a") == b"x"
    assert "pw" not in repr(store)
    assert "abc" not in store.url
    with pytest.raises(NbckptError) as caught:
        store.get("b")
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("url", ["nosuch://me:pw@host/x", "sftp://me:pw@localhost:1/x"])
def test_an_error_never_shows_a_password(url: str) -> None:
    for check in (check_protocol, open_store):
        try:
            check(url)
        except NbckptError as error:
            assert "pw" not in str(error)  # noqa: PT017  not each URL is an error for each


def test_a_password_is_never_stored(tmp_path: Path) -> None:
    check_no_secret("s3://bucket/x", "a file")
    with pytest.raises(UsageError, match=r"a:\*\*\*@b.* would be stored in the experiment's file"):
        SyncConfig(upload_dir="sftp://a:pw@b/c")
    for url in ("sftp://a:it's@b/c", "sftp://a:two words@b/c", "s3://a:k/ey@b/c"):
        with pytest.raises(UsageError, match=r"a:\*\*\*@b.* would be stored in a file"):
            check_no_secret(url, "a file")
