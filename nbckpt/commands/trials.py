"""run, trials, pause, stop, checkpoint, resume: run experiments and follow them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from nbckpt.commands import values
from nbckpt.commands.meaning import is_ref
from nbckpt.commands.options import ExperimentName, Metric, Mode, Number, PageNumber, Step, Target, Word
from nbckpt.commands.table import Session
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import Interrupted, NbckptError, UsageError
from nbckpt.render import Cell, Hint, Page, Result, age
from nbckpt.sync import SyncConfig
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model import spec_file
from nbckpt.trials.model.space import grid_search
from nbckpt.trials.model.spec import LOOP
from nbckpt.trials.model.stopping import Stop
from nbckpt.trials.model.trial import Status, Trial
from nbckpt.trials.origin import Restorable
from nbckpt.trials.run import run as run_experiment
from nbckpt.trials.views.metrics import metric_columns
from nbckpt.trials.views.statuses import INTERRUPTED, PAUSED, RUNNING, counted, states_of
from nbckpt.trials.views.table import MOST_ROWS, TrialTable

Wait = Annotated[
    bool,
    Word("", help="Wait until no trial runs. An interrupt pauses all trials, a second one stops them."),
]
_MOST_OTHERS = 10
_KILLED_S = 5.0
"""How many seconds an interrupt waits for the trials that it has killed."""


def run(
    session: Session,
    function: Annotated[str, Word("FUNC", "function")],
    *config: Annotated[str, Word("k=v")],
    grid: Sequence[Annotated[str, Word("k=a,b")]] = (),
    samples: Number = 1,
    executor: Annotated[str, Word("E")] = "thread",
    gpus: Annotated[float, Word("N")] | None = None,
    cpus: Annotated[float, Word("N")] | None = None,
    name: Annotated[str, Word("NAME")] = "",
    stop: Sequence[Annotated[str, Word("k=v")]] = (),
    concurrent: Number | None = None,
    failures: Number = 0,
    keep: Number | None = None,
    sync: Annotated[str, Word("URL")] = "",
    every: Number = 0,
    search: Annotated[str, Word("S")] = "",
    point: Sequence[Annotated[str, Word("P")]] = (),
    scheduler: Annotated[str, Word("S")] = "",
    restore: Step = "",
    metric: Sequence[Metric] = (),
    mode: Sequence[Mode] = (),
    resume: Literal["auto", "must", "never"] = "auto",
    wait: Wait = False,
    no_provenance: bool = False,
    system_metrics: bool = False,
) -> Experiment:
    """Run a function once for each configuration.

    Trials run in the background; a shell waits for them. The same --name continues an experiment.

    Args:
        function: A function or Trainable class; module:function or file.py:function.
        config: The configuration: Python literals, names of variables, or ranges such as lr=uniform(0, 1).
        grid: Try each of these values, or each item of one list, combined with those of every other
            grid; repeat for several.
        samples: Try the whole grid N times.
        executor: thread, process, ray, inline or slurm; with options "slurm partition=gpu timeout_min=60".
        gpus: Give each trial N GPUs of its own, with process, ray or slurm. It waits until they are free.
        cpus: Give each trial N processors, with process, ray or slurm.
        name: The experiment's name.
        stop: End a trial when this metric reaches this value, or after N seconds; repeat for several.
        concurrent: Run at most N trials at the same time.
        failures: Start a failed trial again up to N times.
        keep: Keep N checkpoints of each trial; by default all.
        sync: Also upload the trials to URL while they run.
        restore: The checkpoint that the trials start from: a name, t3@10, a path or a URL.
        search: What draws the configurations: a sampler of Optuna, tpe or "tpe seed=1", or a variable.
        point: Try this configuration first, such as "lr=0.1 width=8"; repeat for several.
        scheduler: What decides which trials go on: asha, "asha max_t=9", median, "pbt interval=5", hyperband.
        metric: The metric that ranks trials; repeat for several objectives.
        mode: Whether the smallest or the largest value is the best; one for each metric, or one for all.
        every: Save a Trainable, or the states of a function, after every N results.
        resume: Whether an experiment of this name must exist, must not exist, or may exist.
        no_provenance: Do not keep the commit, the packages, the machine and the cells.
        system_metrics: Also keep the load of the machine.
    """
    experiment = run_experiment(
        values.find_function(function, session.namespace),
        _space(config, grid, session.namespace),
        **_amounts(samples, concurrent, failures),
        **_machine(executor, gpus, cpus),
        name=name,
        stop=_stop(stop, session),
        keep_checkpoints=keep,
        checkpoint_every=every,
        metric=metric,
        mode=mode,
        **_choice(session, search, point, scheduler),
        resume=resume,
        **_places(session, sync, restore),
        provenance=not no_provenance,
        system_metrics=system_metrics,
    )
    return _under_way(session, experiment, wait=wait)


def _space(
    config: Sequence[str], grid: Sequence[str], namespace: Mapping[str, object] | None
) -> dict[str, object]:
    grids = {key: grid_search(options) for key, options in values.lists(grid, namespace).items()}
    return values.with_lists(values.settings(config, namespace), grids)


def _amounts(samples: int, concurrent: int | None, failures: int) -> dict[str, Any]:
    return {"num_samples": samples, "max_concurrent": concurrent, "max_failures": failures}


def _machine(executor: str, gpus: float | None, cpus: float | None) -> dict[str, Any]:
    return {"executor": executor, "gpus": gpus, "cpus": cpus}


def _choice(session: Session, search: str, points: Sequence[str], scheduler: str) -> dict[str, Any]:
    """Return the arguments of `nbckpt.run` for the search, its first points and the scheduler."""
    namespace = session.namespace
    return {
        "search": values.find_search(search, namespace) if search else None,
        "points": [values.assignments(values.words_of(words), namespace) for words in points],
        "scheduler": values.find_scheduler(scheduler, namespace) if scheduler else None,
    }


def _places(session: Session, sync: str, restore: str) -> dict[str, Any]:
    """Return the arguments of `nbckpt.run` for the experiment's folder, its sync and its origin."""
    return {
        "folder": session.library.folder,
        "sync_config": SyncConfig(upload_dir=sync) if sync else None,
        "restore": _origin(session, restore) if restore else None,
    }


