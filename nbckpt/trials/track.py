"""track: open a trial whose code is not a function, but a plain loop in a cell or a script."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nbckpt.errors import NotFoundError, UsageError
from nbckpt.states.maker import Maker, maker_of
from nbckpt.sync import SyncConfig
from nbckpt.sync.shutdown import before_the_end
from nbckpt.trials.arguments import check_keeping, checked_callbacks, dict_of, retention_of
from nbckpt.trials.engine.experiment import open_runner
from nbckpt.trials.engine.open_trial import OpenTrial, end_all, follow_cells, open_trials
from nbckpt.trials.engine.runner import Runner
from nbckpt.trials.executors.cell import CellExecutor
from nbckpt.trials.executors.output import speaker
from nbckpt.trials.experiment_folder import Resume, experiment_folder, find_or_make
from nbckpt.trials.model.callback import Callback
from nbckpt.trials.model.drawing import canonical
from nbckpt.trials.model.objectives import objectives_of
from nbckpt.trials.model.retention import RetentionPolicy
from nbckpt.trials.model.spec import Spec
from nbckpt.trials.model.trial import Trial, state_of
from nbckpt.trials.training.loop import PlainLoop
from nbckpt.trials.training.session import current, in_trial
from nbckpt.trials.views.formats import tail

_WIDEST = 60
_turn = threading.Lock()
"""Held while a trial is opened: each thread gets a trial of its own."""


def track(
    name: str,
    config: Mapping[str, Any] | None = None,
    *,
    resume: bool | str = False,
    metric: str | Sequence[str] = "",
    mode: str | Sequence[str] = "",
    keep_checkpoints: int | RetentionPolicy | None = None,
    callbacks: Iterable[Callback] = (),
    folder: str | os.PathLike[str] | None = None,
    sync_config: SyncConfig | None = None,
    provenance: bool = True,
    system_metrics: bool = False,
    **parameters: Any,
) -> OpenTrial:
    """Open a trial, to which the code that follows reports.

        >>> run = nbckpt.track("baseline", lr=0.1)
        >>> for epoch in range(10):
        ...     run.report(loss=1 / (epoch + 1))
        >>> run.finish()

    `nbckpt.report` finds the open trial, too. The trial belongs to the experiment *name* and is like any
    other: tables, curves, checkpoints, the log, sync.

    The trial ends as done with `finish`, with the end of a `with` block or of the script, and when the same
    code, or the same cell, opens the next trial. It fails with an uncaught error of a cell that reported to
    it, of the `with` block, or of the script. If the kernel dies, it is interrupted.

    Args:
        name: The experiment's name.
        config: The configuration.
        resume: Continue the newest trial that was paused or interrupted and that has these parameters; if
            there is none, open a new one, or with "must" none. Or the short name of the trial to continue,
            such as "t3", which must have these parameters too.
        metric: The metric that compares trials, or several; see `nbckpt.run`.
        mode: Whether `min` or `max` of the metric is best. With several metrics, one for each or for all.
        keep_checkpoints: How many of a trial's newest checkpoints to keep, or a `RetentionPolicy`.
        callbacks: Objects that follow the experiment.
        folder: Where experiments are kept; by default `experiments` in the store's folder.
        sync_config: Where to sync the experiment, and how often.
        provenance: Whether the trial keeps what is needed to do it again.
        system_metrics: Whether to keep the load of the machine with the results. See `nbckpt.run`.
        parameters: Further values of the configuration.

    Raises:
        UsageError: This code runs in a trial already; another process has the trial to continue open, or it
            has other parameters; or the experiment is one of `nbckpt.run`. Nothing was opened.
        NotFoundError: *resume* is "must", and there is no such trial. No trial was made.
        StoreError: The disk or the remote storage failed.
    """
    if current.get() is not None or speaker.get() is not None or in_trial.get():
        raise UsageError("this code runs in a trial already: report to it with nbckpt.report(…)")
    if not name:
        raise UsageError("a tracked trial needs the name of its experiment: nbckpt.track('baseline', lr=0.1)")
    given = dict_of("config", {**dict_of("config", config or {}), **parameters})
    spec = Spec(
        PlainLoop,
        keep=retention_of(keep_checkpoints),
        callbacks=checked_callbacks(callbacks),
        executor=CellExecutor.name,
        **objectives_of(metric, mode),
        sync=sync_config,
        provenance=provenance,
        system_metrics=system_metrics,
    )
    check_keeping(spec)
    existing: Resume = "must" if resume == "must" else "auto"
    maker = maker_of(None)
    _end_former(name, maker)
    experiment, runner = open_runner(experiment_folder(folder, name, spec, existing), spec)
    with _turn, runner.claimed():
        _take_in(runner, spec, existing)
        trial = _to_continue(runner, given, resume=resume) or runner.add(given)[0]
        attempt = runner.open(experiment, trial)
    follow_cells()
    before_the_end(end_all, first=True)
    return OpenTrial(experiment, runner, attempt, maker)


def _end_former(name: str, maker: Maker) -> None:
    """End the trial that this code opened before, and those of earlier runs of cells."""
    for trial in open_trials():
        if trial.maker.run == maker.run or trial.maker.run is None or maker.run is None:
            is_former = trial.is_current and trial.experiment.name == name
        else:
            is_same = trial.experiment.name == name or maker.is_again(trial.maker)
            is_former = trial.thread == threading.get_ident() and is_same
        if is_former:
            trial.finish()


def _take_in(runner: Runner, spec: Spec, resume: Resume) -> None:
    """Make the experiment, or read the one that is there, and give it the new settings."""
    find_or_make(runner.folder, spec, resume)
    runner.refresh()
    before = runner.spec
    if not runner.is_tracked:
        raise UsageError(
            f"{runner.folder.name!r} is an experiment of nbckpt.run: give the tracked one another name"
        )
    if not runner.pool.running:
        runner.write_spec(
            replace(
                spec,
                seed=before.seed,
                created_at=before.created_at,
                metric=spec.metric or before.metric,
                mode=spec.mode or before.mode,
                others=spec.others if spec.metric else before.others,
            )
        )


def _to_continue(runner: Runner, given: Mapping[str, Any], *, resume: bool | str) -> Trial | None:
    """Return the trial to continue, or None for a new one."""
    if isinstance(resume, str) and resume != "must":
        trial = runner.trial(resume)
        if runner.pool.has(trial):
            raise UsageError(f"{runner.folder.name}/{trial.id} is open already: finish it first")
        _check_same(runner.folder.name, trial, given)
        state_of(trial).config |= given  # a file has only the texts of objects
        return trial  # if another process has it open, that is refused when it is opened
    if not resume:
        return None
    elsewhere = runner.elsewhere()
    for trial in reversed(runner.trials.values()):
        is_open = runner.pool.has(trial) or trial.id in elsewhere
        if not _others(trial, given) and not trial.finished and not is_open:
            state_of(trial).config |= given  # a file has only the texts of objects
            return trial
    if resume == "must":
        raise NotFoundError(f"{runner.folder.name!r} has no trial to continue, but resume is 'must'")
    return None


def _others(trial: Trial, given: Mapping[str, Any]) -> list[str]:
    """Return the names of the parameters that a trial does not have with the *given* values."""
    return [
        key
        for key, value in given.items()
        if canonical({key: trial.config.get(key)}) != canonical({key: value})
    ]


def _check_same(name: str, trial: Trial, given: Mapping[str, Any]) -> None:
    """Refuse to continue a trial with other parameters than its own.

    Raises:
        UsageError: One of the *given* parameters has another value.
    """
    for key in _others(trial, given):
        wanted = tail(canonical({key: given[key]}), _WIDEST)
        there = tail(canonical({key: trial.config[key]}), _WIDEST) if key in trial.config else f"no {key}"
        raise UsageError(
            f"{name}/{trial.id} has {there}, not {wanted}: continue it without {key}, and change {key} with "
            "its update_config()"
        )
