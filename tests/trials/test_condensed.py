"""What is kept of results: little, and the same whether they come one by one or are read again."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbckpt.errors import CorruptError
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model import condensed as condensed_module
from nbckpt.trials.model import journal, params
from nbckpt.trials.model import state as state_module
from nbckpt.trials.model.condensed import Condensed
from nbckpt.trials.model.curve import MOST_POINTS, Curve
from nbckpt.trials.model.recorder import TrialRecorder
from nbckpt.trials.model.trial import Trial, state_of

numbers = st.floats() | st.integers(-(10**400), 10**400)
nested = st.dictionaries(st.sampled_from("ab"), numbers)
values = numbers | st.none() | st.booleans() | st.text(max_size=3) | nested
rows = st.dictionaries(st.sampled_from(["a", "b", "c", "a/b", "episodes_total"]), values, max_size=5)


def results_of(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "training_iteration": at} for at, row in enumerate(given, 1)]


@pytest.mark.slow
@given(st.lists(rows, max_size=60), st.lists(st.integers(0, 60), max_size=4), st.integers(1, 5))
def test_results_condense_alike_at_once_or_in_parts(
    made: list[dict[str, Any]], cuts: list[int], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(condensed_module, "MOST_NAMES", most)
        results, ends = results_of(made), sorted({*cuts, 0, len(made)})
        parts = Condensed()
        for begin, end in pairwise(ends):
            parts = parts.extended(results[begin:end])
        one_by_one = Condensed()
        for result in results:
            one_by_one = one_by_one.extended([result])
        whole = Condensed().extended(results)
    assert repr(parts) == repr(one_by_one) == repr(whole)
    assert len(whole.curves) <= most


@given(st.lists(numbers, min_size=1, max_size=200))
def test_a_curve_keeps_first_last_lowest_and_highest(given: list[float]) -> None:
    curve = Curve().extended(given)
    finite = [number for number in given if isinstance(number, int) or math.isfinite(number)]
    sound = [number for number in given if number == number]
    assert repr((curve.points[0], curve.last, curve.count)) == repr((given[0], given[-1], len(given)))
    assert (curve.low and curve.low[1]) == min(sound, default=None)
    assert (curve.high and curve.high[1]) == max(sound, default=None)
    assert set(curve.shown) <= set(finite)
    assert len(curve.points) <= MOST_POINTS
    assert repr(Curve.from_json(json.loads(json.dumps(curve.to_json())))) == repr(curve)


CONTRADICTORY: list[Any] = [
    None,
    [],
    [1, 1, 1.0, None, None],
    [1, 0, 1.0, None, None, [1.0]],
    [2, 1, 1.0, None, None, [1.0]],
    [1 << 62, 1, 1.0, None, None, [1.0] * 24],
    [100, 1, 1.0, None, None, [1.0] * 100],
    [1, 1, 1.0, [1, 1.0], None, [1.0]],
    [1, 1, "1", None, None, [1.0]],
    [1, 1, 1.0, None, None, ["1"]],
]


def test_a_curve_that_contradicts_itself_is_refused(subtests: pytest.Subtests) -> None:
    for document in CONTRADICTORY:
        with subtests.test(document=document), pytest.raises(CorruptError):
            Curve.from_json(document)


def live_and_read(folder: Path, steps: list[Any]) -> tuple[Trial, Trial]:
    """Return a trial after results and restarts, and the same trial read from its journal."""
    trial = Trial(folder / "e" / "t0", {"lr": 1})
    params.write({trial.folder: trial.config})
    with TrialRecorder(trial) as recorder:
        recorder.start("thread", None, provenance=False)
        for step in steps:
            if isinstance(step, dict):
                recorder.result({**step, "training_iteration": trial.iteration + 1})
            else:
                record = Record("checkpoint_000000", "fields", min(step, trial.iteration))
                recorder.start("thread", record, provenance=False)
    return trial, Trial.read(trial.folder)


def known(trial: Trial) -> str:
    return repr((state_of(trial).condensed, trial.iteration, trial.metrics, trial.metric_names))


@settings(max_examples=30)
@given(st.lists(rows | st.integers(0, 30), max_size=40), st.integers(1, 6))
def test_a_trial_is_the_same_live_and_read_again(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], waiting: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_module, "MOST_WAITING", waiting)
        trial, again = live_and_read(tmp_path_factory.mktemp("live"), steps)
    assert known(trial) == known(again)
    assert [result["training_iteration"] for result in trial.results] == [*range(1, trial.iteration + 1)]
    assert Condensed().extended(trial.results) == state_of(trial).condensed or "nan" in known(trial)
    assert trial.metrics == (trial.results[-1] if trial.results else {}) or "nan" in known(trial)


def test_results_that_are_repeated_count_once(tmp_path: Path) -> None:
    steps = [{"loss": 1.0}, {"loss": -9.0, "extra": 1}, 1, {"loss": 3.0}, {"loss": 2.0}, 2, {"loss": 5.0}]
    trial, again = live_and_read(tmp_path, steps)
    for one in (trial, again):
        assert one.metric("loss") == [1.0, 3.0, 5.0]
        assert (one.metric_names, one.iteration) == (["loss"], 3)
        curve = state_of(one).condensed.curves["loss"]
        assert (curve.low, curve.high, curve.count) == ((0, 1.0), (2, 5.0), 3)


def test_a_lost_first_start_does_not_count_results_twice(tmp_path: Path) -> None:
    trial, _ = live_and_read(tmp_path, [{"loss": 1.0}, {"loss": -9.0}, 1, {"loss": 3.0}])
    file = trial.folder / journal.FILE
    file.write_bytes(file.read_bytes().replace(b"start", b"st\0rt", 1))
    again = Trial.read(trial.folder)
    assert (again.metric("loss"), again.iteration, again.damage != "") == ([1.0, 3.0], 2, True)


def test_a_trial_keeps_little_however_much_it_reports(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "e" / "t0", {})
    state, row = state_of(trial), {f"m{at}": float(at) for at in range(20)}
    sizes = []
    for step in range(1, 20_001):
        state.fold({"event": "result", "result": {**row, "training_iteration": step, "timestamp": 1.0}})
        if step % 5_000 == 0:
            condensed, waiting = state.kept
            sizes.append(max(len(curve.points) for curve in condensed.curves.values()))
            assert (len(waiting) <= 256, len(condensed.curves), len(state.times)) == (True, 20, 10)
    assert max(sizes) <= MOST_POINTS


def test_views_never_see_a_last_result_before_its_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is drawn meanwhile keeps its cells until the last result is another one."""
    state = state_of(Trial(tmp_path / "e" / "t0", {}))
    seen: list[int] = []
    extended = Condensed.extended
    monkeypatch.setattr(
        Condensed, "extended", lambda known, results: seen.append(state.iteration) or extended(known, results)
    )
    for step in (1, 2, 3):
        state.fold({"event": "result", "result": {"loss": 1.0, "word": "x", "training_iteration": step}})
    assert seen == [0, 1, 2]
