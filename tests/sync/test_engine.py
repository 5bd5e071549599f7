"""The engine: requests in the background, once or again and again."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from nbckpt.sync.backoff import backoff
from nbckpt.sync.engine import Engine, Job
from nbckpt.sync.request import Request
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
