"""Optuna: a study of the user's, or samplers by name, give configurations and learn the results."""

from __future__ import annotations

import math
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trials.conftest import ran

import nbckpt
from late import library
from nbckpt.commands.values import evaluate, find_scheduler, find_search
from nbckpt.errors import UsageError
from nbckpt.trials import Experiment, OptunaPruner, OptunaSampler, Status
from nbckpt.trials.engine import shutdown
from nbckpt.trials.engine.runner import runner_of

optuna = library("optuna", reason="needs Optuna")

SPACE = {
    "lr": nbckpt.loguniform(1e-5, 1),
    "layers": nbckpt.choice([1, 2]),
    "opt": {"momentum": nbckpt.uniform(0, 1), "kind": nbckpt.grid_search(["sgd", "adam"])},
    "epochs": 3,
}


def study(**kwargs: Any) -> Any:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    kwargs.setdefault("pruner", optuna.pruners.NopPruner())
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1), **kwargs)


def train(config: dict[str, Any]) -> None:
    for epoch in range(config["epochs"]):
        nbckpt.report(loss=config["opt"]["momentum"] + config["layers"] / (epoch + 1))


def search(fn: Any, study: Any, space: dict[str, Any] | None = None, **kwargs: Any) -> Experiment:
    settings = {"metric": "loss", "mode": "min", "max_concurrent": 1, **kwargs}
    return ran(fn, SPACE if space is None else space, search=study, **settings)


def states(study: Any) -> list[str]:
    return [trial.state.name for trial in study.trials]


def test_a_study_suggests_configurations_and_gets_every_result() -> None:
    given = study()
    experiment = search(train, given, num_samples=20, max_concurrent=3)
    assert experiment.notes == []
    assert states(given) == ["COMPLETE"] * 20
    known = {trial.user_attrs["nbckpt.trial"]: trial for trial in given.trials}
    for trial in experiment.trials:
        params = known[trial.id].params
        inner = {"momentum": params["opt/momentum"], "kind": params["opt/kind"]}
        assert trial.config == {"lr": params["lr"], "layers": params["layers"], "opt": inner, "epochs": 3}
        assert known[trial.id].intermediate_values == dict(enumerate(trial.metric("loss"), 1))
        assert known[trial.id].value == trial.metrics["loss"]
    assert given.best_value == experiment.best().metrics["loss"]
    assert {trial.config["opt"]["kind"] for trial in experiment.trials} == {"sgd", "adam"}


class Model:
    """Two of these are equal only if they are the same."""


MODELS = [Model(), Model()]


@pytest.mark.parametrize("others", [{}, {"metric": ["loss", "size"], "mode": ["min", "min"]}])
def test_a_number_too_large_for_a_float_ends_no_search(others: dict[str, Any]) -> None:
    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=next(losses), size=1)

    losses = iter([1, 10**400, -(10**400), 2])
    given = study(directions=["minimize"] * 2) if others else study()
    experiment = search(train, given, num_samples=4, **others)
    assert experiment.notes == []
    assert [trial.values[0] for trial in given.trials] == [1.0, math.inf, -math.inf, 2.0]
    later = study(directions=["minimize"] * 2) if others else study()
    assert search(train, later, num_samples=4, name=experiment.name, **others).notes == []
    assert [trial.values[0] for trial in later.trials] == [1.0, math.inf, -math.inf, 2.0]


def test_values_that_optuna_cannot_store_are_sent_as_indexes() -> None:
    seen = []

    def train(config: dict[str, Any]) -> None:
        seen.append(config["model"])
        nbckpt.report(loss=0)

    given = study()
    search(train, given, {"model": nbckpt.choice(MODELS)}, num_samples=8)
    assert [MODELS[trial.params["model"]] for trial in given.trials] == seen
    assert set(seen) == set(MODELS)


def test_each_end_of_a_trial_has_its_optuna_state() -> None:
    def train(config: dict[str, Any]) -> None:
        if config["end"] == "fails":
            raise ValueError("no")
        if config["end"] != "silent":
            nbckpt.report(loss=3.0)
            nbckpt.report(loss=float("nan") if config["end"] == "nan" else 1.0)
            nbckpt.report(other=0)

    given = study()
    ends = ["fails", "silent", "nan", "done"]
    for end in ends:
        given.enqueue_trial({"end": end})
    search(train, given, {"end": nbckpt.choice(ends)}, num_samples=4)
    assert [trial.params["end"] for trial in given.trials] == ends
    assert states(given) == ["FAIL", "FAIL", "FAIL", "COMPLETE"]
    assert given.trials[3].value == 1.0


def test_a_trial_that_a_user_stops_is_pruned() -> None:
    reported, go = threading.Event(), threading.Event()

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1.0)
        reported.set()
        assert go.wait(60)
        nbckpt.report(loss=0.5)
        nbckpt.report(loss=0.1)

    given = study()
    experiment = nbckpt.run(train, SPACE, search=given, metric="loss", mode="min")
    assert reported.wait(60)
    experiment.stop()
    go.set()
    assert experiment.wait(60)
    assert states(given) == ["PRUNED"]
    assert given.trials[0].intermediate_values == {1: 1.0, 2: 0.5}


