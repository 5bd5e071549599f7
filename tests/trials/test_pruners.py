"""Stopping rules decide as Optuna's pruners and Vizier's rule do, whatever the curves and the options."""

from __future__ import annotations

import random
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
from late import library
from nbckpt.errors import UsageError
from nbckpt.trials import MedianStopping, OptunaPruner, Status
from nbckpt.trials.model.trial import Trial, state_of
from nbckpt.trials.schedulers.halving import Halving
from nbckpt.trials.schedulers.percentile import Percentile
from nbckpt.trials.schedulers.pruned_study import PrunedStudy

TRIALS = 7
SMALL = st.integers(1, 3)
FACTORS = st.integers(2, 4)
COUNTS = st.integers(0, 3)
AUTO = st.just("auto")
OPTIONS = {
    "hyperband": st.fixed_dictionaries(
        {"max_resource": st.integers(1, 40)},
        optional={"min_resource": SMALL, "reduction_factor": FACTORS, "bootstrap_count": COUNTS},
    )
    | st.fixed_dictionaries({}, optional={"max_resource": AUTO, "reduction_factor": FACTORS}),
    "successivehalving": st.fixed_dictionaries(
        {"min_resource": SMALL, "bootstrap_count": COUNTS},
        optional={"reduction_factor": FACTORS, "min_early_stopping_rate": st.integers(0, 2)},
    )
    | st.fixed_dictionaries({}, optional={"min_resource": AUTO, "reduction_factor": FACTORS}),
}
EVENTS = st.lists(
    st.tuples(
        st.integers(0, TRIALS - 1),
        st.sampled_from([*["report"] * 16, "complete", "complete", "restart", "fail"]),
        st.integers(0, 4),
        st.integers(0, 16).map(lambda number: number / 4),
    ),
    min_size=20,
    max_size=90,
)
"""The trial, what happens to it, by how much its step grows, and its loss."""


def make_trial(number: int) -> Any:
    """Return a trial that rests after its newest report, with a checkpoint of that."""
    return SimpleNamespace(
        id=f"t{number}", status=Status.PAUSED, finished=False, results=[], metrics={}, stopped_early=False,
        ended_at=None, iteration=0, checkpoint_iteration=0, step=-1,
        _state=SimpleNamespace(scheduling=SimpleNamespace(rungs={})),
    )  # fmt: skip


class Pruner(OptunaPruner):
    """A pruner that shows what decides."""

    @property
    def study(self) -> Any:
        return self._study


