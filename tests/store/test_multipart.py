"""Large objects on S3: whole or not there, and what was sent is not sent again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from nbckpt._private_apis import s3_call
from nbckpt.errors import NotFoundError, StoreError
from nbckpt.store import RemoteStore, Store, open_store

pytestmark = pytest.mark.slow

PART = 5 << 20
DATA = random.Random(0).randbytes(3 * PART + 1000)


class Calls:
    """Requests that a put in parts makes; of those of one kind the n-th fails."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.former: list[str] = []
        self.fail: tuple[str, int] | None = None
        self.error: type[OSError] = OSError

    def of(self, fs: Any) -> Callable[..., Any]:
        """Return the method with which a file system makes a request."""

        async def call(method: str, **options: Any) -> Any:
            self.made.append(method)
            if self.fail == (method, self.made.count(method)):
                raise self.error("the network is down")
            return await s3_call(fs)(method, **options)

        return call

    def count(self, method: str) -> int:
        return self.made.count(method)

    def fail_a_put(self, store: Store, method: str, at: int) -> None:
        """Let a put fail at a request, and forget the requests."""
        self.fail = (method, at)
        with pytest.raises(StoreError, match="the network is down"):
            store.put("big", DATA)
        self.former, self.made, self.fail = self.made, [], None

    def put(self, store: Store, data: bytes = DATA) -> int:
        """Put data, and return how many parts were sent."""
        store.put("big", data)
        assert store.get("big") == data
        return self.count("upload_part")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    monkeypatch.setattr("nbckpt.store.remote.LARGE", PART)
    monkeypatch.setattr("nbckpt.store.remote.PART", PART)
    monkeypatch.setattr("nbckpt.store.remote.AT_ONCE", PART)  # one after the other
    calls = Calls()
    monkeypatch.setattr("nbckpt.store.multipart.s3_call", calls.of)
    return calls


@pytest.fixture
def store(s3_bucket: str) -> Store:
    return open_store(s3_bucket)


def test_a_large_object_is_put_in_parts(calls: Calls, store: Store) -> None:
    assert calls.put(store) == 4


@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_failed_put_shows_nothing_and_the_next_sends_the_rest(calls: Calls, store: Store, at: int) -> None:
    calls.fail_a_put(store, "upload_part", at)
    with pytest.raises(NotFoundError):
        store.get("big")
    assert calls.put(RemoteStore(store.url)) == 4 - (at - 1)
    assert calls.count("create_multipart_upload") == 0


def test_parts_of_other_contents_are_sent_again(calls: Calls, store: Store) -> None:
    calls.fail_a_put(store, "upload_part", 4)
    assert calls.put(store, DATA[:PART] + bytes(PART) + DATA[2 * PART : -500]) == 2


def test_an_upload_that_no_longer_exists_is_started_again(calls: Calls, store: Store) -> None:
    calls.fail_a_put(store, "upload_part", 3)
    calls.fail, calls.error = ("upload_part", 1), FileNotFoundError  # what s3fs makes of NoSuchUpload
    calls.put(store)
    assert calls.count("create_multipart_upload") == 1


def test_a_user_who_cannot_list_uploads_sends_all_parts(calls: Calls, store: Store) -> None:
    calls.fail = ("list_multipart_uploads", 1)
    assert calls.put(store) == 4


def test_a_failed_completion_leaves_no_parts(calls: Calls, store: Store) -> None:
    calls.fail_a_put(store, "complete_multipart_upload", 1)
    assert calls.former.count("abort_multipart_upload") == 1
    assert calls.put(store) == 4
