"""The arguments of `run` and `track`: they are checked before anything is made."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from nbckpt.errors import UsageError
from nbckpt.sync import SyncConfig
from nbckpt.trials.engine.system import check_installed
from nbckpt.trials.engine.upload import SyncerCallback
from nbckpt.trials.executors import Executor, open_executor
from nbckpt.trials.model.callback import Callback
from nbckpt.trials.model.metrics import plain
from nbckpt.trials.model.points import values_of
from nbckpt.trials.model.retention import RetentionPolicy
from nbckpt.trials.model.space import Choice, Grid
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.schedulers import Scheduler
from nbckpt.trials.search.base import Search
from nbckpt.trials.search.sampler import open_search
from nbckpt.trials.training.function import trainable_class

if TYPE_CHECKING:
    from optuna import Study

_MOST_LEVELS = 200
_MOST_BITS = 14_000  # 4,214 digits: Python refuses to write more than 4,300


def resources_of(
    gpus: float | None, cpus: float | None, named: Mapping[str, float] | None
) -> dict[str, float]:
    """Return the resources of each trial by Ray's names.

    Raises:
        UsageError: A resource is given twice, or *named* is not a dict.
    """
    given = {name: amount for name, amount in (("GPU", gpus), ("CPU", cpus)) if amount is not None}
    others = dict_of("resources_per_trial", named or {})
    for name in given.keys() & others.keys():
        raise UsageError(f"{name.lower()}s and {name!r} in resources_per_trial mean the same: leave one out")
    return plain(given | others)


def dict_of(name: str, given: Any) -> dict[str, Any]:
    """Return a copy of a dict that a user gave.

    Raises:
        UsageError: It is not a dict, or no file can hold it.
    """
    if not isinstance(given, Mapping):
        raise UsageError(f"{name}={given!r} is not a dict")
    if trouble := _trouble(given):
        raise UsageError(f"{name} has {trouble}, which no file can hold")
    return dict(given)


def _trouble(value: Any) -> str:
    """Return what is in a dict that no file can hold; "" if there is nothing like that."""
    done: set[int] = set()
    path = {id(value): _parts(value)}  # from the outermost to the innermost
    while path:
        at, inside = path.popitem()
        inner = next((item for item in inside if id(item) not in done), None)
        if inner is None:
            done.add(at)
            continue
        path[at] = inside
        if isinstance(inner, int):
            return "an integer of more than 4,200 digits"
        if id(inner) in path:
            return "a dict or a list that contains itself"
        path[id(inner)] = _parts(inner)
    level, levels = {id(value): value}, 0
    while level:  # lists may be deeper: they are never varied
        levels += 1
        inside = (part for parts in level.values() for part in parts.values() if isinstance(part, dict))
        level = {id(part): part for part in inside}
    return f"more than {_MOST_LEVELS} dicts in each other" if levels > _MOST_LEVELS else ""


def _parts(value: Any) -> Iterator[Any]:
    """Yield the dicts, lists, grids and choices in one of them, and integers that are too long to write."""
    items = value.values if isinstance(value, (Grid, Choice)) else value
    for item in items.values() if isinstance(items, Mapping) else items:
        is_container = isinstance(item, (dict, list, tuple, Grid, Choice))
        if is_container or (isinstance(item, int) and item.bit_length() > _MOST_BITS):
            yield item


def points_of(given: Any) -> tuple[dict[str, Any], ...]:
    """Return copies of the points that a user gave.

    Raises:
        UsageError: They are not a list of dicts.
    """
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise UsageError(f"points={given!r} is not a list of dicts: give one such as [{{'lr': 0.1}}]")
    return tuple(dict_of("a point", point) for point in given)


def retention_of(given: int | RetentionPolicy | None) -> RetentionPolicy | None:
    """Return the policy of a user's `keep_checkpoints`.

    Raises:
        UsageError: It is none of these, or would keep none.
    """
    return given if given is None or isinstance(given, RetentionPolicy) else RetentionPolicy(given)


def checked_callbacks(given: Any) -> tuple[Callback, ...]:
    """Return a user's callbacks, after a check that each is a `Callback`."""
    listed = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    for callback in listed:
        if not isinstance(callback, Callback):
            raise UsageError(
                f"{callback!r} is not a callback: give a list of objects whose classes subclass "
                "nbckpt.trials.Callback, for example nbckpt.integrations.mlflow.MLflowCallback()"
            )
    return listed


def own_scheduler(scheduler: Any) -> Scheduler | None:
    """Return a copy of a user's scheduler, after a check that it is one. Each experiment has its own."""
    if scheduler is None or isinstance(scheduler, Scheduler):
        return copy.deepcopy(scheduler)
    raise UsageError(
        f"scheduler={scheduler!r} is not a scheduler: give nbckpt.trials.ASHA(max_t=100), or an object whose "
        "class subclasses nbckpt.trials.Scheduler"
    )


def checked_search(
    spec: Spec, executor: str | Executor, search: str | Search | Study | None
) -> Search | None:
    """Return the search of `run`, after a check of all other arguments.

    Raises:
        UsageError: An argument is wrong.
    """
    check_keeping(spec)
    trainable_class(spec.trainable)
    open_executor(executor, spec.resources)
    for point in spec.points:
        values_of(point, spec.config)
    if isinstance(spec.scheduler, Scheduler):
        spec.scheduler.check(spec.config)
    return open_search(search, spec)


def check_keeping(spec: Spec) -> None:
    """Refuse a sync or a measurement of the machine that cannot be done.

    Raises:
        UsageError: The sync's settings are wrong, or a package for the measurement is not installed.
    """
    sync: Any = spec.sync
    if sync is not None:
        if not isinstance(sync, SyncConfig):
            advice = "nbckpt.sync.SyncConfig(upload_dir=URL)"
            raise UsageError(f"sync_config={sync!r} is not a SyncConfig: give {advice}")
        SyncerCallback(config=sync)
    if spec.system_metrics:
        check_installed()
