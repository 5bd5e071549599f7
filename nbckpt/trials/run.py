"""run: start an experiment, or resume one."""

from __future__ import annotations

import copy
import os
import random
import re
import string
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import count, islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nbckpt.errors import NotFoundError, UsageError
from nbckpt.store.files import explained, make_folder
from nbckpt.store.fsync import sync_folder
from nbckpt.store.scan import can_be_named, link_outside
from nbckpt.sync import SyncConfig
from nbckpt.trials.engine.experiment import Experiment, open_runner
from nbckpt.trials.engine.fetch import fetch, is_there
from nbckpt.trials.engine.runner import Runner
from nbckpt.trials.engine.system import check_installed
from nbckpt.trials.engine.upload import SyncerCallback
from nbckpt.trials.executors import Executor, most_at_once, open_executor
from nbckpt.trials.executors.cell import CellExecutor, only_in_its_loop
from nbckpt.trials.home import experiments_folder as experiments_folder
from nbckpt.trials.home import inside_store
from nbckpt.trials.model import params, spec_file
from nbckpt.trials.model.callback import Callback
from nbckpt.trials.model.drawing import Keys, canonical, computed, configs, has_grid, with_earlier, without
from nbckpt.trials.model.objectives import objectives_of
from nbckpt.trials.model.points import drawn, values_of
from nbckpt.trials.model.retention import RetentionPolicy
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.stopping import Stop
from nbckpt.trials.model.trial import Status, Trial, is_held, state_of
from nbckpt.trials.origin import Origin, Restorable, find_origin, keep_origin
from nbckpt.trials.schedulers import Scheduler
from nbckpt.trials.search.base import Search
from nbckpt.trials.search.sampler import as_sampler, open_search
from nbckpt.trials.training.function import trainable_class
from nbckpt.trials.training.trainable import Trainable

if TYPE_CHECKING:
    from optuna import Study

