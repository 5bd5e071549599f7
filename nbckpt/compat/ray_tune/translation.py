"""Translation: Ray's arguments become those of `nbckpt.run`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nbckpt.compat.ray_tune.callbacks import adapted
from nbckpt.compat.ray_tune.control import control
from nbckpt.compat.ray_tune.logger import loggers
from nbckpt.compat.ray_tune.schedulers import FIFOScheduler
from nbckpt.compat.ray_tune.search import OptunaSearch
from nbckpt.compat.settings import CheckpointConfig, FailureConfig
from nbckpt.errors import UsageError
from nbckpt.store import local_folder
from nbckpt.sync import SyncConfig
from nbckpt.trials.executors import Executor
from nbckpt.trials.home import experiments_folder, inside_store
from nbckpt.trials.model.metrics import as_plain, is_number, lookup
from nbckpt.trials.model.retention import RetentionPolicy
from nbckpt.trials.model.space import Domain, Grid, grid_search
from nbckpt.trials.model.stopping import Stop
from nbckpt.trials.schedulers import Scheduler

_NEVER = 1 << 31
"""A number of results, or of failures, that is never reached."""
_SAME = ("metric", "mode", "num_samples", "max_failures", "executor")


def translated(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for `nbckpt.run`, without the name and what to resume.

    Args:
        given: Arguments that were checked.

    Raises:
        UsageError: A value cannot be translated. The message says what to use instead.
    """
    given = {**given, **_nested(given)}
    if given.get("num_samples", 1) == -1:
        raise UsageError(
            "num_samples=-1 never ends here: give a number, and stop the experiment when you like"
        )
    if given.get("max_failures") == -1:
        given["max_failures"] = _NEVER
    arguments = {name: given[name] for name in _SAME if name in given}
    scheduler = given.get("scheduler")
    if not (scheduler is None or isinstance(scheduler, FIFOScheduler | Scheduler)):
        raise UsageError(f"scheduler={scheduler!r} is not available here: {FIFOScheduler.ADVICE}")
    search = given.get("search_alg")
    if isinstance(search, OptunaSearch):
        own = {"metric": search.metric, "mode": search.mode}
        arguments = {name: text for name, text in own.items() if text} | arguments
        arguments["points"] = search.points
    reserved, resources = _divided(given.get("resources_per_trial", {}), given.get("executor") or "")
    if reserved:
        arguments["resources_per_trial"] = reserved
    return arguments | {
        "config": space(given.get("config", {})),
        "stop": stop(given.get("stop"), given.get("metric", ""), given.get("mode", "")),
        "search": search,
        "scheduler": scheduler if isinstance(scheduler, Scheduler) else None,
        "max_concurrent": concurrency(resources, given.get("max_concurrent_trials")),
        "keep_checkpoints": _retention(given),
        "checkpoint_every": _checkpoint_every(given),
        "callbacks": [
            *(adapted(callback) for callback in given.get("callbacks", ())),
            *loggers(given.get("loggers", ())),
            *control(given),
        ],
        "restore": given.get("restore"),
        "folder": folder(given),
        "sync_config": _sync_config(given),
    }


