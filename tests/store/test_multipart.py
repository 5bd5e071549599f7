"""Large objects on S3: whole or not there, and what was sent is not sent again."""

from __future__ import annotations

import random
from typing import Any

import pytest

from nbckpt.errors import NotFoundError, StoreError
from nbckpt.store import RemoteStore, open_store

PART = 5 << 20
DATA = random.Random(0).randbytes(3 * PART + 1000)


class Calls:
    """Requests to S3 as s3fs makes them; of those of one kind the n-th fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import s3fs

        self.made: list[str] = []
        self.fail: tuple[str, int] | None = None
        self.error: type[OSError] = OSError
        make = s3fs.S3FileSystem._call_s3

        async def call(fs: Any, method: str, *args: Any, **kwargs: Any) -> Any:
            self.made.append(method)
            if self.fail == (method, self.made.count(method)):
                raise self.error("the network is down")
            return await make(fs, method, *args, **kwargs)

        monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", call)

    def count(self, method: str) -> int:
        return self.made.count(method)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    monkeypatch.setattr("nbckpt.store.remote._LARGE", PART)
    monkeypatch.setattr("nbckpt.store.remote._PART", PART)
    monkeypatch.setattr("nbckpt.store.remote._AT_ONCE", PART)  # one after the other
    return Calls(monkeypatch)


@pytest.mark.slow
def test_a_large_object_is_put_in_parts(calls: Calls, s3_bucket: str) -> None:
    store = open_store(s3_bucket)
    store.put("big", DATA)
    assert (calls.count("upload_part"), store.get("big") == DATA) == (4, True)


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_failed_put_shows_nothing_and_the_next_sends_the_rest(
    calls: Calls, s3_bucket: str, at: int
) -> None:
    store = open_store(s3_bucket)
    calls.fail = ("upload_part", at)
    with pytest.raises(StoreError, match="the network is down"):
        store.put("big", DATA)
    with pytest.raises(NotFoundError):
        store.get("big")
    calls.made.clear()
    calls.fail = None
    RemoteStore(s3_bucket).put("big", DATA)
    assert calls.count("upload_part") == 4 - (at - 1)
    assert (calls.count("create_multipart_upload"), store.get("big") == DATA) == (0, True)


@pytest.mark.slow
def test_parts_of_other_contents_are_sent_again(calls: Calls, s3_bucket: str) -> None:
    store = open_store(s3_bucket)
    calls.fail = ("upload_part", 4)
    with pytest.raises(StoreError):
        store.put("big", DATA)
    calls.made.clear()
    calls.fail = None
    other = DATA[:PART] + bytes(PART) + DATA[2 * PART : -500]
    store.put("big", other)
    assert (calls.count("upload_part"), store.get("big") == other) == (2, True)


@pytest.mark.slow
def test_an_upload_that_no_longer_exists_is_started_again(calls: Calls, s3_bucket: str) -> None:
    store = open_store(s3_bucket)
    calls.fail = ("upload_part", 3)
    with pytest.raises(StoreError):
        store.put("big", DATA)
    calls.made.clear()
    calls.fail, calls.error = ("upload_part", 1), FileNotFoundError  # what s3fs makes of NoSuchUpload
    store.put("big", DATA)
    assert (calls.count("create_multipart_upload"), store.get("big") == DATA) == (1, True)


@pytest.mark.slow
def test_a_user_who_cannot_list_uploads_sends_all_parts(calls: Calls, s3_bucket: str) -> None:
    calls.fail = ("list_multipart_uploads", 1)
    store = open_store(s3_bucket)
    store.put("big", DATA)
    assert (calls.count("upload_part"), store.get("big") == DATA) == (4, True)


@pytest.mark.slow
def test_a_failed_completion_leaves_no_parts(calls: Calls, s3_bucket: str) -> None:
    store = open_store(s3_bucket)
    calls.fail = ("complete_multipart_upload", 1)
    with pytest.raises(StoreError):
        store.put("big", DATA)
    assert calls.count("abort_multipart_upload") == 1
    calls.made.clear()
    calls.fail = None
    store.put("big", DATA)
    assert (calls.count("upload_part"), store.get("big") == DATA) == (4, True)
