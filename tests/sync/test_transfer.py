"""Work: many calls as one, tried again where that helps, and given up so that nothing of them goes on."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
from sync.trees import write

from nbckpt.errors import CorruptError, FormatError, NotFoundError, RefusedError, StoreError, UsageError
from nbckpt.store import (
    STAGING,
    Cancel,
    CancelledError,
    LocalStore,
    MemoryStore,
    RemoteStore,
    Store,
    TimedOutError,
    open_store,
    wanted,
)
from nbckpt.sync.budget import MemoryBudget
from nbckpt.sync.download import download
from nbckpt.sync.transfer import THREADS, TransferOptions, TransferPool
from nbckpt.sync.upload import upload
from servers.proxy import Fault, Proxy, Request
from waiting import until


def pool(place: str = "x", **options: Any) -> TransferPool:
    """Return a pool that does not wait between attempts."""
    return TransferPool(place, **{"backoff_s": 0.0, **options})


@contextmanager
def when(event: threading.Event, then: Callable[[], object]) -> Iterator[None]:
    """Have something done, in a thread of its own, once an event was set."""
    thread = threading.Thread(target=lambda: event.wait() and then())
    thread.start()
    try:
        yield
    finally:
        event.set()
        thread.join()


# Calls.


def test_calls_are_made_several_at_a_time_and_each_once() -> None:
    met, made = threading.Barrier(THREADS, timeout=30), list[int]()
    pool().all(partial(lambda n: made.append(met.wait() and n), n) for n in range(3 * THREADS))
    assert len(made) == 3 * THREADS


def test_one_returns_the_result_of_its_call() -> None:
    assert pool().one(lambda: None) is None
    assert pool().one(lambda: 7) == 7
    pool().all([])


def test_a_call_sees_the_context_of_its_caller() -> None:
    name = ContextVar("name", default="")
    name.set("mine")
    assert pool().one(name.get) == "mine"


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_failing_call_is_retried_a_set_number_of_times(attempts: int) -> None:
    """The error keeps its cause."""
    call = Mock(side_effect=StoreError("the net is down"))
    times = f"after {attempts} attempts?"
    with pytest.raises(StoreError, match=rf"^the net is down \({times}\)$") as failed:
        pool(attempts=attempts).one(call)
    assert call.call_count == attempts
    assert failed.value.__cause__ is call.side_effect


def test_a_call_that_fails_twice_is_retried() -> None:
    call = Mock(side_effect=[StoreError("1"), ConnectionError("2"), "made"])
    state = random.getstate()
    assert pool().one(call) == "made"
    assert random.getstate() == state  # a retry in the background changes nothing that the user draws


def test_permanent_errors_are_not_retried(subtests: pytest.Subtests) -> None:
    for kind in (UsageError, NotFoundError, RefusedError, CorruptError, FormatError):
        call = Mock(side_effect=kind("as the test asked"))
        with subtests.test(kind.__name__):
            with pytest.raises(kind, match=r"^as the test asked$"):
                pool().one(call)
            assert call.call_count == 1


def test_a_permission_error_is_not_retried(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with (
        patch("nbckpt.store.files.os.open", side_effect=PermissionError(13, "Permission denied")) as tried,
        pytest.raises(RefusedError, match=r"cannot write 'a' in .*Permission denied\. Choose a folder"),
    ):
        pool().one(lambda: store.put("a", b"x"))
    assert tried.call_count == 1


def test_a_failure_prevents_further_calls() -> None:
    made = []

    def call(n: int) -> None:
        made.append(n)
        raise UsageError(str(n))

    with pytest.raises(UsageError):
        pool().all(partial(call, n) for n in range(1000))
    assert len(made) <= THREADS


def test_a_system_exit_is_raised_in_the_calling_thread() -> None:
    with pytest.raises(SystemExit):
        pool().one(Mock(side_effect=SystemExit(3)))


# Giving up.


def test_a_cancelled_pool_starts_no_call() -> None:
    cancel, made = Cancel(), list[int]()
    work = pool(cancel=cancel)
    cancel.cancel()
    with pytest.raises(CancelledError, match="it was cancelled"):
        work.one(lambda: made.append(1))
    assert made == []


def test_a_timeout_of_zero_ends_at_once() -> None:
    free = threading.Event()
    with pytest.raises(TimedOutError, match="it did not end within 0 s"):
        pool(timeout=0).one(lambda: wanted().event.wait() or free.set())


def test_calls_that_share_a_budget_never_hold_more() -> None:
    work, budget, inside = pool(), MemoryBudget(100), [0]

    def hold(size: int) -> None:
        with budget.holding(size, work.cancel):
            inside.append(inside[-1] + min(size, 100))
            assert budget.free == 100 - inside[-1]
            inside.append(inside[-1] - min(size, 100))

    work.all(partial(hold, size) for size in [51, 60, 1000] * 20)
    assert max(inside) == 100


def test_a_cancel_ends_the_wait_for_memory() -> None:
    cancel, budget = Cancel(), MemoryBudget(100)
    with budget.holding(100, cancel):
        ends = threading.Timer(0, cancel.cancel)
        ends.start()
        with pytest.raises(CancelledError), budget.holding(1, cancel):
            pass
        ends.join()


def test_a_cancel_ends_the_wait_between_attempts() -> None:
    failed, cancel = threading.Event(), Cancel()

    def call() -> None:
        failed.set()
        raise StoreError("down")

    with when(failed, cancel.cancel), pytest.raises(CancelledError):
        pool(cancel=cancel, backoff_s=3600).one(call)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX")
def test_an_interrupt_cancels_running_calls() -> None:
    stopped, main = threading.Event(), threading.main_thread().ident

    def call() -> None:
        signal.pthread_kill(main, signal.SIGINT)
        wanted().event.wait()
        stopped.set()

    with pytest.raises(KeyboardInterrupt):
        pool().one(call)
    assert stopped.is_set()


def test_a_hanging_call_delays_later_calls_to_its_location_only() -> None:
    began, free, order = threading.Event(), threading.Event(), list[str]()
    cancel = Cancel()

    def hang() -> None:
        began.set()
        free.wait()
        order.append("former")

    with when(began, cancel.cancel), pytest.raises(CancelledError):
        pool("here", cancel=cancel, grace=0).one(hang)
    pool("there").one(lambda: order.append("elsewhere"))
    with pytest.raises(TimedOutError, match=r"abandoned transfer there did not end within 0\.01 s"):
        pool("here", timeout=0.01)
    second = Cancel()
    second.cancel()
    with pytest.raises(CancelledError):
        pool("here", cancel=second)
    next_ = threading.Thread(target=lambda: pool("here").one(lambda: order.append("next")))
    next_.start()
    free.set()
    next_.join()
    assert order == ["elsewhere", "former", "next"]


# Stores.


class Parts(Sequence[bytes]):
    """Data in parts, before one of which it is cancelled."""

    def __init__(self, number: int, at: int, cancel: Cancel) -> None:
        self.number, self.at, self.cancel = number, at, cancel
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, n: int) -> bytes:  # type: ignore[override]
        if n >= self.number:
            raise IndexError
        self.asked.append(n)
        if n == self.at:
            self.cancel.cancel()
        return b"new" * 1000


@pytest.fixture(params=["memory", "folder", "renamed"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    makes: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "folder": lambda: LocalStore(tmp_path / "store"),
        "renamed": lambda: RemoteStore(f"local://{tmp_path}/store"),
    }
    return makes[request.param]()


def test_a_put_that_is_cancelled_at_any_part_changes_nothing(
    store: Store, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    store.put("a", b"old")
    for at in range(6):
        cancel = Cancel()
        data = Parts(6, at, cancel)
        with subtests.test(at=at):
            with pytest.raises(CancelledError), cancel.covering():
                store.put("a", data)
            assert data.asked == list(range(at + 1))
            assert store.get("a") == b"old"
            assert [file for file in (tmp_path / "store" / STAGING).rglob("*") if file.is_file()] == []


def test_a_put_that_is_cancelled_during_fsync_is_not_visible(tmp_path: Path) -> None:
    store, cancel = LocalStore(tmp_path), Cancel()
    store.put("a", b"old")
    with (
        patch("nbckpt.store.files.sync", lambda _: cancel.cancel()),
        cancel.covering(),
        pytest.raises(CancelledError),
    ):
        store.put("a", b"new")
    assert store.get("a") == b"old"


def test_a_put_that_is_not_cancelled_completes(store: Store) -> None:
    with Cancel().covering():
        store.put("a", Parts(6, -1, Cancel()))
    assert store.get("a") == b"new" * 6000


# Requests that are under way.

LARGE = bytes(range(256)) * (40 << 12)  # 40 MiB, in parts
SMALL = LARGE[: 20 << 20]


def asks(method: str, words: str, request: Request) -> bool:
    return request.method == method and words in request.path


puts = partial(asks, "PUT", "/x")


@pytest.fixture
def slow(s3_bucket: str, s3_proxy: Proxy) -> Store:
    return RemoteStore(f"{s3_bucket}/t", endpoint_url=s3_proxy.url)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cancel", "timeout"])
@pytest.mark.parametrize(
    "fault",
    [
        Fault("stall", when=puts, sent=0),
        Fault("stall", when=puts, sent=1 << 20),
        Fault("stall", when=puts, sent=10 << 20),
        Fault("stall", when=partial(asks, "PUT", "partNumber=2"), sent=1 << 20),
        Fault("stall", when=partial(asks, "POST", "uploadId"), sent=10),
    ],
    ids=["at the head", "early", "in the middle", "in a part", "at the completion"],
)
def test_a_cancelled_upload_to_s3_writes_nothing_later(
    slow: Store, s3_bucket: str, s3_proxy: Proxy, tmp_path: Path, fault: Fault, how: str
) -> None:
    direct, cancel = open_store(f"{s3_bucket}/t"), Cancel()
    folder = write(tmp_path / "folder", {"x": b"old"})
    upload(folder, direct)
    (folder / "x").unlink()
    upload(write(folder, {"y": b"not touched"}), direct, delete_missing=True)
    write(folder, {"x": SMALL if fault.when is puts else LARGE})
    fault.struck.clear()
    fault.released.clear()
    s3_proxy.fail(fault)
    options = TransferOptions(cancel=cancel, timeout=None if how == "cancel" else 2.0)
    with when(fault.struck, cancel.cancel if how == "cancel" else int):
        with pytest.raises(CancelledError if how == "cancel" else TimedOutError):
            upload(folder, slow, options=options)
        assert fault.struck.is_set() or how == "timeout"  # which may come earlier
    # Its connections are closed, so that no thread of ours and no byte is left to come.
    until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("nbckpt")])
    s3_proxy.heal()
    assert "x" not in list(direct.keys())
    upload(write(folder, {"x": b"newer"}), slow)
    download(direct, tmp_path / "other")
    assert (tmp_path / "other" / "x").read_bytes() == direct.get("x") == b"newer"


@pytest.mark.slow
@pytest.mark.parametrize("action", ["get", "list"])
def test_a_download_from_s3_can_be_cancelled(
    slow: Store, s3_bucket: str, s3_proxy: Proxy, tmp_path: Path, action: str
) -> None:
    upload(write(tmp_path / "folder", {"x": SMALL}), open_store(f"{s3_bucket}/t"))
    cancel = Cancel()
    end, received = ("/x", 1000) if action == "get" else ("index.json", 10)
    is_it = partial(asks, "GET", end)
    fault = s3_proxy.fail(Fault("stall", when=is_it, received=received))
    with when(fault.struck, cancel.cancel), pytest.raises(CancelledError):
        download(slow, tmp_path / "other", options=TransferOptions(cancel=cancel))
    assert not (tmp_path / "other").exists()
    s3_proxy.heal()
    assert download(slow, tmp_path / "other").files == 1
