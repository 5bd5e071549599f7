"""A store on S3 behind a faulty proxy: what a store promises holds, whatever happens on the way."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

import pytest

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
