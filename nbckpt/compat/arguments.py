"""Arguments of Ray's functions and settings: what each means here, and what to use in place of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbckpt.errors import UsageError
from nbckpt.suggestion import suggestion

MEANINGS = {
    "name": "the experiment's name; a second experiment of this name is kept as NAME-2",
    "metric": "the metric that compares trials",
    "mode": "`min` or `max`",
    "stop": "what ends a trial: a dict of metrics, reached with `>=`, or a function",
    "config": "the configuration, with `grid_search`, `choice` and the others",
    "num_samples": "how often the whole grid is tried",
    "resources_per_trial": "`cpu` and `gpu` set how many trials run side by side. With `process` each "
    "trial has its `gpu` for itself, with `ray` and `slurm` all are reserved",
    "max_concurrent_trials": "how many trials run side by side",
    "local_dir": "the folder of experiments",
    "storage_path": "the folder of experiments, or a URL to sync them to",
    "upload_dir": "a URL to sync the experiment to",
    "sync_config": "where and how to sync the experiment",
    "search_alg": "`OptunaSearch`, a sampler's name, an Optuna study, or an `nbckpt.trials.Search`",
    "scheduler": "`ASHAScheduler`, `MedianStoppingRule`, `PopulationBasedTraining` and `FIFOScheduler`",
    "keep_checkpoints_num": "how many of each trial's checkpoints are kept",
    "num_to_keep": "how many of each trial's checkpoints are kept",
    "checkpoint_score_attr": "the metric whose best checkpoints are kept; `min-METRIC` for the lowest",
    "checkpoint_score_attribute": "which checkpoints are kept: the best by this metric",
    "checkpoint_score_order": "`max` or `min`",
    "checkpoint_freq": "after how many results a Trainable is saved",
    "checkpoint_frequency": "after how many results a Trainable is saved",
    "checkpoint_at_end": "whether a Trainable is saved at its end; it always is if it is saved at all",
    "checkpoint_config": "a `CheckpointConfig`",
    "failure_config": "a `FailureConfig`",
    "max_failures": "how often a failed trial is retried; -1 for always",
    "resume": "`True` resumes the last experiment of this name, `ERRORED_ONLY` also retries failed trials",
    "run_errored_only": "whether failed trials are retried with `resume=True`",
    "raise_on_failed_trial": "whether a failed trial raises an error in the end; by default it does",
    "time_budget_s": "how many seconds the experiment may take; then all trials stop with their next result",
    "fail_fast": "`True` stops all trials when one fails; `raise` raises its error too; no retries",
    "restore": "the checkpoint that trials start from: a path, a URL or a `Checkpoint`",
    "loggers": "`JsonLogger`, `CSVLogger` or `DEFAULT_LOGGERS` of `ray_tune.logger`; others are callbacks",
    "callbacks": "objects of subclasses of `ray_tune.Callback` or `nbckpt.trials.Callback`",
    "executor": "nbckpt's own: `thread`, `process`, `ray` or `inline`",
}
"""What an argument means here."""

NOTHING_TO_DO = {
    "verbose": "the table in a notebook shows the trials; a script prints nothing",
    "reuse_actors": "a thread needs no actor",
    "queue_trials": "trials always wait in a queue",
    "log_to_file": "the output of each trial is always kept in its `log.txt`",
    "global_checkpoint_period": "every result is in the trial's journal at once",
    "ray_auto_init": "nbckpt starts no cluster",
    "sync_to_driver": "trials write into the experiment's folder",
}
"""Arguments that change nothing, and why."""

REFUSED = {
    "trial_name_creator": "trials are called t0, t1, …; put what tells them apart into the config",
    "trial_dirname_creator": "a trial's folder is EXPERIMENT/t0; tune.get_trial_dir() returns it",
    "progress_reporter": "leave it out, and show the experiment in a notebook, or use `nbckpt trials`",
    "export_formats": "export the model in the function, into tune.get_trial_dir()",
    "trial_executor": "use executor='thread', 'process' or 'ray'",
    "server_port": "control the experiment from any process with `nbckpt pause`, `stop` and `resume`",
    "with_server": "control the experiment from any process with `nbckpt pause`, `stop` and `resume`",
    "chdir_to_trial_dir": "trials share one process: write into tune.get_trial_dir()",
    "storage_filesystem": "give storage_path a URL that fsspec knows",
    "resume_config": "use resume=True or resume='ERRORED_ONLY'",
    "sync_to_cloud": "use syncer=, an object of a subclass of Syncer",
    "sync_artifacts_on_checkpoint": "sync_artifacts=True uploads them with each sync",
}
"""Arguments that are refused unless they are None or False, and what to do instead."""

RUN = {
    *("name", "metric", "mode", "stop", "time_budget_s", "config", "resources_per_trial", "num_samples"),
    *("local_dir", "storage_path", "storage_filesystem", "search_alg", "scheduler", "keep_checkpoints_num"),
    *("checkpoint_score_attr", "checkpoint_freq", "checkpoint_at_end", "checkpoint_config", "verbose"),
    *("progress_reporter", "log_to_file", "trial_name_creator", "trial_dirname_creator", "sync_config"),
    *("export_formats", "max_failures", "fail_fast", "restore", "server_port", "with_server", "resume"),
    *("resume_config", "queue_trials", "reuse_actors", "trial_executor", "raise_on_failed_trial"),
    *("callbacks", "loggers", "ray_auto_init", "run_errored_only", "global_checkpoint_period", "upload_dir"),
    *("sync_to_cloud", "sync_to_driver", "max_concurrent_trials", "chdir_to_trial_dir", "executor"),
}
TUNE_CONFIG = {
    *("metric", "mode", "search_alg", "scheduler", "num_samples", "max_concurrent_trials", "time_budget_s"),
    *("reuse_actors", "trial_name_creator", "trial_dirname_creator", "chdir_to_trial_dir"),
}
RUN_CONFIG = {
    *("name", "storage_path", "storage_filesystem", "local_dir", "callbacks", "stop", "failure_config"),
    *("sync_config", "checkpoint_config", "progress_reporter", "verbose", "log_to_file", "executor"),
}
CHECKPOINT_CONFIG = {
    *("num_to_keep", "checkpoint_score_attribute", "checkpoint_score_order", "checkpoint_frequency"),
    "checkpoint_at_end",
}
FAILURE_CONFIG = {"max_failures", "fail_fast"}
SYNC_CONFIG = {
    *("upload_dir", "syncer", "sync_period", "sync_timeout", "sync_artifacts", "sync_on_checkpoint"),
    *("sync_to_cloud", "sync_to_driver", "sync_artifacts_on_checkpoint"),
}


def checked(function: str, names: set[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that mean something here, without those that are None.

    Args:
        function: The name of the function, for errors.
        names: The arguments that it has.
        arguments: The arguments that were given.

    Raises:
        UsageError: An argument does not exist or is refused. The message says what to use instead.
    """
    for name, value in arguments.items():
        if name not in names:
            raise UsageError(
                f"{function} has no argument {name!r}. {suggestion(name, names)}"
                f"It has {', '.join(sorted(names))}"
            )
        if name in REFUSED and value is not None and value is not False:
            raise UsageError(f"{function} does not take {name}={value!r} here: {REFUSED[name]}")
    ignored = NOTHING_TO_DO.keys() | REFUSED.keys()
    return {name: value for name, value in arguments.items() if value is not None and name not in ignored}


def refused_names(module: str, advice: Mapping[str, str]) -> Any:
    """Return a `__getattr__` for a module that refuses names, each with its advice."""

    def get(name: str) -> Any:
        if name in advice:
            raise UsageError(f"{name} is not available in {module}: {advice[name]}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return get