def _origin(session: Session, ref: str) -> Restorable:
    """Return the session's checkpoint of this name; a trial's checkpoint, a path or a URL as it is."""
    return Checkpoint.from_store(session.tracker.store, ref) if is_ref(session, ref) else ref


def _stop(words: Sequence[str], session: Session) -> Stop:
    """Return the condition for `--stop loss=0.1`, or for `--stop 60`, which means seconds."""
    if len(words) == 1 and "=" not in words[0]:
        stop: Stop = values.evaluate(words[0], session.namespace, f"--stop {words[0]}")
        return stop
    return values.assignments(words, session.namespace) or None


def _under_way(session: Session, experiment: Experiment, *, wait: bool) -> Experiment:
    """Show a started experiment. Wait for its end with --wait, and always in a shell."""
    waits = wait or session.namespace is None
    try:
        if session.watch is not None:
            session.watch(experiment, experiment)
        if waits:
            experiment.wait()
    except KeyboardInterrupt:
        if not waits:
            raise
        _pause_all(experiment)
        raise Interrupted(_interrupted(experiment)) from None
    finally:
        if waits and session.watch is not None:
            session.watch(experiment, experiment)
    return experiment


def _pause_all(experiment: Experiment) -> None:
    """Pause all trials, and wait until none runs. An interrupt during the wait stops them instead."""
    try:
        experiment.pause()
        experiment.wait()
    except KeyboardInterrupt:
        experiment.stop()
        experiment.kill()
        experiment.wait(_KILLED_S)


def _interrupted(experiment: Experiment) -> str:
    states = states_of(experiment)
    if set(states.values()) & {PAUSED, RUNNING}:
        return f"interrupted: {counted(states)}. Resume: %ckpt resume {experiment.name}"
    return f"interrupted: {counted(states)}. Show: %ckpt trials {experiment.name}"


def trials(
    session: Session,
    experiment: ExperimentName = "",
    *,
    most: Number = MOST_ROWS,
    page: PageNumber = 0,
    where: Annotated[str, Word("EXPR")] = "",
    sort: Annotated[str, Word("M")] = "",
    metric: Metric = "",
    mode: Mode = "",
    columns: Annotated[str, Word("M,M")] = "",
    pareto: bool = False,
) -> TrialTable:
    """Show the trials of an experiment.

    Without EXP, the other experiments are listed too.

    Args:
        most: The number of rows on a page; 0 for all.
        page: The page to show, in the order of the trials.
        where: Show only the trials that pass a filter, such as "lr < 0.1 and tag == 'good'".
        sort: Sort by this metric, smallest first unless --mode is max. `best` shows the best trial first, by
            --metric and --mode or else those of the experiment.
        columns: Show only these metrics.
        pareto: Show only the Pareto front: trials that no other trial surpasses in all objectives.
    """
    library = session.library
    opened = library.open(experiment) if experiment else library.newest_whole()
    names = metric_columns(columns.split(",")) if columns else None
    is_sorted, order = bool(sort or metric or mode or pareto), str(mode)
    if sort not in {"", "best"}:
        metric = sort
        order = mode or opened.spec.mode_of(sort) or "min"
    others = () if experiment else _others(library, opened.name)
    table = TrialTable(opened, names, most, is_sorted, others, page, metric, order, where, pareto)
    if session.watch is not None and opened.running:
        session.watch(table, opened)
    return table


