"""A store on S3: its promises hold behind a faulty proxy, and large objects are put in parts or not."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

import pytest

from nbckpt._private_apis import s3_call
from nbckpt.errors import NotFoundError, StoreError
from nbckpt.store import RemoteStore, Store, open_store
from servers.proxy import Fault, Proxy, Request

pytestmark = pytest.mark.slow

DATA = bytes(range(256)) * 1000
ANY = {
    "reset": partial(Fault, "reset"),
    "answer lost": partial(Fault, "reset", received=0),
    "answer cut": partial(Fault, "close", received=100),
    "500": partial(Fault, 500),
    "503": partial(Fault, 503),
}
UP = {
    "reset halfway": partial(Fault, "reset", sent=100_000),
    "closed halfway": partial(Fault, "close", sent=100_000),
}
DOWN = {
    "reset halfway": partial(Fault, "reset", received=100_000),
    "closed halfway": partial(Fault, "close", received=100_000),
}


def each(faults: dict[str, partial[Fault]]) -> Any:
    """Have a test run with each of these faults, once for a moment and once for good."""
    cases = product(faults.items(), (1, None))
    return pytest.mark.parametrize(
        "fault",
        [
            pytest.param(partial(make, at=at), id=f"{name}, {'once' if at else 'always'}")
            for (name, make), at in cases
        ],
    )


@pytest.fixture
def direct(s3_bucket: str) -> Store:
    return open_store(s3_bucket)


@pytest.fixture
def store(s3_bucket: str, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The same store by way of the proxy; of those below it, only s3fs tries again, and once."""
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 2)
    once = {"retries": {"max_attempts": 0}}
    return RemoteStore(s3_bucket, endpoint_url=s3_proxy.url, config_kwargs=once)


def puts(request: Request) -> bool:
    return request.method == "PUT"


@each(ANY | UP)
def test_a_put_is_complete_or_has_no_effect(
    direct: Store, store: Store, s3_proxy: Proxy, fault: partial[Fault]
) -> None:
    failed = s3_proxy.fail(fault(when=puts))
    try:
        store.put("a", DATA)
    except StoreError:
        assert [size for _, size in direct.sizes()] in ([], [len(DATA)])
    else:
        assert direct.get("a") == DATA
    assert failed.struck.is_set()
    s3_proxy.heal()
    store.put("a", DATA)
    assert direct.get("a") == DATA


@each(ANY | DOWN)
@pytest.mark.parametrize("span", [(0, None), (1000, 200_000)], ids=["whole", "range"])
def test_a_get_returns_the_right_bytes_or_fails(
    direct: Store, store: Store, s3_proxy: Proxy, fault: partial[Fault], span: tuple[int, int | None]
) -> None:
    direct.put("a", DATA)
    failed = s3_proxy.fail(fault(when=lambda request: request.method == "GET"))
    with suppress(StoreError):
        assert store.get("a", *span) == DATA[slice(*span)]
    assert failed.struck.is_set()
    s3_proxy.heal()
    assert store.get("a", *span) == DATA[slice(*span)]


@each(ANY)
def test_keys_returns_every_key_or_fails(
    direct: Store, store: Store, s3_proxy: Proxy, fault: partial[Fault]
) -> None:
    keys = [f"a/{n:04}" for n in range(30)]
    for key in keys:
        direct.put(key, b"x")
    failed = s3_proxy.fail(fault())
    for listing in (lambda: list(store.keys("a/")), lambda: [key for key, _ in store.sizes("a/")]):
        with suppress(StoreError):
            assert listing() == keys
    assert failed.struck.is_set()


@pytest.mark.parametrize("fault", [ANY["reset"], ANY["500"], ANY["503"]])
def test_an_unreachable_key_is_not_reported_as_missing(
    direct: Store, store: Store, s3_proxy: Proxy, fault: partial[Fault]
) -> None:
    direct.put("a", DATA)
    s3_proxy.fail(fault())
    for call in (store.exists, store.get, store.delete):
        with pytest.raises(StoreError):
            call("a")
    assert direct.get("a") == DATA


def test_the_parts_of_a_large_put_become_visible_together(
    direct: Store, store: Store, s3_proxy: Proxy
) -> None:
    data = memoryview(bytearray(129 << 20))
    s3_proxy.fail(Fault("reset", sent=1 << 20, when=lambda request: "partNumber=2" in request.path))
    with pytest.raises(StoreError):
        store.put("a", data)
    assert list(direct.keys()) == []
    with pytest.raises(NotFoundError):
        direct.get("a")
    assert any(request.method == "DELETE" and "uploadId" in request.path for request in s3_proxy.requests)


def test_sizes_takes_one_request(direct: Store, store: Store, s3_proxy: Proxy) -> None:
    for n in range(20):
        direct.put(f"a/{n}", b"x" * n)
    s3_proxy.requests.clear()
    assert dict(store.sizes("a/")) == {f"a/{n}": n for n in range(20)}
    assert len(s3_proxy.requests) == 1


PART = 5 << 20
PARTS = random.Random(0).randbytes(3 * PART + 1000)


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
            store.put("big", PARTS)
        self.former, self.made, self.fail = self.made, [], None

    def put(self, store: Store, data: bytes = PARTS) -> int:
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


def test_a_large_object_is_put_in_parts(calls: Calls, direct: Store) -> None:
    assert calls.put(direct) == 4


@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_failed_put_shows_nothing_and_the_next_sends_the_rest(calls: Calls, direct: Store, at: int) -> None:
    calls.fail_a_put(direct, "upload_part", at)
    with pytest.raises(NotFoundError):
        direct.get("big")
    assert calls.put(RemoteStore(direct.url)) == 4 - (at - 1)
    assert calls.count("create_multipart_upload") == 0


def test_parts_of_other_contents_are_sent_again(calls: Calls, direct: Store) -> None:
    calls.fail_a_put(direct, "upload_part", 4)
    assert calls.put(direct, PARTS[:PART] + bytes(PART) + PARTS[2 * PART : -500]) == 2


def test_an_upload_that_no_longer_exists_is_started_again(calls: Calls, direct: Store) -> None:
    calls.fail_a_put(direct, "upload_part", 3)
    calls.fail, calls.error = ("upload_part", 1), FileNotFoundError  # what s3fs makes of NoSuchUpload
    calls.put(direct)
    assert calls.count("create_multipart_upload") == 1


def test_a_user_who_cannot_list_uploads_sends_all_parts(calls: Calls, direct: Store) -> None:
    calls.fail = ("list_multipart_uploads", 1)
    assert calls.put(direct) == 4


def test_a_failed_completion_leaves_no_parts(calls: Calls, direct: Store) -> None:
    calls.fail_a_put(direct, "complete_multipart_upload", 1)
    assert calls.former.count("abort_multipart_upload") == 1
    assert calls.put(direct) == 4
