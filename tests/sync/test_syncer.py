"""Syncers: folders up and down in the background; nothing is dropped, nothing fails unheard."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import uuid
import warnings
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import tenacity
from hypothesis import given, settings
from hypothesis import strategies as st
from sync.trees import plain, read, write

import nbckpt
from nbckpt.errors import NotFoundError, StoreError, UsageError
from nbckpt.store import Cancel, CancelledError, Data, MemoryStore, Store, TimedOutError, wanted
from nbckpt.store.base import parts_of
from nbckpt.sync import BackgroundSyncer, DefaultSyncer, engine
from nbckpt.sync.exclude import OWN
from nbckpt.sync.request import Request
from nbckpt.sync.transfer import TransferOptions
from nbckpt.testing import FaultyStore, RecordingStore
from waiting import until

TREE = [
    "level0.txt",
    "level0_exclude.txt",
    "subdir/level1.txt",
    "subdir/level1_exclude.txt",
    "subdir/nested/level2.txt",
    "subdir_nested_level2_exclude.txt",
    "subdir_exclude/something/somewhere.txt",
]


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Remote(DefaultSyncer):
    """Finds the stores of a test by their URLs."""

    stores: dict[str, Store] = {}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"backoff_s": 0.0, **options})

    @classmethod
    def open_storage(cls, url: str) -> Store:
        return cls.stores.get(url) or super().open_storage(url)


class Steered(BackgroundSyncer):
    """Does what the test says: each request waits until it is let go, or is cancelled."""

    clock: Clock

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.began: list[Request] = []
        self.has_begun = threading.Semaphore(0)
        self.goes_on = threading.Semaphore(0)
        self.errors: list[BaseException | None] = []

    def carry_out(self, request: Request, options: TransferOptions) -> None:
        assert options.cancel is not None
        self.began.append(request)
        self.has_begun.release()
        with options.cancel.calling(self.goes_on.release):
            self.goes_on.acquire()
        options.cancel.check()
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error

    def let_go(self, times: int = 1) -> None:
        self.goes_on.release(times)

    def let_end(self, *errors: BaseException | None) -> None:
        """Let the next requests end, each with one of these errors or with success."""
        self.errors += errors
        self.let_go(len(errors))

    def next_has_begun(self) -> Request:
        self.has_begun.acquire()
        return self.began[-1]


class OldStyle(nbckpt.sync.Syncer):
    """A synchronous syncer, without a wait and a retry of its own."""

    def __init__(self, sync_period: float = 300.0):
        super().__init__(sync_period=sync_period)
        self.calls: list[Any] = []
        self.answer = True

    def sync_up(self, local_dir: str, remote_dir: str, exclude: list[str] | None = None) -> bool:
        self.calls.append(("up", local_dir, remote_dir, exclude))
        return self.answer

    def sync_down(self, remote_dir: str, local_dir: str, exclude: list[str] | None = None) -> bool:
        self.calls.append(("down", remote_dir, local_dir, exclude))
        return self.answer

    def delete(self, remote_dir: str) -> bool:
        self.calls.append(("delete", remote_dir))
        return self.answer


class Failing(OldStyle):
    """Fails when it is waited for, as often as it is told."""

    errors: list[Exception]

    def wait(self) -> None:
        self.calls.append("wait")
        if self.errors:
            raise self.errors.pop(0)

    def retry(self) -> None:
        self.calls.append("retry")


class NoInit(OldStyle):
    """Does not call the __init__ that it inherits."""

    def __init__(self) -> None:
        self.calls = []
        self.answer = True


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have waits between attempts noted, not made."""
    times: list[float] = []
    monkeypatch.setattr(tenacity.nap.time, "sleep", times.append)
    return times


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "source", {path: path.encode() for path in TREE})


@pytest.fixture
def url() -> str:
    return f"memory://{uuid.uuid4().hex}/here"


@pytest.fixture
def steered() -> Iterator[Steered]:
    clock = Clock()
    syncer = Steered(sync_period=60, sync_timeout=10, clock=clock)
    syncer.clock = clock
    yield syncer
    syncer.cancel()
    syncer.close()


def put_at(store: Store) -> str:
    """Return the URL under which `Remote` finds *store*."""
    where = f"test://{uuid.uuid4().hex}"
    Remote.stores[where] = store
    return where


# Behaviours.


