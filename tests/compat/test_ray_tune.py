"""Ray Tune's names: arguments, stop rules, spaces, callbacks, and what is refused."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nbckpt
from late import library
from nbckpt import UsageError
from nbckpt.compat import ray_air as air
from nbckpt.compat import ray_tune as tune
from nbckpt.compat.arguments import MEANINGS, NOTHING_TO_DO, REFUSED, RUN
from nbckpt.compat.ray_tune import logger, schedulers, search, stopper
from nbckpt.compat.ray_tune.translation import concurrency, space, stop, translated
from nbckpt.errors import Interrupted, TrialError
from nbckpt.trials import Experiment
from nbckpt.trials.executors.process import ProcessExecutor
from nbckpt.trials.model.drawing import configs

ROOT = Path(__file__).parents[2]


def count(config: dict[str, Any]) -> None:
    for n in range(1, 6):
        tune.report(n=n, loss=1 / n)


def test_every_argument_has_one_meaning_and_is_documented() -> None:
    from nbckpt.compat import arguments

    known = [*MEANINGS, *NOTHING_TO_DO, *REFUSED]
    assert len(known) == len(set(known))
    everywhere = [RUN, arguments.TUNE_CONFIG, arguments.RUN_CONFIG, arguments.CHECKPOINT_CONFIG]
    names = set.union(*everywhere, arguments.FAILURE_CONFIG, arguments.SYNC_CONFIG)
    own = {"syncer", "sync_period", "sync_timeout", "sync_artifacts", "sync_on_checkpoint"}
    assert names - own == set(known)
    text = (ROOT / "docs/compat.md").read_text()
    assert [name for name in known if f"`{name}`" not in text] == []
    assert [
        meaning for meaning in {**MEANINGS, **NOTHING_TO_DO, **REFUSED}.values() if meaning not in text
    ] == []


UNMET: list[tuple[dict[str, Any], str]] = [
    ({"num_sample": 3}, r"tune.run\(\) has no argument 'num_sample'. Did you mean 'num_samples'\?"),
    ({"time_budget_s": -1}, "time_budget_s=-1: give seconds above 0"),
    ({"fail_fast": "no"}, "fail_fast='no' is unknown"),
    ({"fail_fast": True, "max_failures": 1}, "fail_fast needs max_failures=0"),
    ({"loggers": [print]}, "use callbacks="),
    ({"progress_reporter": object()}, "show the experiment in a notebook"),
    ({"scheduler": object()}, "scheduler=.* not available here: use ASHAScheduler"),
    ({"search_alg": 42}, "search=42 is not a search"),
    ({"resources_per_trial": {"TPU": 1}}, "counts cpu and gpu"),
    ({"num_samples": -1}, "give a number"),
    ({"resume": "PROMPT"}, "resume='PROMPT' is unknown"),
    ({"config": {"x": [tune.uniform(0, 1)]}}, "use a dict in place of the list"),
    ({"callbacks": [print]}, "is not a callback"),
]


def test_an_argument_that_cannot_be_met_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for arguments, message in UNMET:
        with subtests.test(message):
            with pytest.raises(UsageError, match=message):
                tune.run(count, local_dir=tmp_path, **arguments)
            assert list(tmp_path.iterdir()) == []


def test_arguments_that_change_nothing_are_accepted(tmp_path: Path) -> None:
    off = {
        "fail_fast": False,
        "restore": None,
        "time_budget_s": None,
        "scheduler": schedulers.FIFOScheduler(),
    }
    analysis = tune.run(count, verbose=0, reuse_actors=True, log_to_file=True, local_dir=tmp_path, **off)
    assert analysis.trials[0].last_result["n"] == 5


def test_asha_stops_trials_as_it_does_in_ray(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        for step in range(1, 100):
            tune.report(loss=config["x"] + 1 / step)

    asha = schedulers.ASHAScheduler(metric="loss", mode="min", max_t=16, reduction_factor=4)
    config = {"x": tune.grid_search([0, 1, 2])}
    analysis = tune.run(train, config=config, scheduler=asha, local_dir=tmp_path, max_concurrent_trials=1)
    assert [trial.last_result["training_iteration"] for trial in analysis.trials] == [16, 1, 1]


def test_the_median_rule_stops_trials_as_it_does_in_ray(tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> None:
        for _ in range(4):
            tune.report(loss=config["x"])

    rule = schedulers.MedianStoppingRule(
        "training_iteration", metric="loss", mode="min", grace_period=2, min_samples_required=2
    )
    config = {"x": tune.grid_search([0, 1, 2])}
    analysis = tune.run(train, config=config, scheduler=rule, local_dir=tmp_path, max_concurrent_trials=1)
    assert [trial.last_result["training_iteration"] for trial in analysis.trials] == [4, 4, 2]


def population(**options: Any) -> Any:
    return schedulers.PopulationBasedTraining(hyperparam_mutations={"x": [1, 2]}, **options)


class Adds(tune.Trainable):
    """Adds a value up."""

    def setup(self, config: dict[str, Any]) -> None:
        self.x, self.total = config["opt"]["x"], 0.0

    def step(self) -> dict[str, Any]:
        self.total += self.x
        return {"total": self.total, "x": self.x}

    def save_checkpoint(self, folder: str) -> dict[str, Any]:
        return {"total": self.total}

    def load_checkpoint(self, saved: dict[str, Any]) -> None:
        self.total = saved["total"]


def test_population_based_training_takes_over_as_in_ray(tmp_path: Path) -> None:
    pbt = schedulers.PopulationBasedTraining(
        "training_iteration",
        "total",
        "max",
        perturbation_interval=4,
        resample_probability=0,
        hyperparam_mutations={"opt": {"x": tune.uniform(0.5, 20)}},
    )
    analysis = tune.run(
        Adds,
        config={"opt": {"x": tune.grid_search([1.0, 4.0, 16.0])}},
        scheduler=pbt,
        stop={"training_iteration": 12},
        local_dir=tmp_path,
        max_concurrent_trials=1,
    )
    assert [trial.last_result["training_iteration"] for trial in analysis.trials] == [12, 12, 12]
    assert analysis.trials[0].last_result["x"] > 2
    assert analysis.trials[0].last_result["x"] == analysis.trials[0].config["opt"]["x"]


def test_optuna_search_is_where_ray_has_it() -> None:
    assert import_module("nbckpt.compat.ray_tune.search.optuna").OptunaSearch is search.OptunaSearch


def test_optuna_search_draws_and_tries_points_first(tmp_path: Path) -> None:
    library("optuna", reason="needs Optuna")

    def train(config: dict[str, Any]) -> None:
        tune.report(loss=config["x"])

    optuna_search = search.OptunaSearch(metric="loss", mode="min", points_to_evaluate=[{"x": 0.5}], seed=1)
    analysis = tune.run(
        train,
        config={"x": tune.quniform(0, 1, 0.125)},
        search_alg=optuna_search,
        num_samples=3,
        local_dir=tmp_path,
    )
    assert analysis.trials[0].config == {"x": 0.5}
    assert len(analysis.trials) == 3
    with pytest.raises(UsageError, match="as the config of"):
        search.OptunaSearch({"x": tune.uniform(0, 1)})


MISSING: list[tuple[Callable[[], object], str]] = [
    (lambda: schedulers.MedianStoppingRule(hard_stop=False), "hard_stop=False is not available"),
    (lambda: tune.TuneConfig(metrics="loss"), "TuneConfig has no argument 'metrics'. Did you mean 'metric'"),
    (lambda: air.CheckpointConfig(keep=1), "CheckpointConfig has no argument 'keep'"),
    (lambda: logger.TBXLoggerCallback, "nbckpt.integrations.tensorboard.TensorBoardCallback"),
    (lambda: logger.UnifiedLogger, "subclass ray_tune.Callback"),
    (lambda: tune.SyncConfig(sync_to_cloud="aws s3"), "use syncer="),
    (lambda: tune.Tuner(count, space={}), r"Tuner\(\) has no argument 'space'"),
    (lambda: tune.Tuner.restore("x", restart_errored=True), "no argument 'restart_errored'"),
    (lambda: schedulers.PopulationBasedTraining(), "hyperparam_mutations is missing"),
    (lambda: population(synch=True), "synch=True is not available here"),
    (lambda: population(burn_in_period=3), "burn_in_period=3 is not available here"),
    (lambda: population(custom_explore_fn=dict), "give functions as mutations"),
    (lambda: population(quantile_fraction=0.7), "quantile=0.7 is impossible"),
    (lambda: schedulers.PopulationBasedTrainingReplay, "use ASHAScheduler"),
    (lambda: schedulers.PB2, "PB2 is not available .* use ASHAScheduler"),
    (lambda: search.HyperOptSearch, "use OptunaSearch"),
    (lambda: stopper.TrialPlateauStopper, "give stop a dict of metrics"),
    (lambda: tune.CLIReporter, "show the experiment in a notebook"),
    (lambda: air.ScalingConfig, "torchrun"),
    (lambda: tune.with_resources(count, 2), "takes a dict such as"),
    (lambda: tune.run("unknown"), "no trainable is registered as 'unknown'"),
    (lambda: tune.Tuner(count).get_results(), "call fit"),
]


def test_what_is_missing_is_refused_by_name(subtests: pytest.Subtests) -> None:
    for make, message in MISSING:
        with subtests.test(message), pytest.raises(UsageError, match=message):
            make()


def endless(config: dict[str, Any]) -> None:
    while True:
        tune.report(n=1)


def test_a_time_budget_stops_the_whole_experiment(tmp_path: Path) -> None:
    """The trials never end by themselves, and the second one has to wait for the first."""
    analysis = tune.run(
        endless, num_samples=2, max_concurrent_trials=1, time_budget_s=0.01, local_dir=tmp_path
    )
    assert [trial.status for trial in analysis.trials] == ["TERMINATED"] * 2
    assert len(analysis.trials[1].results) == 0
    again = tune.run(endless, time_budget_s=timedelta(milliseconds=1), local_dir=tmp_path, executor="inline")
    assert again.trials[0].status == "TERMINATED"


def fails(config: dict[str, Any]) -> None:
    tune.report(n=1)
    raise ValueError("at once")


def test_fail_fast_stops_the_other_trials(tmp_path: Path) -> None:
    given = {"num_samples": 3, "max_concurrent_trials": 1, "fail_fast": True, "local_dir": tmp_path}
    with pytest.raises(TrialError, match=r"t0 of .* failed: ValueError: at once"):
        tune.run(fails, name="e", **given)
    trials = tune.ExperimentAnalysis(tmp_path / "e").trials
    assert [trial.status for trial in trials] == ["ERROR", "TERMINATED", "TERMINATED"]
    assert [len(trial.results) for trial in trials] == [1, 0, 0]
    config = air.RunConfig(failure_config=air.FailureConfig(fail_fast="raise"), storage_path=str(tmp_path))
    with pytest.raises(ValueError, match="at once"):
        tune.Tuner(fails, run_config=config).fit()


def test_restore_starts_trials_from_a_checkpoint(tmp_path: Path) -> None:
    def train(config: dict[str, Any], checkpoint_dir: str | None = None) -> None:
        start = int((Path(checkpoint_dir) / "n").read_text()) if checkpoint_dir else 0
        with tune.checkpoint_dir(step=1) as folder:
            (Path(folder) / "n").write_text(str(start + 1))
        tune.report(n=start + 1)

    first = tune.run(train, metric="n", mode="max", local_dir=tmp_path)
    again = tune.run(train, metric="n", mode="max", restore=first.best_checkpoint, local_dir=tmp_path)
    assert again.best_result["n"] == 2


def test_file_loggers_write_every_result(tmp_path: Path) -> None:
    analysis = tune.run(count, loggers=logger.DEFAULT_LOGGERS, local_dir=tmp_path)
    folder = Path(analysis.trials[0].logdir)
    lines = (folder / "result.json").read_text().splitlines()
    assert [json.loads(line)["n"] for line in lines] == [1, 2, 3, 4, 5]
    rows = list(csv.DictReader((folder / "progress.csv").read_text().splitlines()))
    assert [row["loss"] for row in rows] == [str(1 / n) for n in range(1, 6)]


def test_a_stop_threshold_is_reached_from_below_in_either_mode(tmp_path: Path) -> None:
    analysis = tune.run(
        count, metric="loss", mode="min", stop={"loss": 0.4, "n": 4}, name="a", local_dir=tmp_path
    )
    assert analysis.trials[0].last_result["n"] == 1
    other = tune.run(count, metric="n", mode="max", stop={"n": 4}, name="b", local_dir=tmp_path)
    assert other.trials[0].last_result["n"] == 4


class StopAll(tune.Stopper):
    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return True


def test_stop_takes_functions_and_stoppers(tmp_path: Path) -> None:
    conditions: list[tuple[Any, int]] = [
        (lambda trial_id, result: result["n"] == 2, 2),
        (stopper.MaximumIterationStopper(3), 3),
        ([{"n": 9}, stopper.MaximumIterationStopper(2)], 2),
        (StopAll(), 1),
    ]
    analyses = [tune.run(count, stop=condition, local_dir=tmp_path) for condition, _ in conditions]
    assert [analysis.trials[0].last_result["n"] for analysis in analyses] == [last for _, last in conditions]


def test_a_condition_that_nbckpt_understands_is_left_as_it_is() -> None:
    assert stop({"n": 4}, "loss", "min") == {"n": 4}
    reached: Any = stop({"loss": 0.5}, "loss", "min")
    assert [reached("t0", {"loss": np.float32(loss)}) for loss in (0.4, 0.6)] == [False, True]
    assert stop(None, "", "") is None


def test_a_space_may_be_written_as_rays_dicts() -> None:
    drawn = list(
        configs(space({"a": {"grid_search": [1, 2]}, "b": {"c": tune.sample_from(lambda: 3)}}), 1, 0)
    )
    assert drawn == [{"a": 1, "b": {"c": 3}}, {"a": 2, "b": {"c": 3}}]


def test_quantized_values_include_both_ends() -> None:
    ranges = {"u": tune.quniform(0.2, 0.6, 0.2), "i": tune.qrandint(2, 6, 2), "n": tune.qrandn(0, 10, 5)}
    ranges |= {"l": tune.qlograndint(2, 6, 2), "g": tune.qloguniform(1, 3, 1)}
    drawn = list(configs(ranges, 300, 0))
    assert {round(config["u"], 6) for config in drawn} == {0.2, 0.4, 0.6}
    assert {config["i"] for config in drawn} == {config["l"] for config in drawn} == {2, 4, 6}
    assert {config["g"] for config in drawn} == {1, 2, 3}
    assert {config["n"] % 5 for config in drawn} == {0}
    with pytest.raises(UsageError, match=r"0\.5 is not a multiple of 0\.2"):
        tune.quniform(0, 0.5, 0.2)


def test_resources_set_how_many_trials_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert concurrency({}, None) is None
    assert concurrency({"cpu": 2, "gpu": 0}, None) == 4
    assert concurrency({"CPU": 2}, 3) == 3
    assert concurrency({"cpu": 100}, None) == concurrency({"gpu": 1}, None) == 1
    assert concurrency({"gpu": 0.5}, None) == 2


def test_checkpoint_settings_are_translated(tmp_path: Path) -> None:
    config = air.CheckpointConfig(
        num_to_keep=2, checkpoint_score_attribute="acc", checkpoint_frequency=3, checkpoint_at_end=True
    )
    arguments = translated(
        {"checkpoint_config": config, "failure_config": air.FailureConfig(max_failures=-1)}
    )
    assert arguments["keep_checkpoints"] == nbckpt.trials.RetentionPolicy(2, "acc", "max")
    assert (arguments["checkpoint_every"], arguments["max_failures"] > 1000) == (3, True)
    lowest = translated({"keep_checkpoints_num": 1, "checkpoint_score_attr": "min-loss"})
    assert lowest["keep_checkpoints"] == nbckpt.trials.RetentionPolicy(1, "loss", "min")
    assert translated({"keep_checkpoints_num": 1})["keep_checkpoints"] == nbckpt.trials.RetentionPolicy(1)
    assert translated({"storage_path": "memory://x"})["sync_config"].upload_dir == "memory://x"
    assert translated({"storage_path": tmp_path})["folder"] == tmp_path


def test_checkpoint_at_end_saves_a_class_once(tmp_path: Path) -> None:
    config = {"opt": {"x": 2}}
    analysis = tune.run(Adds, config=config, stop={"total": 6}, checkpoint_at_end=True, local_dir=tmp_path)
    (trial,) = analysis.trials
    (saved,) = analysis.get_trial_checkpoints_paths(trial)
    assert saved == (analysis.get_last_checkpoint(), 3)
    assert air.Checkpoint.from_directory(saved[0]).to_dict() == {"total": 6}


def test_a_second_run_of_a_name_keeps_the_first(tmp_path: Path) -> None:
    first = tune.run(count, name="e", local_dir=tmp_path)
    second = tune.run(count, name="e", local_dir=tmp_path)
    assert Path(first.experiment_path).name == "e"
    assert Path(second.experiment_path).name == "e-2"
    resumed = tune.run(count, name="e", resume=True, local_dir=tmp_path)
    assert resumed.experiment_path == second.experiment_path
    assert len(resumed.trials) == 1


def fails_once(config: dict[str, Any]) -> None:
    mark = Path(config["mark"])
    if not mark.exists():
        mark.touch()
        raise RuntimeError("no luck")
    tune.report(n=1)


def test_a_failed_trial_raises_and_is_retried_on_request(tmp_path: Path) -> None:
    config = {"mark": str(tmp_path / "mark")}
    with pytest.raises(TrialError, match=r"t0 of 'e' failed: RuntimeError: no luck.*ERRORED_ONLY"):
        tune.run(fails_once, config=config, name="e", local_dir=tmp_path)
    analysis = tune.run(fails_once, config=config, name="e", resume="ERRORED_ONLY", local_dir=tmp_path)
    assert analysis.trials[0].status == "TERMINATED"


def test_a_tuner_continues_what_was_interrupted(tmp_path: Path) -> None:
    config = {"mark": str(tmp_path / "mark")}
    run_config = air.RunConfig(name="e", storage_path=str(tmp_path))
    results = tune.Tuner(fails_once, param_space=config, run_config=run_config).fit()
    assert (results.num_errors, results.num_terminated) == (1, 0)
    assert "no luck" in str(results[0].error)
    tuner = tune.Tuner.restore(tmp_path / "e", fails_once, resume_errored=True)
    assert tune.Tuner.can_restore(tmp_path / "e")
    (result,) = tuner.fit()
    assert (result.error, result.metrics["n"]) == (None, 1)


def test_a_restored_tuner_keeps_scheduler_search_and_points(tmp_path: Path) -> None:
    pytest.importorskip("optuna")

    def train(config: dict[str, Any]) -> None:
        if not (tmp_path / "mark").exists():
            (tmp_path / "mark").touch()
            raise RuntimeError("no luck")
        for _ in range(8):
            tune.report(loss=1)

    points = search.OptunaSearch(points_to_evaluate=[{"x": 0.5}], seed=1)
    settings = tune.TuneConfig(
        metric="loss",
        mode="min",
        num_samples=2,
        max_concurrent_trials=1,
        search_alg=points,
        scheduler=schedulers.ASHAScheduler(max_t=4),
    )
    config = air.RunConfig(name="e", storage_path=str(tmp_path))
    first = tune.Tuner(train, param_space={"x": tune.uniform(0, 1)}, tune_config=settings, run_config=config)
    failed = first.fit().experiment
    results = tune.Tuner.restore(tmp_path / "e", train, resume_errored=True).fit()
    assert [result.metrics["training_iteration"] for result in results] == [4, 4]
    spec = results.experiment.spec
    assert (spec.scheduler.max_t, spec.points) == (4, ({"x": 0.5},))
    assert isinstance(spec.search, search.OptunaSearch)
    assert len(results) == len(failed.trials) == 2


def test_a_restored_tuner_measures_what_it_measured(tmp_path: Path) -> None:
    pytest.importorskip("psutil")
    settings = {"provenance": False, "system_metrics": True}
    nbckpt.run(count, name="e", folder=tmp_path, executor="inline", **settings)
    spec = tune.Tuner.restore(tmp_path / "e", count).fit().experiment.spec
    assert {name: getattr(spec, name) for name in settings} == settings


def test_ctrl_c_pauses_the_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait, waits = Experiment.wait, []

    def interrupted(experiment: Experiment, timeout: float | None = None) -> bool:
        waits.append(experiment)
        if len(waits) == 1:
            raise KeyboardInterrupt
        return wait(experiment, timeout)

    def train(config: dict[str, Any]) -> None:
        for n in range(10**6):
            tune.report(n=n)

    monkeypatch.setattr(Experiment, "wait", interrupted)
    with pytest.raises(Interrupted, match=r"paused. Continue: Tuner.restore\(.*e'\).fit\(\)"):
        tune.run(train, name="e", local_dir=tmp_path)
    assert waits[0].trial("t0").status == "PAUSED"
    results = tune.Tuner.restore(tmp_path / "e", lambda config: tune.report(n=-1)).fit()
    assert results[0].metrics["n"] == -1
    assert results.experiment is waits[0]


def test_gpus_are_reserved_where_trials_are_processes(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    for given, reserved, most in (
        ({"executor": "process"}, {"GPU": 1}, 3),
        ({"executor": ProcessExecutor()}, {"GPU": 1}, 3),
        ({"executor": "slurm partition=gpu"}, {"CPU": 2, "GPU": 1}, None),
        ({"executor": "ray"}, {"CPU": 2, "GPU": 1}, None),
        ({"executor": "thread"}, None, 1),
        ({}, None, 1),
    ):
        with subtests.test(str(given)):
            arguments = translated({**given, "resources_per_trial": {"cpu": 2, "gpu": 1}})
            assert (arguments.get("resources_per_trial"), arguments["max_concurrent"]) == (reserved, most)


@pytest.mark.slow
def test_a_trial_of_a_process_sees_the_gpus_it_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBCKPT_GPUS", "3,7")
    monkeypatch.setenv("NBCKPT_RUNTIME", str(tmp_path / "locks"))

    def train(config: dict[str, Any]) -> None:
        gpus = os.environ["CUDA_VISIBLE_DEVICES"]
        tune.report({"pid": os.getpid(), "trial": tune.get_context().get_trial_id(), "gpus": gpus})

    resources = {"cpu": 1, "gpu": 2}
    analysis = tune.run(train, local_dir=tmp_path, executor="process", resources_per_trial=resources)
    last = analysis.trials[0].last_result
    assert (last["trial"], last["gpus"]) == ("t0", "3,7")
    assert last["pid"] != os.getpid()


class Recording(tune.Callback):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def setup(self, **info: Any) -> None:
        self.seen.append(("setup", info["num_samples"]))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.seen.append((iteration, len(trials), trial.trial_id, result["n"]))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.seen.append(("complete", trial.config))

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        self.seen.append(("end", [trial.status for trial in trials]))


def test_callbacks_get_rays_hooks(tmp_path: Path) -> None:
    callback = Recording()
    tune.run(count, config={"x": 1}, stop={"n": 2}, callbacks=[callback], local_dir=tmp_path)
    assert callback.seen[:3] == [("setup", 1), (1, 1, "t0", 1), (2, 1, "t0", 2)]
    assert callback.seen[3:] == [("complete", {"x": 1}), ("end", ["TERMINATED"])]


def test_a_hook_that_is_never_called_is_refused(tmp_path: Path) -> None:
    class Stepping(tune.Callback):
        def on_step_end(self, iteration: int, trials: list[Any]) -> None: ...

    text = r"Stepping.on_step_end\(\) would never be called: use on_trial_result"
    with pytest.raises(UsageError, match=text):
        tune.run(count, callbacks=[Stepping()], local_dir=tmp_path)


def test_results_are_compared_by_scope(tmp_path: Path) -> None:
    def wave(config: dict[str, Any]) -> None:
        for value in config["values"]:
            tune.report(value)

    values = [[3, 0, 1], [2, 2, 2], [1, 1, float("nan")]]
    analysis = tune.run(wave, config={"values": tune.grid_search(values)}, local_dir=tmp_path)
    best = {"min last": 3, "min all": 3, "max all": 3, "min avg": 1, "max last": 2}
    assert best == {asked: analysis.get_best_config("_metric", *asked.split())["values"][0] for asked in best}
    assert analysis.trials[0].metric_analysis["_metric"] == {"last": 1, "min": 0, "max": 3, "avg": 4 / 3}
    with pytest.raises(UsageError, match="no trial reported 'loss': there are _metric"):
        analysis.get_best_trial("loss", "min")
    with pytest.raises(UsageError, match="which metric"):
        _ = analysis.best_trial
    with pytest.raises(UsageError, match="scope='first' is unknown"):
        analysis.get_best_trial("_metric", "min", "first")


def test_frames_have_rays_columns(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    analysis = tune.run(
        count, config={"a": {"b": tune.grid_search([1, 2])}}, metric="loss", mode="min", local_dir=tmp_path
    )
    frame = analysis.dataframe("loss", "max")
    assert list(frame["n"]) == [1, 1]
    assert list(frame["config/a/b"]) == [1, 2]
    assert list(analysis.results_df.index) == ["t0", "t1"]
    assert list(analysis.best_dataframe["n"]) == [1, 2, 3, 4, 5]
    assert list(analysis.best_result_df["n"]) == [5]
    assert {len(frame) for frame in analysis.trial_dataframes.values()} == {5}
    assert analysis.get_all_configs()[analysis.best_logdir] == analysis.best_config == {"a": {"b": 1}}


def test_a_durable_function_needs_a_place(tmp_path: Path) -> None:
    sync = tune.SyncConfig(upload_dir=(tmp_path / "far").as_uri())

    def train(config: dict[str, Any]) -> None:
        tune.report({"n": 1}, checkpoint=air.Checkpoint.from_dict({"n": 1}))

    analysis = tune.run(tune.durable(train), name="e", sync_config=sync, local_dir=tmp_path / "near")
    assert analysis.trials[0].checkpoint is not None
    assert any((tmp_path / "far" / "e" / "t0").iterdir())
    with pytest.raises(UsageError, match="needs sync_config=SyncConfig"):
        tune.run(tune.durable(train), local_dir=tmp_path)


def test_a_registered_trainable_is_found_by_its_name(tmp_path: Path) -> None:
    tune.register_trainable("counting", count)
    assert tune.run("counting", local_dir=tmp_path).trials[0].last_result["n"] == 5


def test_settings_of_a_sync_are_kept_beside_a_place() -> None:
    config = tune.SyncConfig(upload_dir="memory://a", sync_period=5)
    arguments = translated({"sync_config": config, "storage_path": "memory://b"})
    assert arguments["sync_config"] == tune.SyncConfig(upload_dir="memory://b", sync_period=5)
    assert translated({"sync_config": tune.SyncConfig()})["sync_config"] is None


def test_outside_a_trial_the_functions_do_nothing(tmp_path: Path) -> None:
    assert not tune.is_session_enabled()
    tune.report(0.5)
    with tune.checkpoint_dir(step=1) as folder:
        assert Path(folder).is_dir()
        assert type(folder) is str
