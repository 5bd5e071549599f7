"""A store over HTTP, which other programs fill: what does not answer is never taken for an empty store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbckpt import Tracker
from nbckpt.errors import NotFoundError, RefusedError, StoreError
from nbckpt.mirror import Mirror
from nbckpt.store import LocalStore, Store, open_store
from ports import free_ports
from servers.files import served_folder
from servers.proxy import Fault, Request, proxied

pytest.importorskip("aiohttp")

CALLS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get("a/b"),
    "get of a range": lambda store: store.get("a/b", 1, 2),
    "get of nothing": lambda store: store.get("a/b", 1, 1),
    "exists": lambda store: store.exists("a/b"),
    "keys": lambda store: list(store.keys()),
    "keys of a folder": lambda store: list(store.keys("a/")),
    "delete": lambda store: store.delete("a/b"),
}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    LocalStore(tmp_path).put("a/b", b"data")
    with served_folder(tmp_path) as url:
        yield url


def test_a_server_that_does_not_answer_is_an_error(subtests: pytest.Subtests) -> None:
    url = f"http://127.0.0.1:{free_ports(1)[0]}/x"
    away = rf"in {url}: it cannot be reached \(.*Check its address"
    for name, call in CALLS.items():
        with subtests.test(name):
            with pytest.raises(StoreError, match=away) as caught:
                call(open_store(url))
            assert not isinstance(caught.value, NotFoundError)


def test_a_missing_key_of_a_server_is_not_found(url: str) -> None:
    store = open_store(url)
    assert (store.get("a/b"), store.get("a/b", 2, 2)) == (b"data", b"")
    assert store.exists("a/b")
    assert not store.exists("a/c")
    for span in ((0, None), (1, 1)):
        with pytest.raises(NotFoundError):
            store.get("a/c", *span)
    assert list(store.keys()) == ["a/b"]
    assert list(open_store(f"{url}/none").keys()) == []


@pytest.mark.parametrize(("status", "kind"), [(500, StoreError), (403, RefusedError), ("reset", StoreError)])
def test_a_failed_answer_is_an_error(
    url: str, status: int | str, kind: type, subtests: pytest.Subtests
) -> None:
    with proxied(url) as proxy:
        proxy.fail(Fault(status))
        for name, call in CALLS.items():
            with subtests.test(name):
                with pytest.raises(StoreError) as caught:
                    call(open_store(proxy.url))
                assert type(caught.value) is kind


def test_a_folder_that_does_not_answer_is_an_error(url: str) -> None:
    def is_below(request: Request) -> bool:
        return "/a" in request.path

    with proxied(url) as proxy:
        proxy.fail(Fault("reset", when=is_below))
        with pytest.raises(StoreError):
            list(open_store(proxy.url).keys())


def test_folders_of_a_server_without_end_are_an_error(tmp_path: Path, url: str) -> None:
    tmp_path.joinpath(*"d" * 102).mkdir(parents=True)
    with pytest.raises(StoreError, match="is below 100 folders"):
        list(open_store(url).keys())


def test_a_pull_from_a_server_that_is_away_says_so(tmp_path: Path) -> None:
    tracker = Tracker(tmp_path / "store")
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(StoreError, match=f"{url}: it cannot be reached"):
        Mirror(tracker.store, tmp_path / "none", url).pull()
    with pytest.raises(StoreError, match=f"{url}: it cannot be reached"):
        Tracker(url).entries()