class Search:
    """A search that asks our scheduler and a study of Optuna, and compares the answers.

    Attributes:
        kind: The class that decides here.
    """

    kind: type = Halving

    @classmethod
    def goes_on(cls, name: str, mode: str, options: dict[str, Any], seed: int, events: Any) -> None:
        """Let all events happen: each trial, what happens to it, by how much its step grows, its loss."""
        search = cls(name, mode, options, seed)
        for number, kind, more, value in events:
            if search.ours[number].finished:
                continue
            if kind == "report":
                search.report(number, more, value)
            else:
                getattr(search, kind)(number)

    def __init__(self, name: str, mode: str, options: dict[str, Any], seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.make = lambda: Pruner(name, metric="loss", mode=mode, time_attr="epoch", **options)
        self.scheduler = self.make()
        self.study = optuna.create_study(
            study_name=str(seed), direction=f"{mode}imize", pruner=self.scheduler_of_optuna(name, options)
        )
        self.theirs = [self.study.ask() for _ in range(TRIALS)]
        self.ours = [make_trial(number) for number in range(TRIALS)]
        self.experiment: Any = SimpleNamespace(trials=self.ours, spec=SimpleNamespace(seed=seed))
        self.clock, self.is_told = 0.0, True
        self.restart(0)

    @staticmethod
    def scheduler_of_optuna(name: str, options: dict[str, Any]) -> Any:
        import optuna

        classes = {kind.lower(): getattr(optuna.pruners, kind) for kind in optuna.pruners.__all__}
        return classes[f"{name}pruner"](**options)

    def restart(self, number: int) -> None:
        self.scheduler = self.make()
        self.scheduler.setup(self.experiment)
        assert type(self.scheduler.study) is self.kind

    def report(self, number: int, more: int, value: float) -> None:
        trial = self.ours[number]
        trial.step += more
        trial.iteration += 1
        trial.checkpoint_iteration = trial.iteration
        trial.metrics = {"training_iteration": trial.iteration, "epoch": trial.step, "loss": value}
        trial.results.append(trial.metrics)
        decision = self.scheduler.reported(trial)
        if not more:
            assert decision is None
            return
        self.theirs[number].report(value, trial.step)
        is_pruned, self.is_told = self.theirs[number].should_prune(), True
        assert (decision is not None and decision.do == "stop") == is_pruned
        if decision is not None and decision.rung is not None:
            state_of(trial).scheduling.rungs.setdefault(decision.rung, decision.value)
        rungs = sum("rung" in name for name in self.study.get_trials()[number].system_attrs)
        assert max(state_of(trial).scheduling.rungs, default=-1) + 1 == rungs
        if is_pruned:
            self.end(number, Status.TERMINATED, "PRUNED", early=True)

    def complete(self, number: int) -> None:
        # Optuna looks for the length of complete trials when it is asked next, and may then meet several.
        if self.ours[number].iteration and self.is_told:
            self.is_told = False
            self.end(number, Status.TERMINATED, "COMPLETE")

    def fail(self, number: int) -> None:
        self.end(number, Status.ERROR, "FAIL")

    def end(self, number: int, status: Status, state: str, *, early: bool = False) -> None:
        from optuna.trial import TrialState

        trial = self.ours[number]
        self.clock += 1
        trial.status, trial.finished, trial.stopped_early, trial.ended_at = status, True, early, self.clock
        values = [trial.metrics["loss"]] if state == "COMPLETE" else None
        self.study.tell(self.theirs[number], values, state=TrialState[state])
        self.scheduler.ended(trial)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
@given(data=st.data(), mode=st.sampled_from(["min", "max"]), seed=st.integers(0, 9), events=EVENTS)
def test_trials_stop_and_reach_rungs_as_in_a_study_of_optuna(
    name: str, data: st.DataObject, mode: str, seed: int, events: list[tuple[int, str, int, float]]
) -> None:
    library("optuna", reason="pruners")
    options = data.draw(OPTIONS[name])
    Search.goes_on(name, mode, options, seed, events)


def halving(reports: list[tuple[int, Any]], **options: Any) -> tuple[Pruner, list[str]]:
    """Let trials report, and return what the pruner decides on each report."""
    library("optuna", reason="pruners")
    scheduler = Pruner("successivehalving", metric="loss", mode="min", time_attr="epoch", **options)
    scheduler.setup(SimpleNamespace(trials=[], spec=SimpleNamespace(seed=1)))  # type: ignore[arg-type]
    decided = []
    for number, metrics in reports:
        trial = make_trial(number)
        trial.metrics = metrics
        decision = scheduler.reported(trial)
        decided.append("" if decision is None else decision.do)
    return scheduler, decided


@pytest.mark.parametrize("loss", [{}, {"loss": float("nan")}, {"loss": "text"}, {"loss": None}])
def test_a_report_without_a_number_reaches_no_rung(loss: dict[str, Any]) -> None:
    good, bad = {"epoch": 1, "loss": 0.0}, {"epoch": 1, "loss": 1.0}
    reports = [(0, good), (1, {"epoch": 1} | loss), (1, bad), (1, bad)]
    scheduler, decided = halving(reports, min_resource=1)
    assert decided == ["continue", "", "stop", ""]
    assert scheduler.study.rungs(1) == 1


def test_auto_is_not_told_by_a_complete_trial_without_a_number() -> None:
    scheduler, decided = halving([(0, {"epoch": 9, "loss": 0.0})])
    assert decided == [""]
    trial = make_trial(1)
    trial.status, trial.finished, trial.ended_at = Status.TERMINATED, True, 1.0
    trial.results = [{"training_iteration": at, "epoch": at, "loss": 1.0} for at in (1, 2)]
    trial.iteration, trial.metrics = 2, {"epoch": 2, "loss": float("nan")}
    scheduler.ended(trial)
    assert scheduler.study.is_auto
    trial.metrics = trial.results[-1]
    scheduler.ended(trial)
    assert not scheduler.study.is_auto


def test_rungs_of_another_scheduler_take_little_memory() -> None:
    scheduler, _ = halving([], min_resource=1)
    trial = make_trial(0)
    state_of(trial).scheduling.rungs = {0: 1.0, 3: None, 2**62: 1.0}
    scheduler.setup(SimpleNamespace(trials=[trial], spec=SimpleNamespace(seed=1)))  # type: ignore[arg-type]
    assert scheduler.study.rungs(0) == 4


def test_other_pruners_and_unusual_options_are_left_to_optuna(subtests: pytest.Subtests) -> None:
    library("optuna", reason="pruners")
    halves = [{"min_resource": least, "max_resource": 9} for least in (0.5, 0)]
    unusual: list[tuple[str, dict[str, Any]]] = [
        ("median", {}),
        ("nop", {}),
        ("successivehalving", {"min_resource": 2.0}),
    ]
    for pruner, options in [*unusual, *(("hyperband", half) for half in halves)]:
        with subtests.test(pruner, options=options):
            assert Halving.of("min", "name", pruner, options) is None


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


LOSSES = st.integers(0, 8).map(float) | st.floats(-1e6, 1e6, allow_nan=False)
ENDINGS = st.lists(
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
PRUNERS = {
    "median": st.fixed_dictionaries({}, optional=ENOUGH),
    "percentile": st.fixed_dictionaries(
        {"percentile": st.integers(0, 100) | st.floats(0, 100)}, optional=ENOUGH
    ),
    "threshold": st.fixed_dictionaries({"upper": st.integers(3, 8)}, optional=WHEN),
    "nop": st.just({}),
    "patient": st.fixed_dictionaries(
        {"wrapped_pruner": st.none(), "patience": st.integers(0, 3)}, optional={"min_delta": st.floats(0, 1)}
    ),
}


class OwnSearch(Search):
    kind = Percentile


class AskedSearch(Search):
    kind = PrunedStudy


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PatientPruner is experimental")
@pytest.mark.parametrize("name", PRUNERS)
@given(data=st.data(), mode=st.sampled_from(["min", "max"]), events=ENDINGS)
def test_trials_stop_as_in_a_study_of_optuna(
    name: str, data: st.DataObject, mode: str, events: list[tuple[int, str, int, float]]
) -> None:
    library("optuna", reason="pruners")
    search = OwnSearch if name in {"median", "percentile"} else AskedSearch
    search.goes_on(name, mode, data.draw(PRUNERS[name]), 1, events)


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
