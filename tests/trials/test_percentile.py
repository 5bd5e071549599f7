"""Pruners that compare with complete trials, or with nothing, decide as in a study of Optuna."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials.test_halving import TRIALS, Pruner, Search, make_trial

from late import library
from nbckpt.trials import Status
from nbckpt.trials.schedulers.percentile import Percentile
from nbckpt.trials.schedulers.pruned_study import PrunedStudy

LOSSES = st.integers(0, 8).map(float) | st.floats(-1e6, 1e6, allow_nan=False)
EVENTS = st.lists(
    st.tuples(
        st.integers(0, TRIALS - 1),
        st.sampled_from([*["report"] * 12, "complete", "complete", "restart", "fail"]),
        st.sampled_from([0, 1, 1, 1, 1, 2, 4]),
        LOSSES,
    ),
    min_size=30,
    max_size=120,
)
"""See `Search.goes_on`."""
WHEN = {"n_warmup_steps": st.integers(0, 4), "interval_steps": st.integers(1, 3)}
ENOUGH = WHEN | {"n_startup_trials": st.integers(0, 3), "n_min_trials": st.integers(1, 3)}
OPTIONS = {
    "median": st.fixed_dictionaries({}, optional=ENOUGH),
    "percentile": st.fixed_dictionaries(
        {"percentile": st.integers(0, 100) | st.floats(0, 100)}, optional=ENOUGH
    ),
    "threshold": st.fixed_dictionaries({"upper": st.integers(3, 8)}, optional=WHEN),
    "nop": st.just({}),
    "patient": st.fixed_dictionaries(
        {"wrapped_pruner": st.none(), "patience": st.integers(0, 3)},
        optional={"min_delta": st.floats(0, 1)},
    ),
}


class OwnSearch(Search):
    kind = Percentile


class AskedSearch(Search):
    kind = PrunedStudy


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PatientPruner is experimental")
@pytest.mark.parametrize("name", OPTIONS)
@given(data=st.data(), mode=st.sampled_from(["min", "max"]), events=EVENTS)
def test_trials_stop_as_in_a_study_of_optuna(
    name: str, data: st.DataObject, mode: str, events: list[tuple[int, str, int, float]]
) -> None:
    library("optuna", reason="pruners")
    search = OwnSearch if name in {"median", "percentile"} else AskedSearch
    search.goes_on(name, mode, data.draw(OPTIONS[name]), 1, events)


def ended(number: int, reports: int) -> Any:
    """Return a trial that is complete."""
    trial, draw = make_trial(number), random.Random(number)
    trial.results = [
        {"training_iteration": at, "epoch": at, "loss": draw.random()} for at in range(1, reports + 1)
    ]
    trial.iteration = trial.checkpoint_iteration = reports
    trial.metrics, trial.status, trial.finished = trial.results[-1], Status.TERMINATED, True
    trial.ended_at = float(number)
    return trial


def scheduler_of(name: str, trials: list[Any], **options: Any) -> Pruner:
    library("optuna", reason="pruners")
    scheduler = Pruner(name, metric="loss", mode="min", time_attr="epoch", **options)
    scheduler.setup(SimpleNamespace(trials=trials, spec=SimpleNamespace(seed=1)))  # type: ignore[arg-type]
    return scheduler


def test_a_column_has_each_value_of_complete_trials_once() -> None:
    scheduler = scheduler_of("median", [ended(number, 3) for number in range(20)])
    study = scheduler.study
    assert isinstance(study, Percentile)
    late = make_trial(20)
    for at in (1, 2, 3):
        late.metrics = {"training_iteration": at, "epoch": at, "loss": 0.0}
        assert scheduler.reported(late) is None
    late.status, late.finished = Status.TERMINATED, True
    scheduler.ended(late)
    scheduler.ended(late)
    for step in (1, 2, 3):
        column = list(study.column(step))
        assert column == sorted(column)
        assert (len(column), column[0]) == (21, 0.0)


@pytest.mark.filterwarnings("ignore:PatientPruner is experimental")
@pytest.mark.parametrize(
    ("name", "options"),
    [("threshold", {"upper": 2.0}), ("nop", {}), ("patient", {"wrapped_pruner": None, "patience": 2})],
)
def test_pruners_that_compare_with_nothing_keep_no_values(name: str, options: dict[str, Any]) -> None:
    scheduler = scheduler_of(name, [ended(number, 3) for number in range(3)], **options)
    study = scheduler.study
    assert isinstance(study, PrunedStudy)
    assert not study.needs_values
    late = make_trial(3)
    late.metrics = {"training_iteration": 1, "epoch": 1, "loss": 1.0}
    assert scheduler.reported(late) is None
    assert study.trial(3).intermediate_values == {1: 1.0}
    late.status, late.finished = Status.TERMINATED, True
    scheduler.ended(late)
    assert [study.trial(number).intermediate_values for number in range(4)] == [{}] * 4


@pytest.mark.parametrize(
    ("pruner", "options"),
    [
        ("wilcoxon", {}),
        ("nop", {}),
        ("median", {"n_warmup_steps": 1.0}),
        ("percentile", {"percentile": True}),
        ("percentile", {"percentile": 25.0, "n_min_trials": True}),
    ],
)
def test_other_pruners_and_unusual_options_are_left(pruner: str, options: dict[str, Any]) -> None:
    library("optuna", reason="pruners")
    assert Percentile.of("min", pruner, options) is None


def test_steps_above_all_machine_integers_are_compared() -> None:
    scheduler = scheduler_of("median", [], n_startup_trials=1)
    for number, (loss, stops) in enumerate([(1.0, False), (2.0, True)]):
        trial = make_trial(number)
        trial.metrics = {"training_iteration": 1, "epoch": 1e300, "loss": loss}
        assert (scheduler.reported(trial) is not None) == stops
        trial.status, trial.finished = Status.TERMINATED, True
        scheduler.ended(trial)
