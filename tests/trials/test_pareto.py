"""Several objectives: the Pareto front, where it is shown, and who searches for it."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials.conftest import ran

import nbckpt
from late import library
from nbckpt.commands import TABLE, Session, parse
from nbckpt.errors import UsageError
from nbckpt.mirror import AutoMirror
from nbckpt.render import html_of
from nbckpt.trials import ASHA, Experiment, OptunaSampler, Trial
from nbckpt.trials.engine import shutdown
from nbckpt.trials.model import pareto as algorithm
from nbckpt.trials.model.objectives import Objective
from nbckpt.trials.model.pareto import undominated
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.stopping import Stopper
from nbckpt.trials.model.trial import state_of
from nbckpt.trials.views.front import front_first, front_of

BOTH = {"metric": ["loss", "size"], "mode": ["min", "min"]}
FEW = st.sampled_from([0.0, -0.0, 1, 2, 1 << 1100, math.inf, -math.inf, math.nan, None])


def with_values(folder: Path, at: int, **values: float | None) -> Trial:
    trial = Trial(folder / f"t{at}", {})
    known = {name: value for name, value in values.items() if value is not None}
    result = {**known, "training_iteration": 1}
    state_of(trial).fold({"event": "result", "result": result})
    return trial


def surpasses(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Return whether a point dominates another, as textbooks define it; smaller is better."""
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def as_number(value: float | None) -> float:
    return math.nan if value is None else math.inf if isinstance(value, int) and value > 2 else float(value)


@given(st.lists(st.tuples(FEW, FEW, FEW), max_size=12), st.tuples(*[st.sampled_from(["min", "max"])] * 3))
def test_the_front_is_what_no_other_trial_dominates(rows: list[Any], modes: tuple[str, ...]) -> None:
    objectives = [Objective(name, mode) for name, mode in zip("abc", modes, strict=True)]
    trials = [with_values(Path("e"), at, **dict(zip("abc", row, strict=True))) for at, row in enumerate(rows)]
    signs = [1 if mode == "min" else -1 for mode in modes]
    points = {
        trial: tuple(sign * as_number(value) for sign, value in zip(signs, row, strict=True))
        for trial, row in zip(trials, rows, strict=True)
    }
    whole = {trial: point for trial, point in points.items() if not any(map(math.isnan, point))}
    losers = {trial for trial, point in whole.items() for other in whole.values() if surpasses(other, point)}
    front = front_of(trials, objectives)
    assert set(front) == whole.keys() - losers
    assert len(front) == len(whole) - len(losers)
    first = [whole[trial][0] for trial in front]
    assert first == sorted(first)
    assert set(front_first(trials, objectives)) == set(trials)
    assert front_first(trials, objectives)[: len(front)] == front


@given(st.lists(st.tuples(*[st.integers(0, 9)] * 3), max_size=40), st.integers(1, 7))
def test_blocks_do_not_change_the_front(points: list[tuple[int, ...]], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algorithm, "BLOCK", block)
        front = undominated(points)
    assert front == {point for point in points if not any(surpasses(other, point) for other in points)}


def test_the_front_of_many_points_compares_no_pairs() -> None:
    draw, compared = random.Random(1), 0

    class Counted(float):
        def __lt__(self, other: float) -> bool:
            nonlocal compared
            compared += 1
            return float(self) < other

    points = []
    for _ in range(3000):
        x, y = draw.random(), draw.random()
        points.append((Counted(x), Counted(y), Counted(-x - y)))  # all on the front
    assert len(undominated(points)) == 3000
    assert compared < 3000 * 200  # pairs would be 4,500,000


def train(config: dict[str, Any]) -> None:
    for step in range(config.get("steps", 1)):
        nbckpt.report(loss=config["x"] ** 2 - step / 100, size=(config["x"] - 1) ** 2)


def made(xs: list[Any] | None = None, **settings: Any) -> Experiment:
    settings = {**BOTH, "executor": "inline", "name": "e", **settings}
    return ran(train, {"x": nbckpt.grid_search(xs or [0.5, -1, 0, 1, 2])}, **settings)


def said(line: str) -> str:
    tracker = nbckpt.Tracker()
    session = Session(tracker, AutoMirror(tracker.store), namespace={"train": train})
    return str(parse(TABLE, line.split(), "%ckpt").run(session))


