"""How far a trial that runs is, and how long it still takes."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbckpt
from nbckpt.trials.views.eta import Progress, left_in_all, progress, typical

AT_TWO_S = [2.0] * 10


def told(
    stop: Any = None, usual: int | None = None, *, iteration: int = 12, times: Any = AT_TWO_S
) -> tuple[str, str]:
    estimate = progress(times, iteration, 24.0, stop, usual)
    return str(estimate), estimate.eta


def test_progress_shows_the_end_that_comes_first(subtests: pytest.Subtests) -> None:
    for stop, usual, said in [
        ({"training_iteration": 40}, None, ("12/40", "56 s")),
        ({"training_iteration": 39.5, "loss": 1}, None, ("12/40", "56 s")),
        ({"training_iteration": 40}, 30, ("12/~30", "~36 s")),
        ({"training_iteration": 40}, 50, ("12/40", "56 s")),
        ({"training_iteration": 7}, None, ("12", "")),
        ({"training_iteration": math.inf}, None, ("12", "")),
        (144, None, ("12/~72", "2 min")),
        ({"time_total_s": 144}, None, ("12/~72", "2 min")),
        ({"time_total_s": 144, "training_iteration": 40}, None, ("12/40", "56 s")),
        ({"time_total_s": 44, "training_iteration": 40}, None, ("12/~22", "20 s")),
        (20, None, ("12/~12", "1 s")),
        (None, 40, ("12/~40", "~56 s")),
        (None, 12, ("12/~12", "~1 s")),
        (None, 11, ("12", "")),
        (None, None, ("12", "")),
        ({"loss": 3}, None, ("12", "")),
        (lambda name, result: True, 3000, ("12/~3000", "~1 h 40 min")),
        (lambda name, result: True, 300_000, ("12/~300000", "~6 d 23 h")),
    ]:
        with subtests.test(stop=stop, usual=usual):
            assert told(stop, usual) == said


def test_without_times_only_a_time_limit_has_an_eta(subtests: pytest.Subtests) -> None:
    for times in [[], ["soon"], [math.nan], [None]]:
        with subtests.test(times=times):
            assert told({"training_iteration": 40}, times=times) == ("12/40", "")
            assert told(None, 40, times=times) == ("12/~40", "")
            assert told(144, times=times) == ("12", "2 min")
    assert (str(Progress(3)), Progress(3).eta) == ("3", "")
    assert progress([], 0, 0.0, None, None) == Progress(0)


numbers = st.floats() | st.integers() | st.just("text") | st.none()
counts = st.integers(0, 1 << 40)
metrics = st.dictionaries(st.sampled_from(["training_iteration", "time_total_s"]), numbers)


@pytest.mark.slow
@given(st.lists(numbers, max_size=12), counts, st.floats(), numbers | metrics, st.none() | counts)
def test_progress_is_never_negative_or_nan(
    times: Any, iteration: int, elapsed_s: float, stop: Any, usual: int | None
) -> None:
    estimate = progress(times, iteration, elapsed_s, stop, usual)
    assert estimate.total is None or estimate.total >= iteration
    assert estimate.left_s is None or 0 <= estimate.left_s < math.inf
    assert not set("-ni") & set(estimate.eta.replace("min", ""))


@given(st.lists(st.integers(1, 1000)))
def test_the_typical_count_is_between_minimum_and_maximum(iterations: list[int]) -> None:
    estimate = typical(iterations)
    assert estimate is None if not iterations else min(iterations) <= (estimate or 0) <= max(iterations)


def test_the_time_left_for_all_trials(subtests: pytest.Subtests) -> None:
    for ended, running, waiting, side_by_side, left in [
        ([], [(5, None)], 3, 1, None),  # nothing says how long a trial takes
        ([], [(5, 15)], 3, 1, 75),
        ([10], [(5, None)], 0, 1, 5),
        ([10], [(50, None)], 0, 1, 0),  # it takes longer than usual
        ([10, 20], [(0, 30), (0, 10)], 0, 2, 30),  # the longest is the last
        ([10, 20], [], 4, 2, None),
        ([10], [(0, 10)], 7, 100, 10),
    ]:
        with subtests.test(ended=ended, running=running):
            assert left_in_all(ended, running, waiting, side_by_side) == left


def test_the_table_says_how_long_all_trials_take() -> None:
    reported, go = threading.Event(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1.0)
        reported.set()
        assert go.wait(60)

    space = {"x": nbckpt.grid_search([1, 2, 3])}
    experiment = nbckpt.run(train, space, name="e", max_concurrent=1, stop={"training_iteration": 5})
    assert reported.wait(60)
    assert "left for 3 trials" in str(experiment)
    go.set()
    assert experiment.wait(60)
    assert "left for" not in str(experiment)
