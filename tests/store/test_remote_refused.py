"""What no further try would change is one sentence, with the next step."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nbckpt.errors import RefusedError, StoreError
from nbckpt.store import RemoteStore, Store, open_store
from servers.azure import connection
from servers.proxy import Fault, Proxy

NO_SUCH_PLACE = r"^cannot write 'a' in \w+://nowhere0/x: it does not exist \(.*\)\. Make the bucket, or"
DENIED = r": access is denied \(.*\)\. Check the credentials and what they allow$"
AWAY = r": it cannot be reached \(.*\)\. Check its address and the network$"


def each_call(store: Store) -> None:
    others = (lambda key: store.put(key, b"x"), lambda _: list(store.keys()))
    for call in (store.get, store.exists, store.delete, *others):
        with pytest.raises(RefusedError, match=DENIED):
            call("a")


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
