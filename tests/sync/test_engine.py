"""The engine: requests in the background, once or repeatedly, and their progress, which only grows."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest
from sync.trees import write

from nbckpt.errors import StoreError
from nbckpt.store import MemoryStore
from nbckpt.sync.backoff import backoff
from nbckpt.sync.download import download
from nbckpt.sync.engine import Engine, Job
from nbckpt.sync.progress import Progress, ProgressTracker
from nbckpt.sync.request import Request
from nbckpt.sync.transfer import TransferOptions
from nbckpt.sync.upload import upload
from nbckpt.testing import FaultyStore
from waiting import until

PUSH = Request("sync_up", "here", "s3://there")


class Repeating:
    """An engine that repeats a request, and counts how often it was carried out."""

    def __init__(self, pause: float) -> None:
        self.count = 0
        self.pause = pause
        self.engine = Engine(self.carry_out, name="nbckpt-sync-test")

    def begin(self) -> bool:
        return self.engine.repeat(PUSH, lambda: self.pause)

    def carry_out(self, job: Job) -> None:
        self.count += 1


@pytest.fixture
def repeating() -> Iterator[Repeating]:
    made = Repeating(1e12)  # more seconds than a lock can wait
    yield made
    made.engine.end(last=False)
    assert made.engine.wait()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "nbckpt-sync-test"]


def test_a_repeated_request_is_carried_out_at_once(repeating: Repeating) -> None:
    assert repeating.begin()
    assert repeating.engine.wait()
    assert repeating.count == 1


def test_a_request_is_repeated_after_each_pause() -> None:
    often = Repeating(0.001)
    often.begin()
    until(lambda: often.count > 3)
    often.engine.end(last=False)
    assert often.engine.wait()


def test_a_repeated_request_can_be_brought_forward(repeating: Repeating) -> None:
    repeating.begin()
    for count in range(2, 5):
        assert repeating.engine.wait()
        repeating.engine.again()
        assert repeating.engine.wait()
        assert repeating.count == count
    assert threads() == ["nbckpt-sync-test"]


def test_the_last_request_is_carried_out_before_the_end(repeating: Repeating) -> None:
    repeating.begin()
    assert repeating.engine.wait()
    repeating.engine.end(last=True)
    assert repeating.engine.wait()
    assert (repeating.count, threads(), repeating.engine.is_serving) == (2, [], False)
    repeating.engine.again()
    assert repeating.engine.wait()
    assert repeating.count == 2


def test_a_request_after_the_end_is_carried_out_once(repeating: Repeating) -> None:
    repeating.begin()
    assert repeating.engine.wait()
    repeating.engine.end(last=False)
    repeating.engine.raise_failures()
    assert repeating.engine.ask(PUSH)
    assert repeating.engine.wait()
    assert (repeating.count, threads()) == (2, [])


def test_nothing_is_repeated_if_no_thread_can_start(
    repeating: Repeating, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("no new thread")))
    assert not repeating.begin()
    assert repeating.engine.wait()
    assert repeating.count == 0
    assert repeating.engine.ask(PUSH)
    assert repeating.count == 1


def test_a_job_that_ignores_its_timeout_is_cancelled_by_a_wait() -> None:
    now = 0.0

    def carry_out(job: Job) -> None:
        nonlocal now
        now = 10.0
        job.cancel.event.wait()
        job.cancel.check()

    engine = Engine(carry_out, clock=lambda: now, timeout=10)
    engine.ask(PUSH)
    assert engine.wait()
    with pytest.raises(TimeoutError, match="did not end within 10 s"):
        engine.raise_failures()


def test_pauses_grow_with_the_failures_up_to_a_limit() -> None:
    state = random.getstate()
    assert 2.5 <= backoff(0, 300) <= 5
    assert random.getstate() == state  # that of the user
    assert 10 <= backoff(2, 300) <= 20
    assert 15 <= backoff(1_000_000, 30) <= 30


def test_a_request_names_its_target_without_the_password() -> None:
    for action in ("sync_up", "sync_down", "delete"):
        assert "me:***@host" in str(Request(action, "here", "sftp://me:secret@host/x"))


def test_a_slow_last_job_is_waited_for_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, said, ended = threading.Event(), [], []
    log = logging.getLogger("nbckpt")
    monkeypatch.setattr(log, "error", lambda *words: said.append(words))
    monkeypatch.setattr(log, "warning", lambda *_: gate.set())  # it has begun to wait
    engine = Engine(lambda _: gate.wait(), at_end=lambda: ended.append(True))
    engine.repeat(PUSH, lambda: math.inf)
    engine.finish(time.monotonic() - 1e6, silent=0.01)
    assert (said, ended) == ([], [True])


def test_rate_and_time_left_are_known_after_the_first_bytes() -> None:
    assert (Progress().rate, Progress().seconds_left) == (0.0, None)
    assert str(Progress(files=2, size=100)) == "0 of 2 files, 0 bytes of 100 bytes, 0 bytes/s"
    halfway = Progress(files=2, files_done=1, size=100, done=25, seconds=5.0)
    assert (halfway.rate, halfway.seconds_left) == (5.0, 15.0)


def test_files_and_bytes_of_all_threads_add_up() -> None:
    now, steps = iter(range(10_000)), list[Progress]()
    meter = ProgressTracker(steps.append, clock=lambda: float(next(now)))
    meter.plan(100, 1000)
    met = threading.Barrier(4, timeout=30)

    def move(n: int) -> None:
        if n < 4:
            met.wait()
        with meter.file(f"{n}") as moved:
            for _ in range(10):
                moved(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(move, range(100)))
    end = meter.now
    assert (end.files, end.files_done, end.size, end.done) == (100, 100, 1000, 1000)
    for before, after in pairwise(steps):
        assert before.done <= after.done
        assert before.files_done <= after.files_done
        assert before.seconds < after.seconds


def test_a_failed_transfer_does_not_count() -> None:
    meter = ProgressTracker()
    meter.plan(1, 10)
    with suppress(StoreError), meter.file("a") as moved:
        moved(7)
        raise StoreError("cut")
    assert (meter.now.done, meter.now.files_done, meter.now.current) == (0, 0, "a")


def test_progress_ends_complete_after_any_retries(tmp_path: Path) -> None:
    files = {f"{n}": b"x" * n for n in range(20)}
    folder = write(tmp_path / "folder", files | {"big": b"x" * (40 << 20), "gone": b"x"})
    store, size = MemoryStore(), 190 + (40 << 20)
    failing = {"3", "big"}

    def fails_once(call: object) -> bool:
        key = getattr(call, "key", "")
        if key == "0":
            (folder / "gone").unlink(missing_ok=True)
        return key in failing and (failing.remove(key) is None)

    steps, got = list[Progress](), list[Progress]()
    faulty = FaultyStore(store, when=fails_once, halfway=True)
    sent = upload(folder, faulty, options=TransferOptions(backoff_s=0, on_progress=steps.append))
    failing = {"3", "big"}
    download(faulty, tmp_path / "other", options=TransferOptions(backoff_s=0, on_progress=got.append))
    assert failing == set()
    assert (steps[-1].files, steps[-1].files_done) == (sent.files, sent.files)
    for end in (steps[-1], got[-1]):
        assert end.files == end.files_done
        assert end.size == end.done >= size
        assert end.seconds_left == 0
    done = [step.done for step in steps]
    assert any(0 < size % (16 << 20) < 200 and size > 1 << 20 for size in done)  # within a large file
