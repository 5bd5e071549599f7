"""Pools: their threads do all that is asked, and the end of the interpreter does not wait for them."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from nbckpt.core.packs.pools import Pool

HANGS = """
import threading
from nbckpt.core.packs.pools import Pool
begun = threading.Event()
def hangs():
    begun.set()
    threading.Event().wait()
Pool(2, "nbckpt-write").submit(hangs)
begun.wait()
print("the end")
"""


def test_a_pool_returns_results_and_raises_errors() -> None:
    with Pool(2, "nbckpt-check") as pool:
        results = [pool.submit(divmod, 7, number) for number in (2, 0, 3)]
    assert (results[0].result(), results[2].result()) == ((3, 1), (2, 1))
    with pytest.raises(ZeroDivisionError):
        results[1].result()


def test_a_pool_works_with_as_many_threads_as_it_may() -> None:
    together = threading.Barrier(3)
    with Pool(3, "nbckpt-check") as pool:
        places = [pool.submit(together.wait, 60) for _ in range(3)]
        assert sorted(place.result(60) for place in places) == [0, 1, 2]


def test_a_pool_has_no_more_threads_than_it_may() -> None:
    with Pool(2, "nbckpt-check") as pool:
        names = {pool.submit(lambda: threading.current_thread().name).result() for _ in range(50)}
    assert names <= {"nbckpt-check_0", "nbckpt-check_1"}


def test_a_pool_that_was_shut_down_takes_nothing() -> None:
    pool, begun, gate = Pool(1, "nbckpt-check"), threading.Event(), threading.Event()
    first, second = pool.submit(lambda: begun.set() or gate.wait(60)), pool.submit(print)
    assert begun.wait(60)
    pool.shutdown(wait=False, cancel_futures=True)
    gate.set()
    assert first.result(60)
    assert second.cancelled()
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(print)


def test_the_interpreter_ends_while_a_pool_hangs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "the end\n"