def _others(library: Catalog, name: str) -> tuple[tuple[str | Cell, ...], ...]:
    """Return a row for each other experiment, newest first."""
    names = [other for other in reversed(library.names()) if other != name]
    rows: list[tuple[str | Cell, ...]] = []
    for other in names[:_MOST_OTHERS]:
        try:
            trials, began = counted(states_of(library.open(other))), spec_file.began(library.folder / other)
            rows.append((other, trials, age(began)))
        except (NbckptError, OSError) as error:
            rows.append((other, str(error), ""))
    if len(names) > _MOST_OTHERS:
        rows.append(("…", f"{len(names) - _MOST_OTHERS} more", ""))
    return tuple(rows)


@dataclass(frozen=True, repr=False)
class Asked(Result):
    """The request that was sent to trials, as text, and the next command."""

    request: str
    hint: Hint

    def page(self) -> Page:
        """See `Result.page`."""
        return Page(self.request, hints=(self.hint,))


def pause(session: Session, target: Target = "") -> Asked:
    """Pause one trial or all trials, each after its next result."""
    return _ask(session, target, "pause")


def stop(session: Session, target: Target = "") -> Asked:
    """Stop one trial or all trials, each after its next result.

    A stopped trial is finished.
    """
    return _ask(session, target, "stop")


def checkpoint(session: Session, target: Target = "") -> Asked:
    """Save a checkpoint of each trial with its next result."""
    return _ask(session, target, "checkpoint")


def _ask(session: Session, target: str, verb: Literal["pause", "stop", "checkpoint"]) -> Asked:
    experiment, trial = target_of(session.library, target)
    name = experiment.name if trial is None else f"{experiment.name}/{trial.id}"
    states = states_of(experiment)
    asked = [
        candidate
        for candidate in (experiment.trials if trial is None else [trial])
        if _can(verb, candidate, states)
    ]
    if not asked:
        raise UsageError(f"there is nothing to {verb} in {name}: {counted(states)}")
    running = [
        candidate
        for candidate in asked
        if candidate.status == Status.RUNNING and states[candidate.id] != INTERRUPTED
    ]
    getattr(experiment, verb)(trial)
    names = ", ".join(candidate.id for candidate in asked[:8]) + (", …" if len(asked) > 8 else "")
    request = {
        "pause": f"Pausing {names} of {experiment.name}",
        "stop": f"Stopping {names} of {experiment.name}",
        "checkpoint": f"{names} of {experiment.name} {'save' if len(asked) > 1 else 'saves'} a checkpoint",
    }[verb]
    after = " with the next result" if verb == "checkpoint" else " after the next result" if running else ""
    resume = Hint("Resume", f"%ckpt resume {name}")
    if experiment.spec.executor == LOOP:
        resume = Hint(
            "Continue", f"nbckpt.track({experiment.name!r}, resume={trial.id if trial else True!r})"
        )
    hint = resume if verb == "pause" else Hint("Show", f"%ckpt trials {experiment.name}")
    return Asked(f"{request}{after}.", hint)


def _can(verb: str, trial: Trial, states: Mapping[str, str]) -> bool:
    if verb == "checkpoint":
        return trial.status == Status.RUNNING and states[trial.id] != INTERRUPTED
    return not trial.finished and not (verb == "pause" and trial.status == Status.PAUSED)


def resume(
    session: Session, target: Target = "", *, errored: bool = False, trust: bool = False, wait: Wait = False
) -> Experiment:
    """Resume trials from their last checkpoints.

    These are paused and interrupted trials, also those of a kernel that has ended.

    Args:
        errored: Also resume failed trials.
        trust: Load the function and the checkpoints even if someone else wrote them.
    """
    experiment, trial = target_of(session.library, target)
    if session.namespace is None:
        values.add_working_folder()
    experiment.resume(trial, errored=errored, trust=trust)
    return _under_way(session, experiment, wait=wait)


def target_of(library: Catalog, target: str) -> tuple[Experiment, Trial | None]:
    """Return the experiment and the trial that a word refers to; by default the newest experiment."""
    if not target or target in library.names():
        return library.open(target), None
    return library.trial(target)