@pytest.mark.parametrize("kind", ["memory", "folder", "s3"])
def test_a_syncer_uploads_downloads_and_deletes(
    source: Path, tmp_path: Path, url: str, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "s3":
        url = f"{request.getfixturevalue('s3_bucket')}/some/where"
    elif kind == "folder":
        url = (tmp_path / "the remote").as_uri()
    with DefaultSyncer() as syncer:
        assert syncer.sync_up(str(source), url) is True
        assert syncer.wait() is True
        syncer.sync_down(url, str(tmp_path / "target"))
    assert read(tmp_path / "target") == {path: path.encode() for path in TREE}
    syncer.delete(url)
    syncer.sync_down(url, str(tmp_path / "again"))
    with pytest.raises(NotFoundError, match="nothing at"):
        syncer.close()
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("way", ["up", "down"])
def test_sync_if_needed_runs_once_per_period(source: Path, tmp_path: Path, url: str, way: str) -> None:
    clock = Clock()
    with DefaultSyncer(sync_period=60, clock=clock) as syncer:
        syncer.sync_up(str(source), url)
        syncer.wait()

        def if_needed() -> bool:
            if way == "up":
                return syncer.sync_up_if_needed(str(source), url)
            return syncer.sync_down_if_needed(url, str(tmp_path / "target"))

        answers = []
        for _ in range(3):
            answers.append(if_needed())
            syncer.wait()
            clock.now += 30
    assert answers == [True, False, True]


def test_a_second_sync_does_not_start_while_one_runs(steered: Steered) -> None:
    assert steered.sync_up_if_needed("a", "s3://x") is True
    steered.next_has_begun()
    assert steered.sync_up_if_needed("a", "s3://x") is False
    assert steered.sync_up("a", "s3://x") is False
    assert len(steered.began) == 1


def test_a_failed_sync_is_logged_and_a_new_one_can_start(
    steered: Steered, caplog: pytest.LogCaptureFixture
) -> None:
    steered.let_end(RuntimeError("net down"), None)
    steered.sync_up("a", "s3://x")
    with pytest.raises(StoreError, match="net down"):
        steered.wait()
    assert "sync_up of 'a' to 's3://x' failed: RuntimeError: net down" in caplog.text
    assert steered.sync_up("a", "s3://x")
    assert steered.wait()


def test_a_hanging_sync_is_cancelled_at_its_timeout(steered: Steered) -> None:
    """The next sync can begin then."""
    assert steered.sync_up("a", "s3://x") is True
    steered.next_has_begun()
    steered.clock.now += 5
    assert steered.sync_up("a", "s3://x") is False
    assert len(steered.began) == 1
    steered.clock.now += 5
    assert steered.sync_up("a", "s3://x") is True
    steered.next_has_begun()
    assert len(steered.began) == 2
    steered.clock.now += 20
    with pytest.raises(TimeoutError, match=r"sync_up of 'a' to 's3://x': it did not end within 10 s"):
        steered.wait()
    assert steered.wait()


def test_a_sync_that_always_hangs_fails_after_its_retries() -> None:
    clock = Clock()

    class Hanging(Steered):
        def wait(self, timeout: float | None = None) -> bool:
            clock.now += 11
            return super().wait(timeout)

    syncer = Hanging(sync_timeout=10, clock=clock)
    syncer.sync_up("a", "s3://x")
    with pytest.raises(StoreError, match="failed 2 times") as caught:
        syncer.wait_or_retry(max_retries=2, backoff_s=0)
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert len(syncer.began) == 2


def test_a_sync_that_fails_and_hangs_succeeds_on_a_retry(steered: Steered) -> None:
    steered.let_end(RuntimeError("net down"), TimedOutError("it hung"), None)
    steered.sync_up("a", "s3://x")
    steered.wait_or_retry(max_retries=3, backoff_s=0)
    assert len(steered.began) == 3


def test_a_copy_of_a_running_syncer_is_not_running(source: Path) -> None:
    store = Slow()
    syncer = Remote(7, 9, attempts=2)
    syncer.sync_up(str(source), put_at(store))
    store.write_bytes()
    copy = pickle.loads(pickle.dumps(syncer))
    assert (copy.sync_period, copy.sync_timeout, copy.attempts) == (7, 9, 2)
    assert (copy.progress, copy.wait(0), syncer.wait(0)) == (None, True, False)
    syncer.cancel()
    syncer.close()


def test_a_pickled_copy_is_due_at_once(source: Path, url: str) -> None:
    with DefaultSyncer() as syncer:
        assert syncer.sync_up_if_needed(str(source), url)
    with pickle.loads(pickle.dumps(syncer)) as copy:
        assert not syncer.sync_up_if_needed(str(source), url)
        assert copy.sync_up_if_needed(str(source), url)


def test_files_that_vanish_during_a_sync_are_ignored(source: Path, tmp_path: Path) -> None:
    class Vanishing(MemoryStore):
        def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
            (source / "subdir/level1.txt").unlink(missing_ok=True)
            return super().sizes(prefix)

    where = put_at(Vanishing())
    with Remote() as syncer:
        syncer.sync_up(str(source), where)
        syncer.sync_down(where, str(tmp_path / "target"))
    assert read(tmp_path / "target").keys() == set(TREE) - {"subdir/level1.txt"}


def test_close_makes_the_last_sync_and_waits_for_it(source: Path) -> None:
    made: list[Request] = []

    class Counting(Remote):
        def carry_out(self, request: Request, options: TransferOptions) -> object:
            made.append(request)
            return super().carry_out(request, options)

    store, clock = MemoryStore(), Clock()
    where = put_at(store)
    syncer = Counting(sync_period=10_000, clock=clock)
    for iteration in range(10):
        (source / "result.json").write_text("x" * (iteration + 1))
        syncer.sync_up_if_needed(str(source), where)
        syncer.wait()
        clock.now += 1
    assert store.get("result.json") == b"x"
    syncer.sync_up(str(source), where)
    syncer.close()
    assert store.get("result.json") == b"x" * 10
    assert len(made) == 2


# Defects that must not come back.


class Slow(MemoryStore):
    """Takes a file's bytes one at a time, and notes each; goes on when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"slow://{uuid.uuid4().hex}"
        self.written: list[str] = []
        self.steps = threading.Semaphore(0)
        self.wrote = threading.Semaphore(0)
        self.is_free = False

    def put(self, key: str, data: Data) -> None:
        cancel = wanted()
        whole = b"".join(parts_of(data))
        for at in range(0 if self.is_free or key.startswith(OWN) else len(whole)):
            with cancel.calling(self.steps.release):
                self.steps.acquire()
            cancel.check()
            self.written.append(f"{key}:{at}")
            self.wrote.release()
        self.written.append(key)
        super().put(key, whole)

    def write_bytes(self, number: int = 1) -> None:
        """Let some bytes be written, and wait until they are."""
        self.steps.release(number)
        for _ in range(number):
            self.wrote.acquire()


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_nothing_is_written_after_a_timeout_or_a_cancel(tmp_path: Path, how: str) -> None:
    store, clock = Slow(), Clock()
    (tmp_path / "one").write_bytes(b"0123456789")
    syncer = Remote(sync_timeout=10, clock=clock)
    where = put_at(store)
    syncer.sync_up(str(tmp_path), where)
    store.write_bytes(3)
    before = list(store.written)
    assert before[-3:] == ["one:0", "one:1", "one:2"]
    if how == "cancel":
        syncer.cancel()
    clock.now += 10
    with pytest.raises(CancelledError if how == "cancel" else TimeoutError):
        syncer.wait()
    store.steps.release(1000)
    assert store.written == before
    assert not store.exists("one")
    store.is_free = True
    syncer.sync_up(str(tmp_path), where)
    syncer.close()
    assert store.get("one") == b"0123456789"


def test_two_syncers_do_not_write_to_one_target_at_once(tmp_path: Path) -> None:
    store = Slow()
    where = put_at(store)
    first, second = Remote(), Remote()
    for name, syncer in (("one", first), ("two", second)):
        syncer.sync_up(str(write(tmp_path / name, {"file": name.encode()})), where)
        if syncer is first:
            store.write_bytes()
    before = list(store.written)
    assert not second.wait(0.2)
    assert store.written == before
    store.steps.release(99)
    first.close()
    second.close()
    assert [key for key in store.written if key.endswith(("file", "file:0"))][:2] == ["file:0", "file"]
    assert store.get("file") == b"two"


def test_waiting_for_another_writer_can_be_cancelled(tmp_path: Path) -> None:
    store = Slow()
    where = put_at(store)
    (tmp_path / "file").write_text("one")
    clock = Clock()
    first, second = Remote(), Remote(sync_timeout=10, clock=clock)
    first.sync_up(str(tmp_path), where)
    store.write_bytes()
    for error in (TimeoutError, CancelledError):
        second.sync_up(str(tmp_path), where)
        if error is CancelledError:
            second.cancel()
        clock.now += 10
        with pytest.raises(error):
            second.wait()
    store.steps.release(99)
    first.close()
    assert store.get("file") == b"one"


def test_a_sync_works_without_new_threads(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Last(threading.Thread):
        def start(self) -> None:
            if self.name.startswith("nbckpt-sync-"):
                raise RuntimeError("can't create new thread at interpreter shutdown")
            super().start()

    monkeypatch.setattr(threading, "Thread", Last)
    where = put_at(MemoryStore())
    with Remote() as syncer:
        syncer.sync_up(str(source), where)
        syncer.sync_down(where, str(tmp_path / "target"))
    assert read(tmp_path / "target").keys() == set(TREE)


def test_a_timeout_ends_a_sync_that_nobody_waits_for(tmp_path: Path) -> None:
    store = Slow()
    (tmp_path / "one").write_bytes(b"0123456789")
    syncer = Remote(sync_timeout=0.05)
    syncer.sync_up(str(tmp_path), put_at(store))
    until(lambda: not syncer.status().running)
    with pytest.raises(TimeoutError, match=r"did not end within 0\.05 s"):
        syncer.close()
    assert not store.exists("one")


@pytest.mark.slow
def test_the_next_sync_waits_for_a_put_that_ignores_the_cancel(tmp_path: Path) -> None:
    goes_on, began, done = threading.Event(), threading.Event(), []
    puts = itertools.count(1)

    class Deaf(MemoryStore):
        def put(self, key: str, data: Data) -> None:
            number = next(puts) if key == "one" else 0
            if number == 1:
                began.set()
                goes_on.wait()
            with Cancel().covering():
                super().put(key, data)
            done.append((key, number))

    store = Deaf()
    store.url = f"deaf://{uuid.uuid4().hex}"
    where = put_at(store)
    (tmp_path / "one").write_bytes(b"1")
    syncer = Remote(sync_timeout=None)
    syncer.sync_up(str(tmp_path), where)
    began.wait()
    syncer.cancel()
    with pytest.raises(CancelledError):
        syncer.wait()
    syncer.sync_up(str(tmp_path), where)
    before = list(done)
    assert not syncer.wait(0.2)
    assert done == before
    goes_on.set()
    syncer.close()
    assert done[len(before)] == ("one", 1)
    assert done.index(("one", 1)) < done.index(("one", 2))


def test_a_late_end_does_not_change_the_next_result(steered: Steered) -> None:
    steered.sync_up("a", "s3://x")
    steered.next_has_begun()
    steered.clock.now += 10
    steered.sync_up("b", "s3://y")
    steered.next_has_begun()
    steered.let_go()
    with pytest.raises(TimeoutError, match="sync_up of 'a'"):
        steered.wait()
    assert steered.wait()
    assert [request.local for request in steered.began] == ["a", "b"]


def test_a_wait_of_zero_seconds_only_checks(steered: Steered) -> None:
    assert steered.wait(0) is True
    steered.sync_up("a", "s3://x")
    assert steered.wait(0) is False
    assert steered.wait(timeout=0) is False
    steered.let_go()
    assert steered.wait() is True


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(0), GeneratorExit(), ValueError()])
def test_any_exception_in_the_background_is_a_failure(steered: Steered, error: BaseException) -> None:
    steered.let_end(error)
    steered.sync_up_if_needed("a", "s3://x")
    with pytest.raises(StoreError, match=type(error).__name__) as caught:
        steered.wait()
    assert caught.value.__cause__ is error
    assert steered.last_sync_up_time == float("-inf")


def test_each_request_returns_a_bool() -> None:
    syncer = OldStyle(sync_period=60)
    assert [syncer.sync_up_if_needed("a", "u"), syncer.sync_up_if_needed("a", "u")] == [True, False]
    assert [syncer.sync_down_if_needed("u", "a"), syncer.sync_down_if_needed("u", "a")] == [True, False]
    with Steered() as other:
        other.let_go()
        assert other.delete("s3://x") is True


@pytest.mark.parametrize("kind", [OldStyle, NoInit])
def test_the_period_does_not_depend_on_the_wall_clock(
    monkeypatch: pytest.MonkeyPatch, kind: type[OldStyle]
) -> None:
    syncer = kind()
    assert syncer.sync_up_if_needed("a", "u")
    monkeypatch.setattr("time.time", lambda: 1e12)
    assert not syncer.sync_up_if_needed("a", "u")


def test_a_refused_or_failed_sync_does_not_count_for_the_period() -> None:
    syncer = OldStyle(sync_period=60)
    syncer.answer = False
    assert syncer.sync_up_if_needed("a", "u") is False
    syncer.answer = True
    assert syncer.sync_up_if_needed("a", "u") is True
    assert len(syncer.calls) == 2


def test_a_failed_background_sync_is_retried_with_growing_delays(steered: Steered) -> None:
    steered.errors = [RuntimeError(str(n)) for n in range(3)]
    waits = []
    assert steered.sync_up_if_needed("a", "s3://x") is True
    for _ in range(3):
        steered.let_go()
        with pytest.raises(StoreError):
            steered.wait()
        failed_at = steered.clock.now
        while not steered.sync_up_if_needed("a", "s3://x"):
            steered.clock.now += 0.5
        waits.append(steered.clock.now - failed_at)
    assert 0 < waits[0] < waits[2] <= 60
    steered.let_go()
    assert steered.wait()
    assert steered.last_sync_up_time == steered.clock.now
    steered.clock.now += 59
    assert steered.sync_up_if_needed("a", "s3://x") is False


def test_reset_makes_upload_and_download_due(steered: Steered) -> None:
    steered.let_end(RuntimeError("net down"), None)
    steered.sync_up_if_needed("a", "s3://x")
    with pytest.raises(StoreError):
        steered.wait()
    steered.reset()
    assert steered.sync_up_if_needed("a", "s3://x") is True
    steered.wait()
    assert steered.sync_up_if_needed("a", "s3://x") is False


def test_repeated_requests_during_a_sync_run_once_afterwards(steered: Steered) -> None:
    steered.sync_up("a", "s3://x")
    steered.next_has_begun()
    for _ in range(5):
        assert steered.sync_up("a", "s3://x/") is False
        assert steered.sync_up("b", "s3://y", exclude=["*.tmp"]) is False
    assert steered.delete("s3://x") is False
    assert steered.sync_up("a", "s3://x") is False
    steered.let_go(9)
    steered.close()
    assert [(request.action, request.local or request.remote) for request in steered.began] == [
        ("sync_up", "a"),
        ("sync_up", "a"),
        ("sync_up", "b"),
        ("delete", "s3://x"),
        ("sync_up", "a"),
    ]


@given(st.lists(st.tuples(st.sampled_from("ude"), st.sampled_from("ab"), st.sampled_from("xy")), max_size=8))
@settings(max_examples=60)
def test_joined_requests_have_the_same_outcome(asked: list[tuple[str, str, str]]) -> None:
    syncer = Steered()
    syncer.delete("first")
    syncer.next_has_begun()
    for action, local, remote in asked:
        if action == "u":
            syncer.sync_up(local, remote)
        elif action == "d":
            syncer.sync_down(remote, local)
        else:
            syncer.delete(remote)
    syncer.let_go(99)
    syncer.close()
    names = {"u": "sync_up", "d": "sync_down", "e": "delete"}
    wanted = [Request(names[action], local, remote) for action, local, remote in asked]
    assert outcome(syncer.began[1:]) == outcome(wanted)


def outcome(requests: Any) -> dict[str, set[str]]:
    """Return what each place holds after the requests, where a and b hold something of their own."""
    places: dict[str, set[str]] = {"a": {"a"}, "b": {"b"}, "x": set(), "y": set()}
    for request in requests:
        if request.action == "sync_up":
            places[request.remote] |= places[request.local]
        elif request.action == "sync_down":
            places[request.local] |= places[request.remote]
        else:
            places[request.remote] = set()
    return places


NAMES = st.sampled_from(["a", "b.tmp", "c_exclude", "checkpoint_tmp1", "d e", "ä"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
SOME = ["*", "*.tmp", "*_exclude*", "a", "a/*", "*/a", "./checkpoint_tmp*", "d e/", "[ab]*", "ä"]
PATTERNS = st.lists(st.sampled_from(SOME), max_size=2)


@pytest.mark.slow
@given(st.sets(PATHS, min_size=1, max_size=6), PATTERNS)
@settings(max_examples=25)
def test_a_pattern_means_the_same_up_down_and_in_a_retry(paths: set[str], patterns: list[str]) -> None:
    paths = {path for path in paths if not any(other.startswith(f"{path}/") for other in paths)}
    clean = [pattern.removeprefix("./").removesuffix("/") for pattern in patterns]
    expected = sorted(
        path
        for path in paths
        if not any(
            fnmatchcase(str(at), pattern)
            for pattern in clean
            for at in (path, *PurePosixPath(path).parents[:-1])
        )
    )
    with TemporaryDirectory() as folder:
        source = write(Path(folder, "source"), dict.fromkeys(paths, b"x"))
        up, whole = MemoryStore(), MemoryStore()
        with Remote(attempts=1) as syncer:
            syncer.sync_up(str(source), put_at(whole))
            syncer.sync_up(str(source), put_at(up), patterns)
            flaky = FaultyStore(MemoryStore(), fail_at=1, when=lambda call: call.op in {"put", "keys"})
            syncer.sync_up(str(source), put_at(flaky), patterns)
            fail_and_retry(syncer)
            down = FaultyStore(whole, fail_at=1, when=lambda call: call.op == "get")
            syncer.sync_down(put_at(down), str(Path(folder, "retried")), patterns)
            fail_and_retry(syncer)
        routes = [list(plain(up)), list(plain(flaky.store)), sorted(read(Path(folder, "retried")))]
    assert routes == [expected] * 3


def fail_and_retry(syncer: Remote) -> None:
    with pytest.raises(StoreError):
        syncer.wait()
    syncer.retry()
    syncer.wait()


def test_a_single_string_is_refused_as_patterns() -> None:
    with pytest.raises(UsageError, match=r"write exclude=\['\*.tmp'\]"):
        DefaultSyncer().sync_up("a", "memory://x", exclude="*.tmp")


def test_unchanged_files_are_not_sent_again(source: Path) -> None:
    for path in source.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    store = RecordingStore(MemoryStore())
    where = put_at(store)
    with Remote() as syncer:
        syncer.sync_up(str(source), where)
        syncer.wait()
        before = len(store.changes)
        syncer.sync_up(str(source), where)
        syncer.sync_up(str(source), where, exclude=["level*"])
    assert len(store.changes) == before


@pytest.mark.parametrize("mirrors", [False, True])
def test_missing_source_files_are_deleted_only_on_request(
    source: Path, tmp_path: Path, mirrors: bool
) -> None:
    where = put_at(MemoryStore())
    with Remote(delete_missing=mirrors) as syncer:
        syncer.sync_up(str(source), where)
        syncer.wait()
        (source / "level0.txt").unlink()
        syncer.sync_up(str(source), where)
        syncer.sync_down(where, str(tmp_path / "target"))
    assert (tmp_path / "target/level0.txt").exists() is not mirrors


def test_the_last_retry_raises_the_count_and_the_cause_at_once(slept: list[float]) -> None:
    syncer = Failing()
    syncer.errors = [RuntimeError(f"net down {n}") for n in range(9)]
    state = random.getstate()
    with pytest.raises(StoreError, match=r"failed 3 times; the last time: net down 2") as caught:
        syncer.wait_or_retry(max_retries=3, backoff_s=4)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert random.getstate() == state
    assert syncer.calls == ["wait", "retry", "wait", "retry", "wait"]
    assert len(slept) == 2
    assert 4 < slept[0] < 8 < slept[1] < 12


@pytest.mark.parametrize("tries", [1, 2])
def test_a_success_at_the_last_attempt_counts(tries: int) -> None:
    syncer = Failing()
    syncer.errors = [RuntimeError("net down") for _ in range(tries - 1)]
    syncer.wait_or_retry(max_retries=tries)
    assert syncer.calls.count("wait") == tries


@pytest.mark.parametrize("options", [{"max_retries": 0}, {"max_retries": -1}, {"backoff_s": -1}])
def test_invalid_numbers_of_retries_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="="):
        Failing().wait_or_retry(**options)


@pytest.mark.parametrize(
    "error", [NotFoundError("nothing there"), UsageError("no such protocol"), CancelledError("unwanted")]
)
def test_an_error_that_no_retry_can_mend_is_raised_at_once(error: Exception) -> None:
    syncer = Failing()
    syncer.errors = [error]
    with pytest.raises(type(error)):
        syncer.wait_or_retry()
    assert syncer.calls == ["wait"]


def test_a_retry_repeats_only_the_failed_calls(steered: Steered) -> None:
    steered.let_end(None, RuntimeError("net down"), None, None)
    steered.sync_up("a", "s3://a")
    steered.delete("s3://b")
    steered.sync_up("c", "s3://c")
    with pytest.raises(StoreError, match="delete of 's3://b'"):
        steered.wait()
    steered.retry()
    steered.wait()
    assert [(request.action, request.remote) for request in steered.began[3:]] == [("delete", "s3://b")]


@pytest.mark.parametrize("is_told", [True, False])
def test_a_retried_delete_keeps_files_that_were_sent_later(steered: Steered, is_told: bool) -> None:
    steered.delete("s3://a")
    steered.next_has_begun()
    steered.sync_up("a", "s3://a")
    steered.let_end(RuntimeError("net down"), None, None)
    until(lambda: not steered.status().running)
    if is_told:
        with pytest.raises(StoreError, match="delete of 's3://a'"):
            steered.wait()
        assert steered.status().failures == ()
    steered.retry()
    until(lambda: not steered.status().running)
    assert [request.action for request in steered.began] == ["delete", "sync_up", "sync_up"]
    if not is_told:
        with pytest.raises(StoreError, match="delete of 's3://a'"):
            steered.close()


def test_a_retry_without_waiting_starts_no_second_thread(steered: Steered) -> None:
    steered.sync_up("a", "s3://a")
    steered.next_has_begun()
    for _ in range(3):
        steered.retry()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("nbckpt")] == [
        "nbckpt-syncer"
    ]
    steered.let_go(2)
    steered.wait()
    assert len(steered.began) == 2


def test_there_must_be_something_to_retry() -> None:
    with pytest.raises(UsageError, match="nothing to retry"):
        DefaultSyncer().retry()


def test_a_failed_delete_is_raised_at_close(source: Path, url: str) -> None:
    syncer = Remote(attempts=1)
    store = MemoryStore()
    syncer.sync_up(str(source), put_at(store))
    syncer.delete(put_at(FaultyStore(store, when=lambda call: call.op == "delete")))
    with pytest.raises(StoreError, match="as the test asked"):
        syncer.close()


def test_a_syncer_shows_itself_in_both_forms(steered: Steered) -> None:
    steered.let_end(RuntimeError("<b>net down"))
    steered.sync_up("a", "s3://x")
    with pytest.raises(StoreError):
        steered.wait()
    steered.sync_up("b", "s3://y")
    steered.delete("s3://z")
    bundle = steered._repr_mimebundle_()
    for said in ("Steered: sync_up of 'b'", "then: delete of 's3://z'", "net down", "60 s", "10 s"):
        assert said in bundle["text/plain"]
    assert "&lt;b&gt;net down" in bundle["text/html"]
    assert repr(steered) == "Steered(sync_period=60)"
    assert "OldStyle: nothing to do" in OldStyle()._repr_mimebundle_()["text/plain"]


# The interface.


def test_a_synchronous_syncer_works_with_only_its_import_changed() -> None:
    with OldStyle(60) as syncer:
        assert syncer.sync_up("a", "u", ["x"])
        assert syncer.sync_up_if_needed("a", "u", exclude=["x"])
        assert syncer.sync_down_if_needed("u", "b")
        assert syncer.wait() is None
        assert syncer.retry() is None
        syncer.wait_or_retry()
        syncer.reset()
        assert syncer.sync_up_if_needed("a", "u")
    assert syncer.calls == [
        ("up", "a", "u", ["x"]),
        ("up", "a", "u", ["x"]),
        ("down", "u", "b", None),
        ("up", "a", "u", None),
    ]
    assert pickle.loads(pickle.dumps(syncer)).calls == syncer.calls


def test_a_syncer_without_retry_raises_not_implemented() -> None:
    class Once(Failing):
        def retry(self) -> None:
            raise NotImplementedError

    syncer = Once()
    syncer.errors = [RuntimeError("net down")]
    with pytest.raises(NotImplementedError):
        syncer.wait_or_retry(backoff_s=0)


def test_a_syncer_must_define_three_methods() -> None:
    assert nbckpt.sync.Syncer.__abstractmethods__ == {"sync_up", "sync_down", "delete"}


# Failures are heard of.


def test_an_unawaited_failure_is_raised_once_at_close(steered: Steered) -> None:
    steered.let_end(RuntimeError("net down"))
    steered.sync_up("a", "s3://x")
    with pytest.raises(StoreError, match="net down"):
        steered.close()
    steered.close()


def test_several_failures_are_raised_together(steered: Steered) -> None:
    steered.let_end(RuntimeError("first"), RuntimeError("second"))
    steered.sync_up("a", "s3://x")
    steered.sync_up("b", "s3://y")
    with pytest.raises(StoreError, match=r"2 syncs failed: .*first.*; .*second"):
        steered.close()


def test_a_later_success_clears_a_failure(steered: Steered) -> None:
    steered.let_end(RuntimeError("net down"), None)
    steered.sync_up("a", "s3://x")
    steered.next_has_begun()
    steered.sync_up("a", "s3://x")
    steered.close()
    assert steered.status().failures == ()


def test_a_cancelled_sync_raises_in_wait_but_not_in_close(steered: Steered) -> None:
    for call in (steered.wait, steered.close):
        steered.sync_up("a", "s3://x")
        steered.sync_up("b", "s3://y")
        steered.cancel()
        if call == steered.wait:
            with pytest.raises(StoreError, match="cancelled"):
                call()
        else:
            call()
    assert all(request.local == "a" for request in steered.began)


def test_progress_and_status_are_available_as_data(source: Path) -> None:
    store, seen = MemoryStore(), []

    class Watched(Remote):
        def carry_out(self, request: Request, options: TransferOptions) -> object:
            done = super().carry_out(request, options)
            seen.append((self.progress, str(self.status())))
            return done

    with Watched() as syncer:
        assert syncer.progress is None
        syncer.sync_up(str(source), put_at(store))
    progress, said = seen[0]
    assert progress is not None
    assert (progress.files, progress.files_done) == (len(TREE), len(TREE))
    assert progress.size == progress.done == sum(map(len, TREE))
    assert f"{len(TREE)} of {len(TREE)} files" in said


# The end of the interpreter.

SCRIPT = """
import sys, threading
from nbckpt.sync import DefaultSyncer
ending = threading.Event()
class Late(DefaultSyncer):
    def carry_out(self, request, terms):
        ending.wait()
        {does}
syncer = Late()
syncer.sync_up(sys.argv[1], sys.argv[2])
threading._register_atexit(ending.set)  # called before those that were registered before
"""


def at_the_end(does: str, source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    quiet = "import logging; logging.getLogger('nbckpt').setLevel(logging.ERROR)"  # a machine may be slow
    command = [sys.executable, "-c", quiet + SCRIPT.format(does=does), str(source), str(target)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_interpreter_waits_for_the_last_sync_at_exit(source: Path, tmp_path: Path) -> None:
    done = at_the_end("return super().carry_out(request, terms)", source, tmp_path / "target")
    assert (done.returncode, done.stderr) == (0, "")
    assert read(tmp_path / "target").keys() >= set(TREE)


def test_trials_end_before_the_last_syncs_at_exit() -> None:
    """The order of the registrations does not matter. All work runs twice, see `before_the_end`."""
    script = (
        "from nbckpt.sync.shutdown import before_the_end\n"
        "before_the_end(lambda: print('syncs'))\nbefore_the_end(lambda: print('trials'), first=True)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["trials", "syncs"] * 2


def test_a_failure_at_interpreter_exit_is_logged(source: Path, tmp_path: Path) -> None:
    done = at_the_end("raise RuntimeError('net down')", source, tmp_path / "target")
    assert "failed: RuntimeError: net down" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on Windows")
def test_a_fork_does_not_wait_for_syncs_of_its_parent(steered: Steered) -> None:
    steered.sync_up("a", "s3://x")
    steered.next_has_begun()
    steered.sync_up("b", "s3://y")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads is what this is about
        child = os.fork()
    if child == 0:
        code = 1
        try:
            engine.flush()
            steered.let_go()
            if steered.wait() and steered.sync_up("c", "s3://z") and steered.wait():
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert steered.wait(0) is False


@pytest.mark.slow
def test_an_interrupt_ends_the_wait_at_interpreter_exit(source: Path, tmp_path: Path) -> None:
    script = SCRIPT.format(does="terms.cancel.event.wait(); terms.cancel.check()")
    command = [sys.executable, "-c", script, str(source), str(tmp_path / "target")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "an interrupt gives it up" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert "was given up" in process.stderr.read()
