"""Interrupts and failures in the middle of a way: all of it happens and is noted, or nothing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any
from unittest.mock import patch

import pytest

from nbckpt.core.interrupts import uninterrupted
from nbckpt.core.values import classes
from nbckpt.errors import StoreError
from nbckpt.timeline import arrival, timeline
from nbckpt.timeline.timeline import Timeline
from nbckpt.tracker.binding import Binder
from tests.timeline.test_timeline import Kernel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a process cannot interrupt itself there")


@pytest.fixture
def kernel() -> Kernel:
    """A kernel with a point of each of two states."""
    kernel = Kernel()
    kernel.run("a = [1]", "a.append(2)")
    return kernel


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    ("owner", "step"),
    [(arrival, "apply"), (Binder, "bind"), (arrival, "_held"), (Timeline, "_count_from_here")],
)
def test_an_undo_that_is_interrupted_is_done(kernel: Kernel, owner: Any, step: str) -> None:
    work = getattr(owner, step)

    def interrupted(*given: Any, **named: Any) -> Any:
        interrupt()
        return work(*given, **named)

    with patch.object(owner, step, interrupted), pytest.raises(KeyboardInterrupt):
        kernel.undo()
    assert kernel.names["a"] == [1]
    assert kernel.redone()["a"] == [1, 2]


def test_an_interrupt_as_a_class_goes_back_comes_afterwards(kernel: Kernel) -> None:
    kernel.run("class C:\n    v = 1", "C.v = 2; a.append(3)")
    with patch.object(classes, "intern_texts", lambda _: interrupt()), pytest.raises(KeyboardInterrupt):
        kernel.undo()
    assert (kernel.names["C"].v, kernel.names["a"]) == (1, [1, 2])
    kernel.redo()
    assert (kernel.names["C"].v, kernel.names["a"]) == (2, [1, 2, 3])


def test_an_undo_that_fails_leaves_the_way_back(kernel: Kernel) -> None:
    here = kernel.timeline.here
    assert here is not None
    kernel.timeline.checkout(here.manifest.parent, {})

    failing = StoreError("the store does not answer")
    with patch.object(timeline, "arrive", side_effect=failing), pytest.raises(StoreError):
        kernel.undo()
    assert kernel.names["a"] == [1]
    assert kernel.undone()["a"] == [1, 2]


def test_a_second_interrupt_does_not_wait() -> None:
    done = []

    @uninterrupted()
    def work() -> None:
        interrupt()
        done.append(1)
        interrupt()
        done.append(2)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_have_no_interrupts_to_hold_off() -> None:
    handlers = []

    def look() -> None:
        with uninterrupted():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