def _nested(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments in a CheckpointConfig and a FailureConfig, by the names of `tune.run`."""
    checkpoint, failure = given.get("checkpoint_config"), given.get("failure_config")
    arguments: dict[str, Any] = {}
    if isinstance(failure, FailureConfig):
        arguments |= failure.arguments
    if isinstance(checkpoint, CheckpointConfig):
        inner = checkpoint.arguments
        names = {"num_to_keep": "keep_checkpoints_num", "checkpoint_frequency": "checkpoint_freq"}
        arguments |= {names.get(name, name): value for name, value in inner.items()}
        if metric := inner.get("checkpoint_score_attribute"):
            is_min = inner.get("checkpoint_score_order") == "min"
            arguments["checkpoint_score_attr"] = f"min-{metric}" if is_min else metric
    return arguments


def space(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a space in which `{"grid_search": [...]}` is a grid.

    Raises:
        UsageError: A list in it holds a value that varies, which would not be drawn.
    """
    return {key: _value(value) for key, value in config.items()}


def _value(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and any(isinstance(item, (Domain, Grid)) for item in value):
        raise UsageError(f"values in the list {value!r} would not be drawn: use a dict in place of the list")
    if not isinstance(value, dict):
        return value
    return grid_search(value["grid_search"]) if value.keys() == {"grid_search"} else space(value)


def stop(condition: Any, metric: str, mode: str) -> Stop:
    """Return a stop condition. In a dict every threshold is reached with `>=`, as in Ray."""
    if isinstance(condition, Mapping):
        # nbckpt's own rule for a metric that is minimised is `<=`.
        return partial(_reached, dict(condition)) if mode == "min" and metric in condition else condition
    if isinstance(condition, (list, tuple)):
        return partial(_any_stopped, [_function(part) for part in condition])
    if hasattr(condition, "stop_all"):
        return _function(condition)
    return condition  # type: ignore[no-any-return]  # nbckpt.run checks it


def _function(condition: Any) -> Callable[..., bool]:
    if isinstance(condition, Mapping):
        return partial(_reached, dict(condition))
    return partial(_stopped, condition) if hasattr(condition, "stop_all") else condition


def _reached(limits: Mapping[str, float], trial_id: str, result: Mapping[str, Any]) -> bool:
    del trial_id
    values = {name: as_plain(lookup(result, name)) for name in limits}  # also scalars of NumPy or torch
    return any(is_number(value) and value >= limits[name] for name, value in values.items())


def _stopped(stopper: Any, trial_id: str, result: Mapping[str, Any]) -> bool:
    return bool(stopper(trial_id, dict(result)) or stopper.stop_all())


def _any_stopped(stoppers: list[Callable[..., bool]], trial_id: str, result: Mapping[str, Any]) -> bool:
    return any(stopper(trial_id, result) for stopper in stoppers)


def _divided(resources: Mapping[str, Any], executor: str | Executor) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the resources that the executor reserves, by nbckpt's names, and those that set the concurrency.

    Ray and Slurm reserve all. A process has its GPUs for itself, see docs/decisions/0109.
    """
    name, *_ = (executor if isinstance(executor, str) else executor.name).split() or [""]
    has_all = name in {"ray", "slurm"}
    reserved = {
        key: number
        for key, number in resources.items()
        if number is not None and (has_all or (name == "process" and key.upper() == "GPU"))
    }
    others = {key: number for key, number in resources.items() if key not in reserved}
    return {key.upper(): number for key, number in reserved.items()}, others


def concurrency(resources: Mapping[str, Any], most: int | None) -> int | None:
    """Return how many trials run side by side, or None for nbckpt's own choice.

    Raises:
        UsageError: A resource is not `cpu` or `gpu`.
    """
    needed = {name.lower(): number for name, number in resources.items() if number}
    if others := needed.keys() - {"cpu", "gpu"}:
        raise UsageError(
            f"resources_per_trial has {sorted(others)[0]!r}: nbckpt counts cpu and gpu. For resources of a "
            "cluster use nbckpt.run(…, executor='ray', resources_per_trial={'CPU': 1})"
        )
    limits = [int((os.cpu_count() or 1) / needed["cpu"])] if "cpu" in needed else []
    limits += [int(1 / needed["gpu"])] if "gpu" in needed else []  # all trials see the first GPU
    limits += [most] if most else []
    return max(min(limits), 1) if limits else None


def folder(given: Mapping[str, Any]) -> Path:
    """Return the folder of experiments."""
    place = given.get("local_dir") or given.get("storage_path")
    here = None if place is None else local_folder(os.fspath(place))
    return inside_store(experiments_folder()) if here is None else here.expanduser().absolute()


def _sync_config(given: Mapping[str, Any]) -> SyncConfig | None:
    config: SyncConfig | None = given.get("sync_config")
    place = given.get("upload_dir") or given.get("storage_path")
    if place is not None and local_folder(os.fspath(place)) is None:
        return replace(config or SyncConfig(), upload_dir=str(place))
    return config if config is not None and config.upload_dir else None


def _retention(given: Mapping[str, Any]) -> RetentionPolicy | None:
    if (count := given.get("keep_checkpoints_num")) is None:
        return None
    metric = given.get("checkpoint_score_attr", "")
    lowest = metric.startswith("min-")
    return RetentionPolicy(count, metric.removeprefix("min-"), "min" if lowest or not metric else "max")


def _checkpoint_every(given: Mapping[str, Any]) -> int:
    every: int = given.get("checkpoint_freq", 0)
    return every or (_NEVER if given.get("checkpoint_at_end") else 0)