def test_pareto_returns_the_front_and_best_asks_which() -> None:
    experiment = made()
    assert [trial.config["x"] for trial in experiment.pareto()] == [0, 0.5, 1]
    with pytest.raises(UsageError, match=r"loss \(min\) and size \(min\), so .*trials e --pareto"):
        experiment.best()
    assert experiment.best("size").config["x"] == 1
    assert experiment.best("size", "max").config["x"] == -1
    for modes in (["max", "max"], "max"):
        assert [trial.config["x"] for trial in experiment.pareto(["loss", "size"], modes)] == [2, -1]
    with pytest.raises(UsageError, match="two objectives or more"):
        experiment.pareto(["loss"])
    experiment = made(metric=["loss"], mode=["min"], name="one")
    assert (experiment.spec.metric, experiment.spec.mode, experiment.spec.others) == ("loss", "min", ())
    assert "pareto" not in str(experiment).lower()
    with pytest.raises(UsageError, match="two objectives or more"):
        experiment.pareto()


def test_objectives_that_do_not_fit_are_refused(store: Path, subtests: pytest.Subtests) -> None:
    for metric, mode, message in [
        (["loss", "size"], ["min"] * 3, "needs a mode for each metric"),
        (["loss", "size"], ["min", "low"], "needs a mode for each metric"),
        (["loss", "size"], "", "needs a mode for each metric"),
        (["loss", "loss"], "min", "give each metric once"),
        (["loss", ""], "min", "give each metric once"),
        ([1, "loss"], "min", "give texts"),
        (5, "min", "metric=5, mode='min': give texts"),
        ("loss", 5, "metric='loss', mode=5: give texts"),
        ("loss", ["min", "max"], "needs a mode for each metric"),
    ]:
        with subtests.test(metric=metric, mode=mode):
            with pytest.raises(UsageError, match=message):
                made(metric=metric, mode=mode)
            assert not store.exists()


def test_objectives_survive_a_restart_and_are_in_the_file() -> None:
    """One mode may stand for all metrics."""
    both = made(mode="max", name="both").spec.objectives
    assert [str(objective) for objective in both] == ["loss (max)", "size (max)"]
    folder = made(mode=["min", "max"]).folder
    shutdown.live.clear()
    experiment = nbckpt.open_experiment("e")
    assert [str(objective) for objective in experiment.spec.objectives] == ["loss (min)", "size (max)"]
    kept = json.loads((folder / "experiment.json").read_bytes())
    assert (kept["metric"], kept["mode"]) == ("loss", "min")
    assert kept["other_objectives"] == [{"metric": "size", "mode": "max"}]


def test_the_table_marks_the_front_and_shows_it_first() -> None:
    experiment = made()
    table = experiment.page().tables[0]
    at = [column.name for column in table.columns].index("pareto")
    marked = {row[0].text: str(getattr(row[at], "text", row[at])) for row in table.rows}
    assert marked == {"t0": "front", "t1": "", "t2": "front", "t3": "front", "t4": ""}
    assert "Pareto front of loss (min) and size (min): 3 trials, t2, t0, t3" in experiment.page().notes
    shown = experiment.table(most=4, sort=True).page()
    assert [row[0].text for row in shown.tables[0].rows] == ["t2", "t0", "t3", "t1"]
    assert shown.notes[0].startswith("Showing 4 of 5 trials, the Pareto front first.")
    only = experiment.table(pareto=True, where="x < 1").page()
    assert [row[0].text for row in only.tables[0].rows] == ["t0", "t2"]
    assert only.notes[0] == "2 of 5 trials match x < 1 on the Pareto front"
    assert "<td" in html_of(experiment)
    assert html_of(experiment).count(">front<") == 3


def test_a_trial_that_leaves_the_front_is_unmarked() -> None:
    made([0.5, 2])
    experiment = made([0.5, 2, 1.5])
    assert [trial.id for trial in experiment.pareto()] == ["t0"]
    experiment = made([0.5, 2, 1.5, 0.5])
    assert [trial.id for trial in experiment.pareto()] == ["t0", "t3"]  # equals stand beside each other


def test_json_has_the_objectives_and_the_front() -> None:
    data = made().for_json()
    assert [str(objective) for objective in data.objectives] == ["loss (min)", "size (min)"]
    assert data.pareto == ("t2", "t0", "t3")
    assert made(name="one", metric="loss", mode="min").for_json().pareto == ()


def test_commands_take_objectives_and_show_the_front() -> None:
    said("run train --grid x=0.5,-1,0,1,2 --name e --executor inline --metric loss --metric size --mode min")
    front = said("trials e --pareto")
    assert [line.split()[0] for line in front.splitlines() if " done " in line] == ["t2", "t0", "t3"]
    with pytest.raises(UsageError, match="best e --metric loss"):
        said("best e")
    assert said("best e --metric size").startswith("Best of e by size (min): ")
    with pytest.raises(UsageError, match="no trial is the best in all"):
        said("compare e/best e/t0")
    library("matplotlib", reason="plots")
    assert "Pareto front of loss (min) and size (min)" in said("plot e --pareto")