Resume = Literal["auto", "must", "never"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def run(
    trainable: Callable[..., Any] | type[Trainable],
    config: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    num_samples: int = 1,
    stop: Stop = None,
    max_concurrent: int | None = None,
    max_failures: int = 0,
    keep_checkpoints: int | RetentionPolicy | None = None,
    checkpoint_every: int = 0,
    callbacks: Iterable[Callback] = (),
    executor: str | Executor = "thread",
    gpus: float | None = None,
    cpus: float | None = None,
    resources_per_trial: Mapping[str, float] | None = None,
    metric: str | Sequence[str] = "",
    mode: str | Sequence[str] = "",
    search: str | Search | Study | None = None,
    scheduler: Scheduler | None = None,
    points: Iterable[Mapping[str, Any]] = (),
    seed: int | None = None,
    resume: Resume = "auto",
    folder: str | os.PathLike[str] | None = None,
    sync_config: SyncConfig | None = None,
    restore: Restorable | None = None,
    provenance: bool = True,
    system_metrics: bool = False,
) -> Experiment:
    """Run a function, once for each configuration, in the background. Return at once.

    The same name resumes that experiment, also after a restart of the kernel. Finished trials stay
    finished, and other trials resume from their last checkpoint. New configurations are added. Failed
    trials wait for `resume(errored=True)`. Its running trials here are paused first.

    Args:
        trainable: `f(config)`, `f(config, checkpoint_dir=None)`, `f(config, reporter)` or a Trainable class.
        config: The configuration of each trial. Values may be `grid_search`, `choice`, `uniform`,
            `loguniform`, `randint` or `sample_from`, also in nested dicts.
        name: The experiment's name; by default the function's name, with the day and a letter.
        num_samples: How often the whole grid is tried, each time with new draws of the other values. With
            a *search*, the number of trials.
        stop: The condition that ends a trial: a dict of metrics and the values to reach, a function of
            (trial_id, result), or seconds of training. With `metric="loss", mode="min"`, `{"loss": 0.1}`
            means `<= 0.1`; for any other metric, `>=`.
        max_concurrent: How many trials run side by side; by default one for each processor, at most 8, and
            only as many as have their *gpus* and *cpus* at the same time.
        max_failures: How often a failed trial is retried from its last checkpoint.
        keep_checkpoints: How many of each trial's newest checkpoints to keep, or a `RetentionPolicy`; by
            default all. The newest checkpoint and the one that a trial resumed from are never removed.
        checkpoint_every: After how many results a Trainable is saved, or the states of a function that
            reported no checkpoint itself.
        callbacks: Objects that follow the experiment, of subclasses of `nbckpt.trials.Callback`.
        executor: `thread`, `process`, `ray`, `inline`, `slurm partition=gpu timeout_min=60` with any options
            of Slurm, an executor that a package registers, or an `Executor` object of yours. To resume the
            experiment in a new kernel, pass such an object again.
        gpus: How many GPUs each trial has for itself, with the executors `process`, `ray` and `slurm`. A
            process sees only its own. All your kernels on a machine share its GPUs; a trial waits for them.
        cpus: How many processors each trial has, with the same executors. A process starts no more threads
            in the libraries that can be told.
        resources_per_trial: The resources of each trial by Ray's names: `{"CPU": 1, "GPU": 0.5}`. With Ray
            also `memory` and the cluster's own.
        metric: The metric that compares trials. With several, such as `["loss", "latency"]`, each is an
            objective: `experiment.pareto()` returns the trials that no other trial surpasses.
        mode: Whether `min` or `max` of the metric is best. With several metrics, one for each or for all.
        search: Another source of configurations: the name of an Optuna sampler, such as `tpe`, or
            `nbckpt.trials.OptunaSampler("tpe", seed=1)`; an Optuna study; or a `Search`. A study is told the
            last value of the metric that each trial reported, and may end trials early.
        scheduler: What decides which trials go on, as `nbckpt.trials.ASHA(max_t=100)`, and with which values,
            as `nbckpt.trials.PBT(5)`; by default all go on as they are.
        points: Configurations to try before all others, such as `[{"lr": 0.1}]`. Values that a point leaves
            out are drawn. They count as samples; a point that a grid does not have comes in addition to it.
        seed: The random seed for drawing values; by default a random one.
        resume: `auto`, or `must` to refuse a new experiment, or `never` to refuse an existing one.
        folder: Where experiments are kept; by default `experiments` in the store's folder.
        sync_config: Where to sync the experiment, and how often; the last sync comes before it ends. If an
            experiment of this name is there but not here, it is downloaded first.
        restore: The checkpoint that trials start from: a Checkpoint, a path, a URL, `EXP/t3@10` for a
            trial's checkpoint, or a name in the store. `get_checkpoint()` returns it until a trial has a
            checkpoint of its own, also after a resume. The experiment keeps a copy.
        provenance: Whether each trial keeps what is needed to do it again: the commit and the uncommitted
            changes, the packages, the machine, the cells. `%ckpt show EXP/t3` tells it.
        system_metrics: Whether to keep the load of the machine with the results: the processor and the memory
            through psutil, GPUs through pynvml, each if it is installed.

    Raises:
        UsageError: An argument is wrong; the message says which, and nothing was started.
        NotFoundError: There is no checkpoint to *restore*, or no experiment to resume, but *resume* is
            `must`.
        StoreError: The disk or the remote storage failed.

    Example:
        >>> def train(config):
        ...     for step in range(3):
        ...         nbckpt.report(loss=config["lr"] / (step + 1))
        >>> trials = nbckpt.run(train, {"lr": nbckpt.grid_search([0.1, 0.3])}, metric="loss", mode="min")
        >>> trials.wait()
        True
        >>> trials.best().config
        {'lr': 0.1}
    """
    resources = _resources(gpus, cpus, resources_per_trial)
    spec = Spec(
        *(trainable, dict(config or {}), num_samples, _new_seed() if seed is None else seed, stop),
        *(max_concurrent or most_at_once(executor, resources), max_failures),
        RetentionPolicy(keep_checkpoints) if isinstance(keep_checkpoints, int) else keep_checkpoints,
        *(checkpoint_every, checked_callbacks(callbacks)),
        *(executor if isinstance(executor, str) else executor.name, resources),
        **objectives_of(metric, mode),
        sync=sync_config,
        provenance=provenance,
        system_metrics=system_metrics,
        scheduler=own(scheduler),
        search=as_sampler(search),
        points=tuple(map(dict, points)),
    )
    return _started(spec, folder, name, resume, restore, search, executor, keep_seed=seed is None)


def _resources(gpus: float | None, cpus: float | None, named: Mapping[str, float] | None) -> dict[str, float]:
    """Return the resources of each trial by Ray's names.

    Raises:
        UsageError: A resource is given twice.
    """
    given = {name: amount for name, amount in (("GPU", gpus), ("CPU", cpus)) if amount is not None}
    for name in given.keys() & (named or {}).keys():
        raise UsageError(f"{name.lower()}s and {name!r} in resources_per_trial mean the same: leave one out")
    return given | dict(named or {})


def _started(
    spec: Spec,
    folder: str | os.PathLike[str] | None,
    name: str,
    resume: Resume,
    restore: Restorable | None,
    search: str | Search | Study | None,
    executor: str | Executor,
    *,
    keep_seed: bool,
) -> Experiment:
    """Give the experiment its *spec* after a check of all arguments, and start its trials."""
    source = _checked(spec, executor, search)
    place = experiment_folder(folder, name, spec, resume)
    origin = find_origin(restore, place.parent)
    experiment, runner = open_runner(place, spec)
    with runner.claimed():
        _prepare(runner, spec, resume, origin, keep_seed=keep_seed)
        runner.launch(experiment, _trials(runner, source), source, executor)
    return experiment


def _checked(spec: Spec, executor: str | Executor, search: str | Search | Study | None) -> Search | None:
    """Return the search, after a check of the other arguments."""
    if spec.sync is not None:
        SyncerCallback(config=spec.sync)
    if spec.system_metrics:
        check_installed()
    trainable_class(spec.trainable)
    open_executor(executor, spec.resources)
    for point in spec.points:
        values_of(point, spec.config)
    if isinstance(spec.scheduler, Scheduler):
        spec.scheduler.check(spec.config)
    return open_search(search, spec)


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


def own(scheduler: Any) -> Scheduler | None:
    """Return a copy of a user's scheduler, after a check that it is one. Each experiment has its own."""
    if scheduler is None or isinstance(scheduler, Scheduler):
        return copy.deepcopy(scheduler)
    raise UsageError(
        f"scheduler={scheduler!r} is not a scheduler: give nbckpt.trials.ASHA(max_t=100), or an object whose "
        "class subclasses nbckpt.trials.Scheduler"
    )


def experiment_folder(folder: str | os.PathLike[str] | None, name: str, spec: Spec, resume: Resume) -> Path:
    """Return the experiment's folder. If there is no name, make a new folder."""
    if resume not in {"auto", "must", "never"}:
        raise UsageError(f"resume={resume!r} is unknown: use 'auto', 'must' or 'never'")
    if name and not (_NAME.fullmatch(name) and can_be_named(name)):
        raise UsageError(
            f"{name!r} cannot name an experiment: use letters, digits, '_', '-' and '.', and no name "
            "that the system reserves"
        )
    top = inside_store(experiments_folder()) if folder is None else Path(folder).absolute()
    if name:
        return top / name
    if resume == "must":
        raise UsageError("resume='must' needs the name of the experiment to resume")
    return _new_folder(top, spec)


def _prepare(runner: Runner, spec: Spec, resume: Resume, origin: Origin | None, *, keep_seed: bool) -> None:
    """Give an experiment its new *spec*. When this returns, none of its trials runs here."""
    find_or_make(runner.folder, spec, resume)
    runner.refresh()
    if runner.spec.executor == CellExecutor.name:
        raise UsageError(f"{only_in_its_loop(runner.folder.name)}. Give trials of a function another name")
    while runner.pool.workers:  # a cell that runs again ends its former run
        runner.pause()
        runner.wait()
    runner.settle()
    before = runner.spec
    seed = before.seed if keep_seed else spec.seed
    if origin is not None:
        keep_origin(origin, runner.folder)
    label = before.origin if origin is None else origin.label
    runner.write_spec(replace(spec, seed=seed, created_at=before.created_at, origin=label))


def find_or_make(folder: Path, spec: Spec, resume: Resume) -> None:
    """Download the experiment if it is only on remote storage. If it is nowhere, make its folder."""
    name = folder.name
    if link_outside(folder.parent, name):
        raise UsageError(f"{name!r} in {folder.parent} is a link that leads outside: remove it")
    there = (folder / spec_file.FILE).is_file()
    if not there:
        there = bool(is_there(spec.sync, name)) if resume == "never" else fetch(spec.sync, name, folder)
    if resume == "must" and not there:
        raise NotFoundError(f"there is no experiment {name!r} in {folder.parent} to resume: see %ckpt trials")
    if resume == "never" and there:
        raise UsageError(
            f"there is an experiment {name!r} already: choose another name, or leave out resume='never'"
        )
    if not there:
        _make(folder)


def _new_folder(top: Path, spec: Spec) -> Path:
    """Make a folder with a new name: the function's name, the day and a letter."""
    base = re.sub(r"[^A-Za-z0-9_]", "", spec.function_name) or "trials"
    letters = ("".join(word) for size in count(1) for word in product(string.ascii_lowercase, repeat=size))
    for letter in letters:
        folder = top / f"{base}_{datetime.now():%m%d}{letter}"
        if not folder.exists() and not is_there(spec.sync, folder.name) and _make(folder):
            return folder
    raise AssertionError("letters have no end")


def _make(folder: Path) -> bool:
    """Make an experiment's folder, durably. Return whether it is new."""
    with explained("make", folder, "Choose another store"), suppress(FileExistsError):
        make_folder(folder.parent)
        folder.mkdir()
        sync_folder(folder.parent)
        return True
    return False


def _trials(runner: Runner, search: Search | None) -> list[Trial]:
    """Return the trials to run: one for each unfinished configuration, made if it is new."""
    spec, known = runner.spec, list(runner.trials.values())
    paths = computed(spec.config)
    pairs = list(match(known, _wanted(spec, is_searched=search is not None), paths))
    if search is not None:
        met = {trial.id for trial, _ in pairs if trial is not None}
        pairs += [(trial, trial.config) for trial in known if trial.id not in met]
    made = iter(runner.add(*(config for trial, config in pairs if trial is None)))
    trials = []
    for trial, config in pairs:
        if trial is None:
            trials.append(next(made))
        elif not trial.finished and not (spec.scheduler and is_held(trial)):
            if not state_of(trial).scheduling.donor:  # else it has another configuration by now
                state_of(trial).config = with_earlier(config, trial.config, paths)
            trials.append(trial)
    return trials


def _wanted(spec: Spec, *, is_searched: bool) -> Iterator[dict[str, Any]]:
    """Yield the configurations that are known before any trial ran: the points, then the others."""
    first = list(drawn(spec.points, spec.config, spec.seed))
    yield from first
    if is_searched:
        return
    others = configs(spec.config, spec.num_samples, spec.seed)
    if not has_grid(spec.config):
        yield from islice(others, max(spec.num_samples - len(first), 0))
        return
    tried = Counter(map(canonical, first))
    for config in others:
        if tried and tried[text := canonical(config)]:
            tried[text] -= 1
        else:
            yield config


def match(
    trials: Iterable[Trial], configs: Iterable[Mapping[str, Any]], computed_paths: Iterable[Keys] = ()
) -> Iterator[tuple[Trial | None, Mapping[str, Any]]]:
    """Yield each configuration with the trial that already has it, or None. Each trial comes once.

    Values that a function computes do not count: the function may compute others each time.
    """
    waiting: dict[str, deque[Trial]] = {}
    for trial in trials:
        if trial.status != Status.DAMAGED:  # its configuration is unknown
            text = canonical(without(_first_config(trial), computed_paths))
            waiting.setdefault(text, deque()).append(trial)
    for config in configs:
        same = waiting.get(canonical(without(config, computed_paths)))
        yield (same.popleft() if same else None), config


def _first_config(trial: Trial) -> Mapping[str, Any]:
    """Return the configuration that a trial was made with. A scheduler may have changed it since."""
    # see docs/decisions/0108
    return params.read(trial.folder) if state_of(trial).scheduling.donor else trial.config


def _new_seed() -> int:
    """Return a random seed for an experiment without one."""
    return random.SystemRandom().randrange(1 << 31)