def test_a_study_prunes_trials() -> None:
    def train(config: dict[str, Any]) -> None:
        for epoch in range(1, 6):
            nbckpt.report(loss=config["slope"] * epoch)

    given = study(direction="maximize", pruner=optuna.pruners.ThresholdPruner(upper=3.5))
    for slope in (1.0, 0.1, 2.0):
        given.enqueue_trial({"slope": slope})
    experiment = search(train, given, {"slope": nbckpt.uniform(0, 2)}, num_samples=3, mode="max")
    assert [trial.iteration for trial in experiment.trials] == [4, 5, 2]
    assert [trial.note for trial in experiment.trials] == ["pruned by Optuna", "done", "pruned by Optuna"]
    assert [trial.status for trial in experiment.trials] == [Status.TERMINATED] * 3
    assert states(given) == ["PRUNED", "COMPLETE", "PRUNED"]
    assert given.best_value == 0.5


def test_a_rerun_adds_trials_up_to_num_samples() -> None:
    given = study()
    search(train, given, num_samples=3, name="e")
    assert len(search(train, given, num_samples=5, name="e").trials) == 5
    assert len(search(train, given, num_samples=5, name="e").trials) == 5
    assert states(given) == ["COMPLETE"] * 5


def cut(config: dict[str, Any]) -> None:
    checkpoint = nbckpt.get_checkpoint()
    for i in range(checkpoint.to_dict()["i"] if checkpoint else 0, 4):
        nbckpt.report(loss=float(i), first=checkpoint is None, checkpoint={"i": i + 1} if i % 2 else None)


def cut_off(given: Any, space: dict[str, Any]) -> Experiment:
    """Return an experiment as a kernel leaves it that dies after the second trial's third result."""
    search(cut, given, space, num_samples=1, name="e")
    reached, go = threading.Event(), threading.Event()

    def until_three(config: dict[str, Any]) -> None:
        for i in range(3):
            nbckpt.report(loss=float(i), first=True, checkpoint={"i": i + 1} if i % 2 else None)
        reached.set()
        assert go.wait(60)
        nbckpt.report(loss=9.0, first=True)

    experiment = nbckpt.run(
        until_three, space, search=given, num_samples=2, name="e", metric="loss", mode="min", max_concurrent=1
    )
    assert reached.wait(60)
    journal = experiment.trials[1].folder / "events.jsonl"
    kept = journal.read_bytes()
    experiment.pause()
    go.set()
    assert experiment.wait(60)
    journal.write_bytes(kept)
    shutdown.live.clear()
    return experiment


@pytest.mark.slow
def test_a_new_kernel_resumes_a_trial_without_a_new_suggestion(tmp_path: Path) -> None:
    space = {"x": nbckpt.uniform(0, 1), "model": nbckpt.choice(MODELS)}
    storage = f"sqlite:///{tmp_path}/study.db"
    before = cut_off(study(storage=storage, study_name="s"), space)
    again = optuna.load_study(study_name="s", storage=storage)
    experiment = search(cut, again, space, num_samples=3, name="e")
    assert experiment is not before
    assert experiment.notes == []
    assert [trial.config for trial in experiment.trials[:2]] == [trial.config for trial in before.trials]
    assert [result["first"] for result in experiment.trials[1].results] == [True, True, False, False]
    assert states(again) == ["COMPLETE"] * 3
    assert again.trials[1].user_attrs["nbckpt.trial"] == "t1"
    assert again.trials[1].value == 3.0


def test_a_new_study_gets_the_existing_trials() -> None:
    space = {"x": nbckpt.uniform(0, 1), "model": nbckpt.choice(MODELS)}
    before = cut_off(study(), space)
    fresh = study()
    experiment = search(cut, fresh, space, num_samples=3, name="e")
    assert states(fresh) == ["COMPLETE"] * 3
    assert {trial.user_attrs["nbckpt.trial"] for trial in fresh.trials} == {"t0", "t1", "t2"}
    for trial in fresh.trials:
        config = experiment.trial(trial.user_attrs["nbckpt.trial"]).config
        assert config == {"x": trial.params["x"], "model": MODELS[trial.params["model"]]}
        assert trial.value == 3.0
    assert [trial.config for trial in before.trials] == [trial.config for trial in experiment.trials[:2]]


def test_trials_outside_the_space_are_not_told_and_said_once() -> None:
    search(train, study(), num_samples=2, name="e")
    fresh = study()
    experiment = search(train, fresh, {**SPACE, "layers": nbckpt.choice([3])}, num_samples=3, name="e")
    (note,) = experiment.notes
    assert note.startswith("Optuna does not learn of trials outside the space, such as t0: ")
    assert [trial.user_attrs["nbckpt.trial"] for trial in fresh.trials] == ["t2"]


def test_repeated_steps_are_reported_once() -> None:
    failed = []

    def train(config: dict[str, Any]) -> None:
        for i in range(4):
            nbckpt.report(loss=float(i + 10 * len(failed)))
            if i == 2 and not failed:
                failed.append(1)
                raise ValueError("once")

    given = study()
    experiment = search(train, given, num_samples=1, max_failures=1)
    assert experiment.notes == []
    assert states(given) == ["COMPLETE"]
    assert given.trials[0].intermediate_values == {1: 0.0, 2: 1.0, 3: 2.0, 4: 13.0}