def test_thresholds_of_falling_objectives_come_from_above() -> None:
    spec = Spec(None, metric="loss", mode="min", others=(Objective("size", "min"), Objective("acc", "max")))
    stop = {"loss": 0.1, "size": 2, "acc": 0.9, "epoch": 5}
    text = str(Spec(None, stop=stop, metric="loss", mode="min", others=spec.others).stopper)
    assert text == "loss <= 0.1 or size <= 2 or acc >= 0.9 or epoch >= 5"
    assert str(Stopper({"loss": 1})) == "loss >= 1"


def test_a_scheduler_needs_one_of_several_objectives(store: Path) -> None:
    with pytest.raises(UsageError, match=r"ASHA compares trials by one metric.*ASHA\(metric='loss', mode="):
        made(scheduler=ASHA(max_t=4))
    assert not store.exists()
    experiment = made(scheduler=ASHA(max_t=4, metric="size", rule="stop"))
    assert (experiment.spec.scheduler.metric, experiment.spec.scheduler.mode) == ("size", "min")
    with pytest.raises(UsageError, match="which trials are better"):
        made(scheduler=ASHA(max_t=4, metric="other"))


def test_plots_and_pictures_of_the_front() -> None:
    library("matplotlib", reason="plots")
    experiment = made([0.5, -1, 0, 1, 2])
    figure = experiment.plot(pareto=True)
    (line,) = figure.axes[0].get_lines()
    assert list(line.get_xdata()) == [0, 0.25, 1]
    assert list(line.get_ydata()) == [1, 0.25, 0]
    assert figure.axes[0].get_xlabel() == "loss (min)"
    with pytest.raises(UsageError, match="different plots"):
        experiment.plot(pareto=True, parallel=True)
    with pytest.raises(UsageError, match="two objectives or more"):
        experiment.plot("loss", pareto=True)


def searched(search: Any, num_samples: int, **settings: Any) -> Experiment:
    space = {"x": nbckpt.uniform(-1, 2)}
    settings = {**BOTH, "executor": "inline", "name": "e", "seed": 7, **settings}
    experiment = ran(train, space, search=search, num_samples=num_samples, **settings)
    assert experiment.notes == []
    return experiment


@pytest.mark.parametrize("name", ["nsgaii", "tpe", "random"])
def test_a_search_for_a_front_goes_on_in_a_new_kernel(name: str, studies: list[Any]) -> None:
    library("optuna", reason="samplers")
    assert len(searched(name, 4).trials) == 4
    shutdown.live.clear()
    again = searched(name, 9)
    study = studies[-1]
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 9
    assert [direction.name for direction in study.directions] == ["MINIMIZE"] * 2
    best = {trial.user_attrs["nbckpt.trial"] for trial in study.best_trials}
    assert best == {trial.id for trial in again.pareto()}
    assert len({trial.config["x"] for trial in again.trials}) == 9


def test_a_sampler_of_one_objective_is_refused(store: Path) -> None:
    samplers = library("optuna", reason="samplers").samplers

    class OneSampler(samplers.RandomSampler):  # as CmaEsSampler, which needs another library
        def sample_relative(self, study: Any, trial: Any, search_space: Any) -> Any:
            self._raise_error_if_multi_objective(study)
            return super().sample_relative(study, trial, search_space)

    with pytest.raises(UsageError, match="OneSampler takes one objective, and there are loss"):
        searched(OptunaSampler(OneSampler()), 3)
    assert not store.exists()
    assert len(searched(OptunaSampler(OneSampler()), 3, metric="loss", mode="min").trials) == 3


def test_a_study_needs_a_direction_for_each_objective() -> None:
    optuna = library("optuna", reason="studies")
    study = optuna.create_study(directions=["minimize", "minimize"])
    experiment = searched(study, 5)
    best = {trial.user_attrs["nbckpt.trial"] for trial in study.best_trials}
    assert best == {trial.id for trial in experiment.pareto()}
    with pytest.raises(UsageError, match="the study has 1 objective, and the experiment has"):
        searched(optuna.create_study(), 2)
    with pytest.raises(UsageError, match=r"directions=\['minimize', 'maximize'\]"):
        searched(study, 2, mode=["min", "max"])


def test_a_tracked_experiment_may_have_several_objectives() -> None:
    for size in (3, 1, 2):
        with nbckpt.track("loop", metric=["loss", "size"], mode="min", size=size) as run:
            run.report(loss=float(3 - size), size=size)
    experiment = nbckpt.open_experiment("loop")
    assert [trial.config["size"] for trial in experiment.pareto()] == [3, 2, 1]
