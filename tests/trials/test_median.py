"""MedianStopping: the stops of Vizier's rule, also after a restart."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbckpt
from nbckpt.errors import UsageError
from nbckpt.trials import MedianStopping, Status
from nbckpt.trials.model.trial import Trial, state_of


@dataclass
class Vizier:
    """The rule as its authors write it, over all values each time, for the trials that reached the step."""

    grace: int
    least: int
    values: dict[int, list[float]] = field(default_factory=dict)

    def stops(self, trial: int, value: float) -> bool:
        mine = self.values.setdefault(trial, [])
        mine.append(value)
        step = len(mine)
        far = [theirs for other, theirs in self.values.items() if other != trial and len(theirs) >= step]
        others = [fmean(theirs[:step]) for theirs in far]
        return step >= self.grace and len(others) >= self.least and min(mine) > median(others)


def reported(number: int, step: float, loss: Any) -> Trial:
    made = Trial(Path(f"t{number}"), {})
    state_of(made).last_result = {"training_iteration": step, "loss": loss}
    return made


def rule(*arguments: Any, mode: str = "min", **named: Any) -> MedianStopping:
    return MedianStopping(*arguments, metric="loss", mode=mode, **named)


# Sums of few eighths are exact, so both computations give the same averages.
EIGHTHS = st.integers(0, 64).map(lambda number: number / 8)


@given(st.integers(1, 4), st.integers(1, 3), st.lists(st.tuples(st.integers(0, 5), EIGHTHS), max_size=80))
def test_stops_are_those_of_vizier_s_rule(grace: int, least: int, reports: list[tuple[int, float]]) -> None:
    vizier, low, high = Vizier(grace, least), rule(grace, least), rule(grace, least, mode="max")
    stopped: set[int] = set()
    steps: dict[int, int] = {}
    for trial, loss in reports:
        if trial in stopped:
            continue
        step = steps[trial] = steps.get(trial, 0) + 1
        expected = vizier.stops(trial, loss)
        assert (low.reported(reported(trial, step, loss)) is not None) == expected
        assert (high.reported(reported(trial, step, -loss)) is not None) == expected
        if expected:
            stopped.add(trial)


MISSING = st.sampled_from([float("nan"), None, "text"])
STEPS = st.sampled_from([0, 1, 1, 1, 1, 3])
"""By how much the step of a trial grows: a step may come again, and steps may be missing."""


@given(st.lists(st.tuples(st.integers(0, 3), STEPS, EIGHTHS | MISSING), min_size=1, max_size=60))
def test_a_restart_changes_no_stop(reports: list[tuple[int, int, Any]]) -> None:
    *before, (last, more, loss) = reports
    scheduler, results = rule(min_samples=1), dict[int, list[dict[str, Any]]]()
    steps: dict[int, int] = {}
    for trial, growth, value in before:
        step = steps[trial] = steps.get(trial, 0) + growth
        results.setdefault(trial, []).append({"training_iteration": step, "loss": value})
        scheduler.reported(reported(trial, step, value))
    again = rule(min_samples=1)
    trials = [
        SimpleNamespace(id=f"t{number}", results=kept, finished=True, iteration=max(steps[number], 1))
        for number, kept in results.items()
    ]
    again.setup(SimpleNamespace(trials=trials))  # type: ignore[arg-type]
    step = steps.get(last, 0) + more
    assert scheduler.reported(reported(last, step, loss)) == again.reported(reported(last, step, loss))


def test_a_report_counts_once_and_worst_without_a_number() -> None:
    scheduler = rule(min_samples=1)
    scheduler.reported(reported(0, 1, 1.0))
    scheduler.reported(reported(0, 1, 9.0))
    decision = scheduler.reported(reported(1, 1, 5.0))
    others = "1, the median of 1 other trials at training_iteration 1"
    assert decision.reason == f"the best loss so far, 5, is worse than {others}"
    scheduler = rule(min_samples=1)
    scheduler.reported(reported(0, 1, 1.0))
    decision = scheduler.reported(reported(1, 1, float("nan")))
    assert "so far, not a finite number, is worse than 1," in decision.reason
    median = MedianStopping(metric="loss", mode="min")
    assert median.value({"loss": 10**400}) is None
    assert median.trained({"training_iteration": 3}) == 3


def test_steps_may_be_seconds_and_may_be_skipped() -> None:
    scheduler = rule(0, 1, every=60, time_attr="time_total_s")

    def at(number: int, seconds: float, loss: float) -> bool:
        trial = Trial(Path(f"t{number}"), {})
        state_of(trial).last_result = {"time_total_s": seconds, "loss": loss}
        return scheduler.reported(trial) is not None

    assert not at(0, 61, 1.0)
    assert not at(1, 59, 2.0)
    assert at(1, 119, 2.0)
    assert not at(1, 119.5, 2.0)
    scheduler = rule(min_samples=1)
    scheduler.reported(reported(0, 1, 1.0))
    scheduler.reported(reported(0, 10, 5.0))
    assert scheduler.reported(reported(1, 7, 2.0)) is not None
    assert scheduler.reported(reported(2, 10, 2.5)) is None


def test_a_time_of_any_size_takes_little_memory() -> None:
    scheduler = rule(min_samples=1)
    tracemalloc.start()
    try:
        scheduler.reported(reported(0, 2.0**62, 1.0))
        scheduler.reported(reported(1, float("inf"), 2.0))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("wrong", "message"), [({"min_samples": 0}, "1 or more"), ({"every": 0}, "above 0")])
def test_impossible_arguments_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rule(**wrong)


def train(config: dict[str, Any]) -> None:
    for _ in range(6):
        nbckpt.report(loss=config["x"])


def test_worse_trials_of_an_experiment_stop() -> None:
    xs = [0.1, 0.2, 0.3, 0.4, 0.15]
    experiment = nbckpt.run(
        train, {"x": nbckpt.grid_search(xs)}, name="e", executor="inline", metric="loss", mode="min",
        scheduler=MedianStopping(2),
    )  # fmt: skip
    assert [trial.iteration for trial in experiment.trials] == [6, 6, 6, 2, 6]
    stopped = experiment.trials[3]
    assert (stopped.status, stopped.stopped_early) == (Status.TERMINATED, True)
    assert "is worse than 0.2, the median of 3 other trials" in stopped.note
