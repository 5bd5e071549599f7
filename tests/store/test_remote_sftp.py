"""A store behind SFTP, against a server of our own."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from nbckpt.errors import RefusedError, StoreError, UsageError
from nbckpt.store import Store, open_store
from nbckpt.testing import StoreTests
from servers.sftp import SftpServer

pytest.importorskip("paramiko")

from fsspec.implementations.sftp import SFTPFileSystem
from paramiko import SFTPClient, SFTPFile, SSHClient


def folder_of(store: Store) -> Path:
    return Path("/", store.url.removeprefix("sftp://").partition("/")[2])


@pytest.mark.slow
class TestSftp(StoreTests):
    @pytest.fixture
    def store(self, sftp_folder: str) -> Store:
        return open_store(f"{sftp_folder}/some folder")

    def get_behind(self, store: Store, key: str) -> bytes:
        return (folder_of(store) / key).read_bytes()

    def put_behind(self, store: Store, key: str, data: bytes) -> None:
        file = folder_of(store) / key
        file.parent.mkdir(parents=True)
        file.write_bytes(data)


def test_a_lost_connection_is_opened_again(sftp_server: SftpServer, sftp_folder: str) -> None:
    store = open_store(sftp_folder)
    store.put("a", b"x")
    sftp_server.hang_up()
    with suppress(StoreError):  # the first to find out may say so
        store.get("a")
    assert store.get("a") == b"x"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "call"), [(SFTPFile, "write"), (SFTPFile, "close"), (SFTPFileSystem, "mv")])
def test_an_interrupted_put_leaves_no_key(
    sftp_server: SftpServer, sftp_folder: str, kind: type, call: str
) -> None:
    store = open_store(sftp_folder)
    work = getattr(kind, call)

    def cut(*args: object) -> object:
        sftp_server.hang_up()
        return work(*args)

    with patch.object(kind, call, cut), pytest.raises(StoreError, match=r"cannot write 'a' in sftp://"):
        store.put("a", b"x" * 1_000_000)
    assert list(store.keys()) == []
    store.put("a", b"z")
    assert store.get("a") == b"z"


def test_a_connection_that_failed_is_not_used_again(sftp_folder: str) -> None:
    store = open_store(sftp_folder)
    with patch.object(SFTPFile, "write", side_effect=EOFError), pytest.raises(StoreError):
        store.put("a", b"x")
    with patch.object(SSHClient, "connect", autospec=True, side_effect=SSHClient.connect) as connect:
        assert list(store.keys()) == []
        assert not store.exists("a")
    assert connect.call_count == 1


def test_a_folder_that_cannot_be_listed_is_an_error(sftp_folder: str) -> None:
    store = open_store(sftp_folder)
    store.put("a/b", b"x")
    with patch.object(SFTPClient, "listdir_iter", side_effect=PermissionError(13, "Permission denied")):
        for listing in (store.keys, store.sizes):
            with pytest.raises(StoreError, match="Permission denied"):
                list(listing())


def test_a_host_that_is_not_known_is_refused(
    sftp_server: SftpServer, sftp_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    port = sftp_server.address.rpartition(":")[2]
    add = rf"ssh-keyscan -p {port} 127\.0\.0\.1 >> ~/\.ssh/known_hosts"
    with pytest.raises(RefusedError, match=rf"is not in ~/\.ssh/known_hosts.*ed25519 SHA256:.*{add}"):
        open_store(sftp_folder)


def test_a_host_with_another_key_is_refused(
    sftp_server: SftpServer, sftp_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = (sftp_server.home / ".ssh" / "known_hosts").read_text().split()[0]
    other = (sftp_server.home / ".ssh" / "id_ed25519.pub").read_text()
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "known_hosts").write_text(f"{known} {other}")
    monkeypatch.setenv("HOME", str(tmp_path))
    remove = rf"ssh-keygen -R '{re.escape(known)}'"
    with pytest.raises(RefusedError, match=rf"another key .*Somebody may intercept .*{remove}"):
        open_store(sftp_folder)


def test_a_chain_over_ssh_is_refused(sftp_folder: str) -> None:
    with pytest.raises(UsageError, match="Give the URL of the host alone"):
        open_store(f"simplecache::{sftp_folder}")


@pytest.mark.parametrize("end", ["", "/"])
def test_the_top_of_a_host_can_be_a_store(sftp_folder: str, end: str) -> None:
    below = open_store(sftp_folder)
    below.put("a", b"x")
    host, _, path = below.url.removeprefix("sftp://").partition("/")
    store = open_store(f"sftp://{host}{end}")
    assert list(store.keys(f"{path}/")) == [f"{path}/a"]
    assert store.get(f"{path}/a") == b"x"
