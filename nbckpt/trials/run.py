"""run: start an experiment, or resume one."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbckpt.errors import Interrupted, UsageError
from nbckpt.sync import SyncConfig
from nbckpt.trials.arguments import (
    checked_callbacks,
    checked_search,
    dict_of,
    own_scheduler,
    points_of,
    resources_of,
    retention_of,
)
from nbckpt.trials.engine.experiment import Experiment, open_runner
from nbckpt.trials.engine.runner import Runner
from nbckpt.trials.executors import Executor, most_at_once
from nbckpt.trials.executors.cell import CellExecutor, only_in_its_loop
from nbckpt.trials.experiment_folder import Resume, experiment_folder, find_or_make
from nbckpt.trials.matching import trials_to_run
from nbckpt.trials.model.callback import Callback
from nbckpt.trials.model.objectives import objectives_of
from nbckpt.trials.model.retention import RetentionPolicy
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.stopping import Stop
from nbckpt.trials.origin import Origin, Restorable, find_origin, keep_origin
from nbckpt.trials.schedulers import Scheduler
from nbckpt.trials.search.base import Search
from nbckpt.trials.search.sampler import as_sampler
from nbckpt.trials.training.trainable import Trainable

if TYPE_CHECKING:
    from optuna import Study

PATIENCE_S = 2.0
"""How long a run waits without a word for the trials of the former one."""
_log = logging.getLogger("nbckpt")


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

    Examples:
        >>> def train(config):
        ...     for step in range(3):
        ...         nbckpt.report(loss=config["lr"] / (step + 1))
        >>> trials = nbckpt.run(train, {"lr": nbckpt.grid_search([0.1, 0.3])}, metric="loss", mode="min")
        >>> trials.wait()
        True
        >>> trials.best().config
        {'lr': 0.1}
    """
    resources = resources_of(gpus, cpus, resources_per_trial)
    spec = Spec(
        *(trainable, dict_of("config", config or {}), num_samples, _own_seed(seed), stop),
        *(most_at_once(executor, resources) if max_concurrent is None else max_concurrent, max_failures),
        retention_of(keep_checkpoints),
        *(checkpoint_every, checked_callbacks(callbacks)),
        *(executor if isinstance(executor, str) else executor.name, resources),
        **objectives_of(metric, mode),
        sync=sync_config,
        provenance=provenance,
        system_metrics=system_metrics,
        scheduler=own_scheduler(scheduler),
        search=as_sampler(search),
        points=points_of(points),
    )
    return _started(spec, folder, name, resume, restore, search, executor, keep_seed=seed is None)


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
    source = checked_search(spec, executor, search)
    place = experiment_folder(folder, name, spec, resume)
    origin = find_origin(restore, place.parent)
    experiment, runner = open_runner(place, spec)
    with runner.claimed():
        while True:
            with runner.starting() as starting:
                _check(runner, spec, resume)
                if not runner.pool.workers:
                    _renew(runner, spec, origin, keep_seed=keep_seed)
                    runner.launch(starting, experiment, trials_to_run(runner, source), source, executor)
                    return experiment
            _end_former(runner)


def _check(runner: Runner, spec: Spec, resume: Resume) -> None:
    """Find or make an experiment, take in what is there, and refuse one that `run` cannot continue."""
    find_or_make(runner.folder, spec, resume)
    runner.refresh()
    if runner.spec.executor == CellExecutor.name:
        raise UsageError(f"{only_in_its_loop(runner.folder.name)}. Give trials of a function another name")


def _renew(runner: Runner, spec: Spec, origin: Origin | None, *, keep_seed: bool) -> None:
    """Give an experiment its new *spec*. None of its trials runs here."""
    runner.settle()
    before = runner.spec
    seed = before.seed if keep_seed else spec.seed
    if origin is not None:
        keep_origin(origin, runner.folder)
    label = before.origin if origin is None else origin.label
    runner.write_spec(replace(spec, seed=seed, created_at=before.created_at, origin=label))


def _end_former(runner: Runner) -> None:
    """Pause the trials that run here: a cell that runs again ends its former run. If it takes long, say why.

    Raises:
        UsageError: One of them runs this code.
        Interrupted: The user did not wait for that.
    """
    name = runner.folder.name
    if runner.pool.is_here:
        raise UsageError(
            f"a trial or a callback of {name!r} cannot run {name!r}: it would wait for its own end. Choose "
            "another name"
        )
    try:
        while runner.pool.workers:
            runner.pause()
            if not runner.wait(PATIENCE_S):
                names = ", ".join(list(runner.pool.running)[:8])
                when = f"after the next result of {names}" if names else "when its callbacks have ended"
                _log.warning("%s: the new run begins %s", name, when)
                runner.wait()
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted: the new run of {name} has not begun. Trials of the former one pause with their "
            f"next results: %ckpt trials {name}"
        ) from None


def _own_seed(given: int | None) -> int:
    """Return what a user gave as seed, or a random number."""
    return random.SystemRandom().randrange(1 << 31) if given is None else given
