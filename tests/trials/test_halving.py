"""Halving and Hyperband decide as Optuna's pruners do, whatever the curves, the options and the order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from late import library
from nbckpt.trials import OptunaPruner, Status
from nbckpt.trials.model.trial import state_of
from nbckpt.trials.schedulers.halving import Halving

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
