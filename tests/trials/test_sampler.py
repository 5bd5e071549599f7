"""Samplers and pruners of Optuna by their names: no study of the user's, and the journals suffice."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trials.runs import ran

import nbckpt
from late import library
from nbckpt.commands.values import evaluate, find_scheduler, find_search
from nbckpt.errors import UsageError
from nbckpt.trials import Experiment, OptunaPruner, OptunaSampler
from nbckpt.trials.engine import shutdown
from nbckpt.trials.engine.runner import runner_of

optuna = library("optuna", reason="needs Optuna")

SPACE = {
    "x": nbckpt.uniform(-1, 1),
    "deep": {"kind": nbckpt.choice(["a", "b"]), "q": nbckpt.quniform(0, 1, 0.25)},
    "epochs": 2,
}


def train(config: dict[str, Any]) -> None:
    for epoch in range(config["epochs"]):
        nbckpt.report(loss=config["x"] ** 2 + config["deep"]["q"] - epoch / 100)


def searched(search: Any = "random", num_samples: int = 5, **settings: Any) -> Experiment:
    settings = {"metric": "loss", "mode": "min", "executor": "inline", "seed": 7, "name": "e", **settings}
    experiment = ran(train, SPACE, search=search, num_samples=num_samples, **settings)
    assert experiment.notes == []
    return experiment


def xs(experiment: Experiment) -> list[float]:
    return [trial.config["x"] for trial in experiment.trials]


@pytest.mark.parametrize("name", ["tpe", "TPESampler", "random", "qmc", "nsgaii"])
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_sampler_s_name_is_a_search(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    experiment = searched(name, 6, stop={"training_iteration": 1})
    assert len(experiment.trials) == 6
    assert all(-1 <= trial.config["x"] <= 1 for trial in experiment.trials)
    assert {trial.config["deep"]["q"] for trial in experiment.trials} <= {0, 0.25, 0.5, 0.75, 1}
    assert "study created" not in capfd.readouterr().err


def test_the_same_seed_gives_the_same_search() -> None:
    assert xs(searched(name="one")) == xs(searched(name="two"))
    assert xs(searched(name="one")) != xs(searched(name="three", seed=8))


def test_a_new_kernel_goes_on_from_the_journals_alone(studies: list[Any]) -> None:
    assert len(searched("tpe", 4).trials) == 4
    shutdown.live.clear()
    again = searched("tpe", 8)
    assert len(again.trials) == 8
    assert len(set(xs(again))) == 8
    study = studies[-1]
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 8
    assert study.best_value == again.best().metrics["loss"]


def test_resume_in_a_new_kernel_suggests_what_is_missing() -> None:
    experiment = searched("random", 2)
    runner = runner_of(experiment)
    runner.write_spec(replace(runner.spec, num_samples=4))
    del experiment, runner
    shutdown.live.clear()
    experiment = nbckpt.open_experiment("e")
    experiment.resume()
    assert experiment.wait(60)
    assert len(set(xs(experiment))) == 4


def test_a_paused_trial_is_known_to_the_sampler_when_it_goes_on(studies: list[Any]) -> None:
    reported, go = threading.Event(), threading.Event()

    def paused(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1.0)
        reported.set()
        assert go.wait(60)
        nbckpt.report(loss=0.5)

    experiment = nbckpt.run(
        paused, SPACE, search="random", name="e", executor="thread", metric="loss", mode="min", seed=7
    )
    assert reported.wait(60)
    experiment.pause()
    go.set()
    assert experiment.wait(60)
    assert [trial.iteration for trial in experiment.trials] == [2]
    x = xs(experiment)
    del experiment
    shutdown.live.clear()
    assert xs(searched("random", 1)) == x
    study = studies[-1]
    assert [trial.params["x"] for trial in study.trials] == x
    assert study.trials[0].state.name == "COMPLETE"
    assert study.trials[0].intermediate_values[1] == 1.0


def test_points_come_first_and_the_sampler_learns_of_them(studies: list[Any]) -> None:
    points = [{"x": 0.5, "deep": {"kind": "b", "q": 0.25}}, {"x": 0.0}]
    experiment = searched("random", 4, points=points)
    assert xs(experiment)[:2] == [0.5, 0.0]
    assert experiment.trials[0].config == {"x": 0.5, "deep": {"kind": "b", "q": 0.25}, "epochs": 2}
    assert len(experiment.trials) == 4
    study = studies[-1]
    assert [trial.params["x"] for trial in study.trials[:2]] == [0.5, 0.0]
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 4
    assert len(searched("random", 4, points=points).trials) == 4


def test_points_come_before_draws_and_a_grid_has_no_point_twice() -> None:
    def quick(config: dict[str, Any]) -> None:
        nbckpt.report(loss=config["x"])

    grid = {"x": nbckpt.grid_search([1, 2, 3])}
    experiment = nbckpt.run(quick, grid, points=[{"x": 3}], executor="inline", name="grid")
    assert xs(experiment) == [3, 1, 2]
    space = {"x": nbckpt.uniform(0, 1)}
    drawn = nbckpt.run(quick, space, num_samples=3, seed=1, executor="inline")
    first = nbckpt.run(quick, space, points=[{"x": 0.5}], num_samples=3, seed=1, executor="inline")
    assert xs(first) == [0.5, *xs(drawn)[:2]]
    both = {"x": nbckpt.uniform(0, 1), "y": nbckpt.grid_search([1, 2])}
    beside = nbckpt.run(quick, both, points=[{"x": 0.5, "y": 2}], executor="inline")
    assert [trial.config["y"] for trial in beside.trials] == [2, 1, 2]


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("tpee", "Optuna has no sampler 'tpee'. Did you mean 'tpe'"),
        ("x" * 20, "It has bruteforce, cmaes"),
        ("base", "Optuna has no sampler 'base'"),
        ("grid", "cannot make Optuna's GridSampler: .*search_space"),
    ],
)
def test_an_unknown_sampler_is_refused(search: str, message: str, store: Path) -> None:
    with pytest.raises(UsageError, match=message):
        searched(search)
    assert not store.exists()


def test_a_search_needs_a_metric_and_something_to_vary() -> None:
    with pytest.raises(UsageError, match="which metric"):
        nbckpt.run(train, SPACE, search="tpe")
    with pytest.raises(UsageError, match="nothing to search"):
        nbckpt.run(train, {"x": 1}, search="tpe", metric="loss", mode="min")


def test_without_optuna_the_message_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("optuna", "optuna.samplers", "optuna.pruners"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"Optuna's samplers need Optuna: pip install 'nbckpt\[optuna\]'"):
        OptunaSampler("tpe")
    message = r"'hyperband' is unknown: .*Optuna's pruners need Optuna: pip install 'nbckpt\[optuna\]'"
    with pytest.raises(UsageError, match=message):
        find_scheduler("hyperband", None)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("form", ["name", "sampler", "study"])
@pytest.mark.parametrize(("name", "package"), [("gp", "torch"), ("cmaes", "cmaes"), ("qmc", "scipy")])
def test_a_sampler_whose_package_is_missing_is_refused(
    name: str, package: str, form: str, monkeypatch: pytest.MonkeyPatch, store: Path
) -> None:
    """Optuna imports the package only after ten trials."""
    there = "nbckpt.trials.model.optuna.find_spec"
    monkeypatch.setattr(there, lambda name: None if name == package else name)
    kind = {"gp": "GPSampler", "cmaes": "CmaEsSampler", "qmc": "QMCSampler"}[name]
    made = getattr(optuna.samplers, kind)()
    forms = {"name": str, "sampler": lambda _: OptunaSampler(made), "study": lambda _: study}
    study = optuna.create_study(sampler=made)
    with pytest.raises(UsageError, match=rf"Optuna's {kind} needs {package}: pip install {package}"):
        searched(forms[form](name))
    assert not store.exists()


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_pruner_whose_package_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbckpt.trials.model.optuna.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"WilcoxonPruner needs scipy: pip install scipy"):
        OptunaPruner("wilcoxon")


def test_the_words_of_a_command_make_a_sampler_or_a_pruner() -> None:
    made = find_search("tpe n_startup_trials=3", None)
    assert (made.sampler, made.options) == ("tpe", {"n_startup_trials": 3})
    assert find_search("mine", {"mine": made}) is made
    assert isinstance(find_scheduler("hyperband min_resource=2", None), OptunaPruner)
    with pytest.raises(UsageError, match="cannot make Optuna's TPESampler"):
        find_search("tpe startup=3", None)


def test_ranges_can_be_written_on_the_command_line() -> None:
    assert evaluate("loguniform(1e-4, 1)", None, "lr=…") == nbckpt.loguniform(1e-4, 1)
    assert evaluate("choice(['a', x])", {"x": 1}, "k=…") == nbckpt.choice(["a", 1])
    with pytest.raises(UsageError, match=r"cannot read 'x=uniform\(1\)': write uniform\(low"):
        evaluate("uniform(1)", None, "x=uniform(1)")
    with pytest.raises(UsageError, match="cannot read"):
        evaluate("exec('1')", None, "x=exec('1')")


def steady(config: dict[str, Any]) -> None:
    for _ in range(5):
        nbckpt.report(loss=config["x"])


def test_a_pruner_stops_trials_without_a_study() -> None:
    experiment = nbckpt.run(
        steady, {"x": nbckpt.grid_search([1, 5, 2])}, executor="inline", metric="loss", mode="min",
        scheduler=OptunaPruner("threshold", upper=4),
    )  # fmt: skip
    assert [trial.iteration for trial in experiment.trials] == [5, 1, 5]
    pruned = experiment.trials[1]
    assert pruned.stopped_early
    assert pruned.note == "pruned by Optuna's ThresholdPruner at training_iteration 1"


def test_a_pruner_knows_earlier_trials_after_a_restart() -> None:
    def run(xs: list[int]) -> Experiment:
        return nbckpt.run(
            steady, {"x": nbckpt.grid_search(xs)}, name="e", executor="inline", metric="loss", mode="min",
            scheduler=OptunaPruner("median", n_startup_trials=2, n_warmup_steps=2),
        )  # fmt: skip

    assert [trial.iteration for trial in run([1, 2]).trials] == [5, 5]
    shutdown.live.clear()
    assert [trial.iteration for trial in run([1, 2, 9]).trials] == [5, 5, 2]
