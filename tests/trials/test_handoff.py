"""The handoff: threads that take turns, without a poll, and without losing anything to an interrupt."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nbckpt.trials import CheckpointFolder, FunctionRunner, StatusReporter
from nbckpt.trials.model.metrics import Result
from nbckpt.trials.training import handoff as module
from nbckpt.trials.training.handoff import Handoff
from nbckpt.trials.training.session import StopTrial
from nbckpt.trials.training.stager import CheckpointStager


def reporter_of(handoff: Handoff) -> StatusReporter:
    return StatusReporter(CheckpointStager(CheckpointFolder("no checkpoint")), handoff)


def asked(handoff: Handoff) -> int | None:
    """Return the number in the next result, or None at the end."""
    result = handoff.ask()
    return result.metrics["i"] if result is not None and result.metrics else None


def last() -> Result:
    return Result({}, done=True)


@contextmanager
def giving(handoff: Handoff, count: int) -> Iterator[list[int]]:
    """Run a function's thread that reports so many results; yield those for which the report returned."""
    returned: list[int] = []
    report = reporter_of(handoff)

    def function() -> None:
        for i in range(count):
            report(i=i)
            returned.append(i)
        handoff.close(last)

    thread = threading.Thread(target=function)
    thread.start()
    yield returned
    handoff.end()
    thread.join()


def test_results_come_in_order_and_the_function_waits_for_asks() -> None:
    handoff = Handoff()
    with giving(handoff, 3) as returned:
        for i in range(3):
            assert asked(handoff) == i
            assert returned == list(range(i))
        assert [handoff.ask() for _ in range(3)] == [last(), None, None]


def test_asking_an_ended_handoff_answers_at_once() -> None:
    handoff = Handoff()
    handoff.end()
    assert handoff.ask() is None


def test_no_wait_in_the_handoff_has_a_timeout() -> None:
    parts = (module, FunctionRunner.next_result, FunctionRunner.train, FunctionRunner._run)
    source = "".join(map(inspect.getsource, parts))
    assert not [word for word in ("timeout", "sleep", "Timer", "wait(") if word in source]


def test_every_wait_is_on_a_lock_that_the_other_side_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[tuple[Any, ...]] = []

    class Lock:
        def __init__(self) -> None:
            self._lock = real()

        def acquire(self, *given: Any) -> bool:
            waits.append(given)
            return self._lock.acquire()

        def release(self) -> None:
            self._lock.release()

    real = threading.Lock
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Lock", Lock)
        handoff = Handoff()
    with giving(handoff, 50):
        assert [asked(handoff) for _ in range(51)] == [*range(50), None]
    assert set(waits) == {()}
    assert len(waits) <= 4 * 50 + 8


def test_an_ask_interrupted_at_any_line_loses_no_result() -> None:
    handoff = Handoff()
    lines = len(inspect.getsource(Handoff.ask).splitlines())
    got = []
    with giving(handoff, 100):
        for at in range(1, lines):
            for _ in range(3):
                with interrupted(at):
                    got.append(asked(handoff))
        while (i := asked(handoff)) is not None:
            got.append(i)
    assert got == list(range(100))


@contextmanager
def interrupted(at: int) -> Iterator[None]:
    """Raise KeyboardInterrupt before the line number *at* that `ask` comes to, except for the last."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code is not Handoff.ask.__code__:
            return None
        if event == "line":
            count += 1
            # Between the last two statements Python looks for no signal.
            if count == at and "return" not in lines[frame.f_lineno - first]:
                raise KeyboardInterrupt
        return trace

    source, first = inspect.getsourcelines(Handoff.ask)
    lines = dict(enumerate(source))
    former = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(former)


def test_an_end_releases_every_waiting_thread() -> None:
    handoff = Handoff()
    report = reporter_of(handoff)
    left = []

    def function() -> None:
        try:
            while True:
                report()
        except StopTrial:
            left.append(1)

    threads = [threading.Thread(target=function) for _ in range(5)]
    for thread in threads:
        thread.start()
    handoff.ask()
    handoff.end()
    for thread in threads:
        thread.join()
    assert len(left) == 5
    with pytest.raises(StopTrial):
        report()


def test_threads_that_give_results_together_lose_none() -> None:
    handoff = Handoff()
    report = reporter_of(handoff)

    def function(k: int) -> None:
        with suppress(StopTrial):  # the last report of all is answered by the end
            for i in range(100):
                report(k=k, i=i)

    threads = [threading.Thread(target=function, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    got = [result.metrics for result in (handoff.ask() for _ in range(300)) if result is not None]
    handoff.end()
    for thread in threads:
        thread.join()
    for k in range(3):
        assert [result["i"] for result in got if result["k"] == k] == list(range(100))


class Turns(RuleBasedStateMachine):
    """Any order of asks, of interrupted asks and of an end, beside a function that ends at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.handoff = Handoff()
        self.report = reporter_of(self.handoff)
        self.length = 6
        self.given: list[int] = []
        self.stopped = self.over = False
        self.asked = 0
        self.thread = threading.Thread(target=self.function)
        self.thread.start()

    def function(self) -> None:
        try:
            for i in range(self.length):
                self.given.append(i)
                self.report(i=i)
        except StopTrial:
            self.stopped = True
        self.handoff.close(last if self.stopped else ValueError("the end"))

    @rule()
    def ask(self) -> None:
        i = asked(self.handoff)
        if self.over or self.asked >= self.length:
            assert i is None or i == self.asked
        else:
            assert i == self.asked
        self.asked += i is not None

    @precondition(lambda self: not self.over)
    @rule()
    def ask_but_be_interrupted(self) -> None:
        with interrupted(2):
            self.asked += asked(self.handoff) is not None

    @rule()
    def end(self) -> None:
        self.handoff.end()
        self.thread.join()
        self.over = True

    @invariant()
    def the_function_is_never_more_than_one_result_ahead(self) -> None:
        assert len(self.given) <= self.asked + 2

    def teardown(self) -> None:
        self.handoff.end()
        self.thread.join()
        assert self.stopped or isinstance(self.handoff.error, ValueError) or self.over


TestTurns = Turns.TestCase
TestTurns.settings = settings(max_examples=30, stateful_step_count=15)