def test_a_failed_trial_that_is_resumed_becomes_complete() -> None:
    failed = []

    def train(config: dict[str, Any]) -> None:
        if not failed:
            failed.append(1)
            raise ValueError("once")
        nbckpt.report(loss=1.0)

    given = study()
    experiment = search(train, given, num_samples=1)
    experiment.resume(errored=True)
    assert experiment.wait(60)
    assert states(given) == ["FAIL", "COMPLETE"]
    assert given.trials[0].params == given.trials[1].params


def test_a_trial_told_by_the_user_is_not_changed() -> None:
    given = study()

    def train(config: dict[str, Any]) -> None:
        nbckpt.report(loss=1.0)
        if not config["n"]:
            given.tell(0, 5.0)

    given.enqueue_trial({"n": 0})
    given.enqueue_trial({"n": 1})
    experiment = search(train, given, {"n": nbckpt.choice([0, 1])}, num_samples=2)
    assert experiment.notes == []
    assert [trial.value for trial in given.trials] == [5.0, 1.0]


def test_a_suggestion_without_a_trial_is_closed_after_a_crash() -> None:
    given = study()
    experiment = search(train, given, num_samples=1, name="e")
    orphan = given.ask()
    for name, text in given.trials[0].user_attrs.items():
        orphan.set_user_attr(name, "t1" if name == "nbckpt.trial" else text)
    given.ask()  # someone else's
    experiment = search(train, given, num_samples=2, name="e")
    assert states(given) == ["COMPLETE", "FAIL", "RUNNING", "COMPLETE"]
    assert len(experiment.trials) == 2


def test_experiments_with_one_name_have_separate_optuna_trials(store: Path) -> None:
    given = study()
    search(train, given, num_samples=1, name="e")
    search(train, given, num_samples=1, name="e", folder=store / "other")
    assert states(given) == ["COMPLETE"] * 2


def test_a_failing_study_ends_the_search_with_a_note() -> None:
    given = study()
    given.ask({"layers": optuna.distributions.CategoricalDistribution([7, 8])})
    experiment = search(train, given, num_samples=3)
    assert experiment.trials == ()
    assert "the search is over since suggest failed: ValueError: " in experiment.notes[0]


@pytest.mark.parametrize(
    ("kwargs", "study_kwargs", "message"),
    [
        ({"metric": ""}, {}, "needs metric='loss' and mode='min'"),
        ({"mode": ""}, {}, "needs metric='loss' and mode='min'"),
        ({"mode": "max"}, {}, r"is to minimize and mode='max'.*direction='maximize'"),
        ({}, {"direction": "maximize"}, r"is to maximize and mode='min'.*direction='minimize'"),
        ({}, {"directions": ["minimize", "maximize"]}, "2 objectives"),
        ({"space": {"lr": 1}}, {}, "nothing to search"),
    ],
)
def test_an_unsuitable_study_is_refused_and_nothing_is_created(
    kwargs: dict[str, Any], study_kwargs: dict[str, Any], message: str, store: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        search(train, study(**study_kwargs), **kwargs)
    assert not store.exists()


def test_without_optuna_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    given = study()
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r"^search=study needs Optuna: pip install 'nbckpt\[optuna\]'$"):
        search(train, given)


def test_a_study_draws_the_whole_numbers_of_randint() -> None:
    space = {"n": nbckpt.randint(2, 5)}
    experiment = search(lambda config: nbckpt.report(loss=config["n"]), study(), space, num_samples=30)
    assert {trial.config["n"] for trial in experiment.trials} == {2, 3, 4}


def test_a_study_cannot_draw_from_a_function() -> None:
    with pytest.raises(UsageError, match="Optuna cannot draw from SampleFrom"):
        search(train, study(), {"n": nbckpt.sample_from(lambda spec: 1)})


NESTED = {
    "x": nbckpt.uniform(-1, 1),
    "deep": {"kind": nbckpt.choice(["a", "b"]), "q": nbckpt.quniform(0, 1, 0.25)},
    "epochs": 2,
}


def train_nested(config: dict[str, Any]) -> None:
    for epoch in range(config["epochs"]):
        nbckpt.report(loss=config["x"] ** 2 + config["deep"]["q"] - epoch / 100)


def searched(search: Any = "random", num_samples: int = 5, **settings: Any) -> Experiment:
    settings = {"metric": "loss", "mode": "min", "executor": "inline", "seed": 7, "name": "e", **settings}
    experiment = ran(train_nested, NESTED, search=search, num_samples=num_samples, **settings)
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
        paused, NESTED, search="random", name="e", executor="thread", metric="loss", mode="min", seed=7
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
        nbckpt.run(train_nested, NESTED, search="tpe")
    with pytest.raises(UsageError, match="nothing to search"):
        nbckpt.run(train_nested, {"x": 1}, search="tpe", metric="loss", mode="min")


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
